"""Benchmark of pruning beside a steady inflow of finished runs, as `name value unit`: backlog, and lateness of other jobs.

Usage: `python -m verification.bench.pruning [rows per second] [seconds]`. The exit status is 1 if the backlog grows.
"""

import multiprocessing
import os
import sys
import time
from datetime import timedelta

from verification.bench import harness, recorder

PER_JOB = 100
JOBS = 200
os.environ["CRONTY_HISTORY_PER_JOB"] = str(PER_JOB)
DATA = harness.prepare()

from django.db import OperationalError, connections  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.engine.upkeep.prune import SLACK  # noqa: E402
from schedules.models import Execution, Job  # noqa: E402
from schedules.worker.sessions import use_engine_session  # noqa: E402


def write_rows(rate: int, seconds: float) -> None:
    """Write finished runs of many jobs at a steady rate, in transactions like those of a claim."""
    use_engine_session()
    job_ids = list(Job.objects.filter(name__startswith="bench ").order_by("pk").values_list("pk", flat=True))
    jobs = Job.objects.in_bulk(job_ids)
    begin, written = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        now = clock.now()
        rows = [
            Execution.of(
                jobs[job_id], now, status="succeeded", started_at=now, finished_at=now, result={"status": 200}
            )
            for job_id in job_ids
        ]
        try:
            Execution.objects.bulk_create(rows)
            written += len(rows)
        except OperationalError as error:
            print(f"# {error}")
        time.sleep(max(0.0, begin + written / rate - time.monotonic()))
    harness.show("written", written / (time.monotonic() - begin), "rows/s")


def backlog() -> int:
    """Return how many rows there are beyond the limit of each job."""
    return Execution.objects.filter(job_name__startswith="bench ").count() - JOBS * PER_JOB


def measure(label: str, rate: int, seconds: int) -> list[int]:
    """Show how late four jobs a second start beside the inflow; return the backlog every five seconds."""
    begin = clock.now() + timedelta(seconds=3)
    moments = [begin + timedelta(seconds=0.25 * number) for number in range(4 * (seconds - 5))]
    harness.make_jobs(moments, "bench.coroutine")
    Job.objects.filter(run_at__gte=begin, run_at__lte=moments[-1]).update(name="measured")
    connections.close_all()
    writer = multiprocessing.get_context("fork").Process(target=write_rows, args=(rate, seconds))
    writer.start()
    backlogs, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(5.0, max(0.1, until - time.monotonic())))
        backlogs.append(backlog())
        print(f"# backlog {backlogs[-1]}")
    writer.join()
    late = [1000 * seconds for seconds in harness.seconds_late()]
    assert len(late) == len(moments), f"{len(late)} of {len(moments)} started"
    harness.show(f"{label}_p50", harness.percentile(late, 0.5), "ms")
    harness.show(f"{label}_p99", harness.percentile(late, 0.99), "ms")
    Job.objects.filter(name="measured").delete()
    return backlogs


def main() -> int:
    rate, seconds = (int(word) for word in (sys.argv[1:] + ["2000", "60"][len(sys.argv) - 1 :]))
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}")
    harness.make_jobs([clock.now() + timedelta(days=300)] * JOBS, "bench.coroutine")
    backlogs: list[int] = []
    for is_pruning in (False, True):
        os.environ["CRONTY_HISTORY_PER_JOB"] = str(PER_JOB if is_pruning else 10**6)
        Execution.objects.all().delete()
        recorder.forget(DATA)
        label = f"{database}_lateness_{'with' if is_pruning else 'without'}_pruning"
        with harness.cluster():
            harness.wait_for_worker()
            backlogs = measure(label, rate, seconds)
    harness.show(f"{database}_backlog_after_a_third", backlogs[len(backlogs) // 3], "rows")
    harness.show(f"{database}_backlog_at_the_end", backlogs[-1], "rows")
    print(f"# load {harness.load()}")
    connections.close_all()
    harness.discard(DATA)
    # A job is visited when it has that many new rows.
    return 0 if backlogs[-1] < JOBS * SLACK + 2 * rate else 1


if __name__ == "__main__":
    sys.exit(main())
