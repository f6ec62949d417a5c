"""Benchmarks of the web server, as `name value unit`: `python -m verification.bench.web [pages] [visitors] [pings] [api]`.

On SQLite or DATABASE_URL. `pages`: the jobs page with many jobs and runs. The others run beside firing jobs. `visitors`: how
late these begin while people reload the jobs page. `pings`: how many a second are stored, and what a wrong key costs. `api`:
how long calls take at a steady rate. The exit status is 1 if a ping that was answered with 200 is not stored, a slot was
skipped or a call failed.
"""

import argparse
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.client import HTTPConnection

from verification.bench import clients, harness

os.environ |= {"CRONTY_PINGS_PER_MINUTE": "0", "CRONTY_MCP_CALLS_PER_MINUTE": "1000000"}
DATA = harness.prepare()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.models import Sum  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.models import Cluster, Execution, Heartbeat, Job, Profile, Token  # noqa: E402
from schedules.result import Ok  # noqa: E402
from schedules.services import issue_token  # noqa: E402

VISITS = 15
PEOPLE, BURST, BURSTS = 10, 200, 5
HEARTBEATS, CONNECTIONS, SECONDS, WRONG_SECONDS = 200, 64, 20, 5
# Calls of the API a minute, the connections that send them, and the jobs that fire a second.
CALLS, CALLERS, FIRING, API_SECONDS = 2000, 8, 100, 30


def signed_in(owner: User) -> Client:
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    return client


def pages(owner: User) -> bool:
    """Show how long the server takes for the jobs page, with more and more jobs."""
    now = clock.now()
    Cluster.objects.create(host="bench", pid=1, started_at=now, last_seen_at=now, probe_returned_at=now)
    client = signed_in(owner)
    make_cron_jobs(owner, 200)
    make_executions(owner, 100_000)
    visit(client, "jobs_page_200_jobs_100000_executions")
    made = 200
    for count in (10_000, 100_000):
        make_cron_jobs(owner, count - made)
        made = count
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        visit(client, f"jobs_page_{count}_jobs")
    Cluster.objects.all().delete()
    harness.forget_everything()
    return True


def make_cron_jobs(owner: User, count: int) -> None:
    now, stem = clock.now(), time.time_ns()
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
    now, jobs = clock.now(), list(Job.objects.all())
    ended = {"status": "succeeded", "started_at": now, "finished_at": now}
    rows = (
        Execution.of(jobs[number % len(jobs)], now - timedelta(minutes=number), **ended)
        for number in range(count)
    )
    Execution.objects.bulk_create(rows, batch_size=500)


def visit(client: Client, name: str) -> None:
    times = []
    for _ in range(VISITS):
        begin = time.perf_counter()
        assert client.get("/").status_code == 200
        times.append((time.perf_counter() - begin) * 1000)
    with CaptureQueriesContext(connection) as queries:
        client.get("/")
    harness.show(f"{connection.vendor}_{name}_p50", harness.median(times), "ms")
    harness.show(f"{connection.vendor}_{name}_queries", len(queries), "queries")


@contextmanager
def reloading(count: int, port: int, cookie: str) -> Iterator[list[float]]:
    """Let people reload the jobs page, one request after the other, inside the block; yield how long each took."""
    is_over = threading.Event()
    took: list[float] = []

    def reload() -> None:
        http = HTTPConnection("127.0.0.1", port, timeout=30)
        while not is_over.is_set():
            begin = time.perf_counter()
            http.request("GET", "/", headers={"Cookie": cookie})
            answer = http.getresponse()
            answer.read()
            assert answer.status == 200, f"the page answered {answer.status}"
            took.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=reload) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield took
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def bursts() -> list[float]:
    """Let jobs fire at once, several times; return how late each began."""
    late: list[float] = []
    for _ in range(BURSTS):
        harness.make_jobs([clock.now() + timedelta(seconds=2)] * BURST, "bench.coroutine")
        harness.wait_until_settled(BURST)
        late += harness.seconds_late()
        harness.forget_everything()
    assert len(late) == BURST * BURSTS, f"{len(late)} calls"
    assert min(late) >= 0, "a job started early"
    return late


def visitors(owner: User) -> bool:
    cookies = signed_in(owner).cookies
    cookie = "; ".join(f"{name}={value.value}" for name, value in cookies.items())
    with harness.cluster(), harness.web() as port:
        harness.wait_for_worker()
        alone = harness.percentile(bursts(), 0.99)
        with reloading(PEOPLE, port, cookie) as took:
            beside = harness.percentile(bursts(), 0.99)
    name = f"{connection.vendor}_{BURST}_coroutines"
    harness.show(f"{name}_p99", alone, "s")
    harness.show(f"{name}_beside_{PEOPLE}_people_p99", beside, "s")
    harness.show(f"{connection.vendor}_page_p50", 1000 * harness.percentile(took, 0.5), "ms")
    harness.show(f"{connection.vendor}_pages", len(took), "pages")
    return True


