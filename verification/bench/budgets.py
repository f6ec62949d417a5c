"""Benchmark of every page and feed at the limit of the quotas: CPU seconds and memory, as `name value unit`.

Each address is requested with empty caches, as after a restart. The exit status is 1 if
one of them costs more than its budget.
"""

import sys
import time
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from verification.bench import harness

DATA = harness.prepare()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import Client  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.models import Cluster, Event, Execution, Job, Profile  # noqa: E402
from schedules.when import cron, forecast  # noqa: E402
from schedules.worker.calls import KEPT_BYTES  # noqa: E402

MOST_SECONDS = 1.0
MOST_MEGABYTES = 50.0
RUNS = 30_000
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC")
# One schedule per number, all distinct, because jobs with the same schedule share their forecast.
SCHEDULES = {
    "every_second": lambda number: {"trigger_type": "interval", "every": timedelta(seconds=1)},
    "every_minute": lambda number: {
        "cron": f"* * {number % 28 + 1},{number // 28 % 28 + 1}-31 * {number % 7}"
    },
    "limited": lambda number: {
        "cron": f"* * {number % 28 + 1},{number // 28 % 28 + 1}-31 * {number % 7}",
        "max_runs": 10**9,
    },
    "ending": lambda number: {
        "cron": f"0-{number % 58 + 1} 0-{number // 58 % 22 + 1} * * *",
        "ends_at": clock.now() + timedelta(days=500, seconds=number),
    },
    "hourly": lambda number: {"cron": f"{number % 60} * {number // 60 % 28 + 1}-31 * *"},
}


def make_jobs(owner: User, kind: str) -> None:
    now = clock.now()
    Job.objects.all().delete()
    jobs = []
    for number in range(settings.CRONTY_MAX_ACTIVE_JOBS):
        fields: dict[str, Any] = {"trigger_type": "cron"} | SCHEDULES[kind](number)
        if fields["trigger_type"] == "interval":
            fields["anchor_at"] = now
        jobs.append(
            Job(
                owner=owner,
                public_id=f"job_{kind}_{number}",
                name=f"{kind} {number} " + "é" * 150,
                task="webhook",
                kwargs={"url": "https://example.org/", "body": "x" * (settings.CRONTY_MAX_JSON_BYTES - 100)},
                timezone=ZONES[number % len(ZONES)],
                next_run_at=now + timedelta(hours=1),
                created_at=now,
                updated_at=now,
                **fields,
            )
        )
    Job.objects.bulk_create(jobs, batch_size=200)


def make_runs(owner: User, job: Job) -> None:
    now = clock.now()
    large = "é" * (KEPT_BYTES // 2)

    def rows() -> Iterator[Execution]:
        for number in range(RUNS):
            has_failed = number % 2
            yield Execution.of(
                job,
                now - timedelta(seconds=number),
                status="failed" if has_failed else "succeeded",
                started_at=now,
                finished_at=now,
                lateness=timedelta(seconds=1),
                result=None if has_failed else large,
                error=large if has_failed else "",
                traceback=large if has_failed else "",
            )

    Execution.objects.bulk_create(rows(), batch_size=200)


def make_events(owner: User, job: Job) -> None:
    now = clock.now()
    values = {"kwargs": {"body": "x" * (settings.CRONTY_MAX_JSON_BYTES - 100)}}
    Event.objects.bulk_create(
        [
            Event(
                at=now,
                owner=owner,
                actor="bench",
                door="web",
                verb="edit",
                job=job,
                before=values,
                after=values,
            )
            for _ in range(500)
        ],
        batch_size=50,
    )


def get(client: Client, address: str) -> tuple[int, int]:
    """Return the status and the number of bytes of an answer."""
    answer = client.get(address, headers={"host": "127.0.0.1", "accept-encoding": "gzip"})
    parts = answer.streaming_content if answer.streaming else [answer.content]
    return answer.status_code, sum(map(len, parts))


def forget_schedules() -> None:
    for module in (cron, forecast):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def measure(client: Client, name: str, address: str) -> bool:
    """Show the cost of one request, and return whether it keeps to its budget."""
    forget_schedules()
    begin = time.process_time()
    status, size = get(client, address)
    seconds = time.process_time() - begin
    forget_schedules()
    tracemalloc.start()
    get(client, address)
    megabytes = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert status == 200, f"{address} answered {status}"
    harness.show(f"{name}_cpu", seconds, "s")
    harness.show(f"{name}_memory", megabytes, "MB")
    is_kept = seconds <= MOST_SECONDS and megabytes <= MOST_MEGABYTES
    if not is_kept:
        print(f"# over budget: {address}, {size:,} bytes")
    return is_kept


def main() -> int:
    call_command("collectstatic", verbosity=0, interactive=False)
    owner = User.objects.create(username="bench", is_staff=True, is_superuser=True)
    profile = Profile.objects.create(user=owner, timezone="Europe/Berlin")
    now = clock.now()
    Cluster.objects.create(host="bench", pid=1, started_at=now, last_seen_at=now, probe_returned_at=now)
    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}")
    get(client, "/system/")
    results = []
    later = (now + timedelta(days=380)).date()
    for kind in SCHEDULES:
        make_jobs(owner, kind)
        for name, address in {
            "jobs": "/",
            "feed": f"/calendar/{profile.calendar_key}.ics",
            "month": "/calendar/",
            "next_year": f"/calendar/?on={later}",
            "day": "/calendar/?view=day",
        }.items():
            results.append(measure(client, f"{database}_{kind}_{name}", address))
    job = Job.objects.order_by("pk").last()
    assert job
    make_runs(owner, job)
    make_events(owner, job)
    newest = Execution.objects.order_by("-pk").values_list("pk", flat=True)[0]
    for name, address in {
        "export_csv": "/runs/export.csv",
        "runs": "/runs/",
        "last_runs": "/runs/?page=600",
        "search": "/runs/?q=nothing",
        "run": f"/runs/{newest}/",
        "output": f"/runs/{newest}/output.txt",
        "job": f"/jobs/{job.public_id}/",
        "edit": f"/jobs/{job.public_id}/edit/",
        "month_with_runs": "/calendar/",
        "jobs_search": "/?q=nothing",
        "activity": "/activity/",
        "notifications": "/notifications/",
        "inbox": "/inbox/",
        "system": "/system/",
        "metrics": "/metrics",
        "admin_jobs": "/admin/schedules/job/",
        "admin_runs": "/admin/schedules/execution/",
    }.items():
        results.append(measure(client, f"{database}_{name}", address))
    print(f"# load {harness.load()}")
    connections.close_all()
    harness.discard(DATA)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
