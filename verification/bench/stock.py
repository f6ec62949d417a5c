"""Benchmark of django-q2's own Schedule for comparison: the same jobs, due in the same second."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

from verification.bench import harness

os.environ["BENCH_STOCK"] = "1"
DATA = harness.prepare()

from django.utils import timezone  # noqa: E402
from django_q.models import Schedule, Success  # noqa: E402


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    due = timezone.now() + timedelta(seconds=5)
    Schedule.objects.bulk_create(
        Schedule(
            func="verification.bench.tasks.stock",
            args=f"{int(due.timestamp() * 1e9)},",
            name=f"stock {number}",
            schedule_type=Schedule.ONCE,
            next_run=due,
        )
        for number in range(count)
    )
    code = "from django_q.management.commands.qcluster import Command; Command().handle(run_once=False)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"import django; django.setup(); {code}"], cwd=harness.PROJECT, env=os.environ
    )
    try:
        until = time.monotonic() + 150
        while Success.objects.count() < count and time.monotonic() < until:
            time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(40)
    late = harness.seconds_late()
    name = f"{harness.database_name()}_stock_django_q2_{count}_due"
    harness.show(f"{name}_p50", harness.percentile(late, 0.5), "s")
    harness.show(f"{name}_p99", harness.percentile(late, 0.99), "s")
    harness.discard(DATA)


if __name__ == "__main__":
    main()