def sent_beside(
    name: str, port: int, requests: list[bytes], *, seconds: int, connections: int, rate: float | None = None
) -> clients.Outcomes:
    """Send requests, and show what each cost the web process."""
    server = harness.web_process()
    before = sum(server.cpu_times()[:2])
    sent = clients.send_all(port, requests, seconds=seconds, connections=connections, rate=rate)
    spent = sum(server.cpu_times()[:2]) - before
    harness.show(f"{connection.vendor}_{name}_processor_time", 1000 * spent / len(sent.took), "ms")
    print(f"# {name}: answers {dict(sent.statuses)}")
    return sent


def pings(owner: User) -> bool:
    at = clock.now() + timedelta(hours=1)
    harness.make_interval_jobs([at] * HEARTBEATS, timedelta(hours=1), timedelta(days=1), "heartbeat")
    beats = [Heartbeat(job=job, owner=owner) for job in Job.objects.filter(task="heartbeat")]
    ids = [beat.ping_id for beat in Heartbeat.objects.bulk_create(beats)]
    with harness.cluster(), harness.web() as port:
        harness.wait_for_worker()
        harness.fire_steadily(50, SECONDS, "bench.coroutine")
        right = [clients.request_bytes("POST", f"/ping/{each}", port) for each in ids]
        sent = sent_beside("ping", port, right, seconds=SECONDS, connections=CONNECTIONS)
        harness.show(f"{connection.vendor}_pings_stored", sent.statuses[200] / SECONDS, "pings/s")
        harness.show(f"{connection.vendor}_ping_p95", 1000 * harness.percentile(sent.took, 0.95), "ms")
        stored = Heartbeat.objects.aggregate(pings=Sum("pings"))["pings"]
        print(f"# stored {stored}")
        wrong = [clients.request_bytes("GET", f"/ping/{uuid.uuid4()}", port) for _ in range(10_000)]
        refused = sent_beside("wrong_key", port, wrong, seconds=WRONG_SECONDS, connections=CONNECTIONS)
        count = len(refused.took) / WRONG_SECONDS
        harness.show(f"{connection.vendor}_wrong_keys_answered", count, "pings/s")
    harness.forget_everything()
    return bool(stored >= sent.statuses[200])


def api(owner: User) -> bool:
    issued = issue_token(owner, name="bench program", kind=Token.Kind.PROGRAM)
    assert isinstance(issued, Ok), issued
    harness.make_jobs([clock.now() + timedelta(days=30)] * 200, "bench.coroutine")
    job_id = Job.objects.values_list("public_id", flat=True)[0]
    headers = {"Authorization": f"Bearer {issued.value.text}"}
    paths = ("/api/v1/jobs?limit=20", f"/api/v1/jobs/{job_id}", "/api/v1/runs?limit=20", "/api/v1/me")
    with harness.cluster(), harness.web() as port:
        harness.wait_for_worker()
        requests = [clients.request_bytes("GET", path, port, headers) for path in paths]
        clients.send_all(port, requests, seconds=1, connections=1)
        harness.fire_steadily(FIRING, API_SECONDS, "bench.coroutine")
        sent = sent_beside("api", port, requests, seconds=API_SECONDS, connections=CALLERS, rate=CALLS / 60)
        Job.objects.filter(trigger_type="once").delete()
        statuses = harness.wait_until_quiet()
    late = harness.seconds_late() or [0.0]
    for share in (0.5, 0.95):
        name = f"{connection.vendor}_api_p{100 * share:.0f}"
        harness.show(name, 1000 * harness.percentile(sent.took, share), "ms")
    name = f"{connection.vendor}_coroutines_beside_api_p99"
    harness.show(name, 1000 * harness.percentile(late, 0.99), "ms")
    harness.forget_everything()
    return set(sent.statuses) == {200} and set(statuses) <= {"succeeded"}


MEASURES: dict[str, Callable[[User], bool]] = {
    "pages": pages,
    "visitors": visitors,
    "pings": pings,
    "api": api,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="measure", help=f"some of: {', '.join(MEASURES)}")
    wanted = parser.parse_args().measures or list(MEASURES)
    call_command("collectstatic", verbosity=0, interactive=False)
    owner, _ = User.objects.get_or_create(username="bench")
    Profile.objects.get_or_create(user=owner, defaults={"timezone": "Europe/Berlin"})
    print(f"# {connection.vendor}, load {harness.load()}")
    results = [MEASURES[name](owner) for name in wanted]
    print(f"# load {harness.load()}")
    harness.discard(DATA)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
