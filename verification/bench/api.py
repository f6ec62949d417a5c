"""Benchmark of the HTTP API beside firing jobs: how long calls take at a steady rate, and how late jobs begin meanwhile.

Usage: `python -m verification.bench.api [--seconds 30] [--firing 100] [--calls 2000]`, on SQLite or DATABASE_URL. Calls are per
minute. The exit status is 1 if a slot was skipped or a call failed.
"""

import argparse
import os
import sys
from datetime import timedelta

from verification.bench import clients, harness

DATA = harness.prepare()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.models import Job, Profile, Token  # noqa: E402
from schedules.result import Ok  # noqa: E402
from schedules.services import issue_token  # noqa: E402

CONNECTIONS = 8
JOBS = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--firing", type=int, default=100)
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    os.environ["CRONTY_MCP_CALLS_PER_MINUTE"] = str(10 * options.calls)
    call_command("collectstatic", verbosity=0, interactive=False)
    owner, _ = User.objects.get_or_create(username="bench")
    Profile.objects.get_or_create(user=owner)
    issued = issue_token(owner, name="bench program", kind=Token.Kind.PROGRAM)
    assert isinstance(issued, Ok), issued
    harness.make_jobs([clock.now() + timedelta(days=30)] * JOBS, "bench.coroutine")
    job_id = Job.objects.values_list("public_id", flat=True)[0]
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}")
    with harness.cluster(), harness.web() as port:
        harness.wait_for_worker()
        headers = {"Authorization": f"Bearer {issued.value.text}"}
        paths = ("/api/v1/jobs?limit=20", f"/api/v1/jobs/{job_id}", "/api/v1/runs?limit=20", "/api/v1/me")
        requests = [clients.request_bytes("GET", path, port, headers) for path in paths]
        clients.send_all(port, requests, seconds=1, connections=1)
        harness.fire_steadily(options.firing, options.seconds, "bench.coroutine")
        server = harness.web_process()
        before = sum(server.cpu_times()[:2])
        sent = clients.send_all(
            port, requests, seconds=options.seconds, connections=CONNECTIONS, rate=options.calls / 60
        )
        spent = sum(server.cpu_times()[:2]) - before
        Job.objects.filter(trigger_type="once").delete()
        statuses = harness.wait_until_quiet()
    late = harness.seconds_late() or [0.0]
    harness.show(f"{database}_api_processor_time", 1000 * spent / len(sent.took), "ms")
    harness.show(f"{database}_api_p50", 1000 * harness.percentile(sent.took, 0.5), "ms")
    harness.show(f"{database}_api_p95", 1000 * harness.percentile(sent.took, 0.95), "ms")
    harness.show(f"{database}_coroutines_beside_api_p99", 1000 * harness.percentile(late, 0.99), "ms")
    print(f"# answers {dict(sent.statuses)}, runs {dict(statuses)}, load {harness.load()}")
    harness.discard(DATA)
    return 0 if set(sent.statuses) == {200} and set(statuses) <= {"succeeded"} else 1


if __name__ == "__main__":
    sys.exit(main())
