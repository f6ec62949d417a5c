"""How late are jobs, and how fast is a burst? Prints `name value unit`; run on SQLite, or beside a DATABASE_URL."""

import sys
from datetime import timedelta

from bench import harness

DATA = harness.prepare()

from schedules import clock  # noqa: E402
from schedules.models import Execution  # noqa: E402

LEAD = timedelta(seconds=3)


def single_jobs(name: str) -> None:
    """200 one-offs spread over 30 seconds."""
    begin = clock.now() + LEAD
    harness.make_jobs([begin + timedelta(seconds=30 * n / 200) for n in range(200)], "bench.coroutine")
    harness.wait_until_settled(200)
    late = harness.seconds_late()
    harness.show(f"{name}_p50", harness.percentile(late, 0.5) * 1000, "ms")
    harness.show(f"{name}_p99", harness.percentile(late, 0.99) * 1000, "ms")
    assert min(late) >= 0, "a job started early"
    harness.forget_everything()


def burst(name: str, count: int, task: str) -> None:
    """Many jobs due in the same instant."""
    due = clock.now() + LEAD + timedelta(milliseconds=count)
    harness.make_jobs([due] * count, task)
    harness.wait_until_settled(count)
    late = harness.seconds_late()
    harness.show(f"{name}_start_p50", harness.percentile(late, 0.5), "s")
    harness.show(f"{name}_last_started", max(late), "s")
    ends = Execution.objects.values_list("finished_at", flat=True)
    harness.show(f"{name}_all_settled", (max(filter(None, ends)) - due).total_seconds(), "s")
    harness.forget_everything()


def main() -> None:
    database = harness.database_name()
    wanted = sys.argv[1:] or ["single", "coroutines", "plain", "large"]
    print(f"# {database}, load {harness.load()}")
    with harness.cluster():
        harness.wait_for_worker()
        if "single" in wanted:
            single_jobs(f"{database}_lateness")
        if "coroutines" in wanted:
            burst(f"{database}_1000_coroutines", 1000, "bench.coroutine")
        if "plain" in wanted:
            burst(f"{database}_1000_plain", 1000, "bench.plain")
        if "large" in wanted:
            burst(f"{database}_10000_coroutines", 10_000, "bench.coroutine")
    print(f"# load {harness.load()}")
    harness.discard(DATA)


if __name__ == "__main__":
    main()
