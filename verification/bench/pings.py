"""Benchmark of pings beside firing jobs: how many a second are stored, and what a wrong key costs.

Usage: `python -m verification.bench.pings [--seconds 20] [--firing 50]`, on SQLite or DATABASE_URL. The exit status is 1 if a
ping that was answered with 200 is not stored.
"""

import argparse
import os
import sys
import uuid
from datetime import timedelta

from verification.bench import clients, harness

DATA = harness.prepare()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db.models import Sum  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.models import Heartbeat, Job  # noqa: E402

HEARTBEATS = 200
CONNECTIONS = 64
WRONG_SECONDS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--firing", type=int, default=50)
    options = parser.parse_args()
    os.environ["CRONTY_PINGS_PER_MINUTE"] = "0"
    call_command("collectstatic", verbosity=0, interactive=False)
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}")
    with harness.cluster(), harness.web() as port:
        harness.wait_for_worker()
        ids = make_heartbeats()
        harness.fire_steadily(options.firing, options.seconds, "bench.coroutine")
        requests = [clients.request_bytes("POST", f"/ping/{each}", port) for each in ids]
        server = harness.web_process()
        before = sum(server.cpu_times()[:2])
        sent = clients.send_all(port, requests, seconds=options.seconds, connections=CONNECTIONS)
        spent = sum(server.cpu_times()[:2]) - before
        harness.show(f"{database}_pings_stored", sent.statuses[200] / options.seconds, "pings/s")
        harness.show(f"{database}_ping_processor_time", 1000 * spent / sent.statuses[200], "ms")
        harness.show(f"{database}_ping_p95", 1000 * harness.percentile(sent.took, 0.95), "ms")
        stored = Heartbeat.objects.aggregate(pings=Sum("pings"))["pings"]
        print(f"# answers {dict(sent.statuses)}, stored {stored}")
        send_wrong_keys(database, port)
    print(f"# load {harness.load()}")
    harness.discard(DATA)
    return 0 if stored >= sent.statuses[200] else 1


def make_heartbeats() -> list[uuid.UUID]:
    at = clock.now() + timedelta(hours=1)
    harness.make_interval_jobs([at] * HEARTBEATS, timedelta(hours=1), timedelta(days=1), "heartbeat")
    owner = User.objects.get(username="bench")
    jobs = Job.objects.filter(task="heartbeat")
    made = Heartbeat.objects.bulk_create(Heartbeat(job=job, owner=owner) for job in jobs)
    return [heartbeat.ping_id for heartbeat in made]


def send_wrong_keys(database: str, port: int) -> None:
    """Send pings to addresses that nobody has, and show what each costs the web process."""
    wrong = [clients.request_bytes("GET", f"/ping/{uuid.uuid4()}", port) for _ in range(10_000)]
    server = harness.web_process()
    before = sum(server.cpu_times()[:2])
    sent = clients.send_all(port, wrong, seconds=WRONG_SECONDS, connections=CONNECTIONS)
    spent = sum(server.cpu_times()[:2]) - before
    count = sum(sent.statuses.values())
    harness.show(f"{database}_wrong_keys_answered", count / WRONG_SECONDS, "pings/s")
    harness.show(f"{database}_wrong_key_processor_time", 1000 * spent / count, "ms")
    print(f"# answers to wrong keys {dict(sent.statuses)}")


if __name__ == "__main__":
    sys.exit(main())
