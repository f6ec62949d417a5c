"""Benchmark of the engine: lateness and speed of a burst, as `name value unit`, on SQLite or DATABASE_URL.

Lateness is measured inside the body of the task.
"""

import sys
from datetime import timedelta

import psutil

from verification.bench import harness

DATA = harness.prepare()

from schedules import clock  # noqa: E402
from schedules.models import Execution  # noqa: E402

LEAD = timedelta(seconds=3)


def single_jobs(name: str) -> None:
    """Run 200 one-time jobs spread over 30 seconds."""
    begin = clock.now() + LEAD
    harness.make_jobs([begin + timedelta(seconds=30 * n / 200) for n in range(200)], "bench.coroutine")
    harness.wait_until_settled(200)
    late = harness.seconds_late()
    harness.show(f"{name}_p50", harness.percentile(late, 0.5) * 1000, "ms")
    harness.show(f"{name}_p99", harness.percentile(late, 0.99) * 1000, "ms")
    assert min(late) >= 0, "a job started early"
    harness.forget_everything()


def burst(name: str, count: int, task: str) -> None:
    """Run many jobs that are due at the same instant."""
    due = clock.now() + LEAD + timedelta(milliseconds=count)
    harness.make_jobs([due] * count, task)
    harness.wait_until_settled(count)
    late = harness.seconds_late()
    assert len(late) == count, f"{len(late)} calls for {count} jobs"
    harness.show(f"{name}_p50", harness.percentile(late, 0.5), "s")
    harness.show(f"{name}_p99", harness.percentile(late, 0.99), "s")
    ends = Execution.objects.values_list("finished_at", flat=True)
    harness.show(f"{name}_all_settled", (max(filter(None, ends)) - due).total_seconds(), "s")
    harness.forget_everything()


def notifications(name: str) -> None:
    """Send 1,000 notifications to a server that takes 100 ms for each."""
    due = clock.now() + LEAD + timedelta(seconds=1)
    harness.make_jobs([due] * 1000, "notify", kwargs={"message": "bench", "topic": "bench"})
    harness.wait_until_settled(1000)
    delivered = Execution.objects.filter(status="succeeded").values_list("finished_at", flat=True)
    assert len(delivered) == 1000, "some were not delivered"
    harness.show(f"{name}_all_delivered", (max(filter(None, delivered)) - due).total_seconds(), "s")
    harness.forget_everything()


def main() -> None:
    database = harness.database_name()
    wanted = sys.argv[1:] or ["single", "coroutines", "plain", "large", "notify", "idle", "million"]
    print(f"# {database}, load {harness.load()}")
    with harness.slow_server(), harness.cluster() as process:
        harness.wait_for_worker()
        if "single" in wanted:
            single_jobs(f"{database}_lateness")
        if "coroutines" in wanted:
            burst(f"{database}_1000_coroutines", 1000, "bench.coroutine")
        if "plain" in wanted:
            burst(f"{database}_1000_plain", 1000, "bench.plain")
        if "large" in wanted:
            burst(f"{database}_10000_coroutines", 10_000, "bench.coroutine")
        if "notify" in wanted:
            notifications(f"{database}_1000_notifications")
        if "idle" in wanted:
            harness.idle(f"{database}_idle_cluster", psutil.Process(process.pid))
        if "million" in wanted:
            harness.make_idle_jobs(1_000_000)
            single_jobs(f"{database}_lateness_beside_a_million")
    print(f"# load {harness.load()}")
    harness.discard(DATA)


if __name__ == "__main__":
    main()
