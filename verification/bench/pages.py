"""Benchmark of the jobs page with many jobs and runs: time on the server, as `name value unit`."""

import time
from datetime import timedelta

from verification.bench import harness

DATA = harness.prepare()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.models import Cluster, Execution, Job, Profile  # noqa: E402

VISITS = 15


def make_cron_jobs(owner: User, count: int) -> None:
    now = clock.now()
    stem = time.time_ns()
    Job.objects.bulk_create(
        [
            Job(
                owner=owner,
                public_id=f"job_{stem}_{number}",
                name=f"Job {number}",
                task="webhook",
                kwargs={"url": "https://example.org"},
                trigger_type="cron",
                cron=f"{number % 60} {number % 24} * * *",
                status="pending" if number % 10 else "completed",
                next_run_at=now + timedelta(minutes=number % 1440 + 1) if number % 10 else None,
                last_run_at=now,
                recent="SSSSSFSSSS",
                created_at=now,
                updated_at=now,
            )
            for number in range(count)
        ],
        batch_size=500,
    )


def make_executions(owner: User, count: int) -> None:
    now = clock.now()
    jobs = list(Job.objects.all())
    Execution.objects.bulk_create(
        [
            Execution(
                job=jobs[number % len(jobs)],
                owner=owner,
                job_name=jobs[number % len(jobs)].name,
                task="webhook",
                scheduled_for=now - timedelta(minutes=number),
                status="succeeded",
                started_at=now,
                finished_at=now,
            )
            for number in range(count)
        ],
        batch_size=500,
    )


def visit(client: Client, name: str) -> None:
    times = []
    for _ in range(VISITS):
        begin = time.perf_counter()
        assert client.get("/").status_code == 200
        times.append((time.perf_counter() - begin) * 1000)
    with CaptureQueriesContext(connection) as queries:
        client.get("/")
    harness.show(f"{name}_p50", harness.median(times), "ms")
    harness.show(f"{name}_queries", len(queries), "queries")


def main() -> None:
    call_command("collectstatic", verbosity=0, interactive=False)
    owner = User.objects.create(username="bench")
    Profile.objects.create(user=owner, timezone="Europe/Berlin")
    now = clock.now()
    Cluster.objects.create(host="bench", pid=1, started_at=now, last_seen_at=now, probe_returned_at=now)
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}")
    make_cron_jobs(owner, 200)
    make_executions(owner, 100_000)
    visit(client, f"{database}_jobs_page_200_jobs_100000_executions")
    made = 200
    for count in (10_000, 100_000):
        make_cron_jobs(owner, count - made)
        made = count
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        visit(client, f"{database}_jobs_page_{count}_jobs")
    print(f"# load {harness.load()}")
    harness.discard(DATA)


if __name__ == "__main__":
    main()
