"""Benchmark of a sustained rate: jobs that fire every second, evenly spread over it, and how late their bodies began.

Usage: `python -m verification.bench.sustained [--seconds 12] [--task bench.coroutine] [--once] [rates per second…]`, on
SQLite or DATABASE_URL. The exit status is 1 if a slot was skipped or missed.
"""

import argparse
import sys
import time
from collections import Counter
from datetime import timedelta

import psutil

from verification.bench import harness

DATA = harness.prepare()

from schedules import clock  # noqa: E402

RATES = (1, 10, 100, 250, 500, 1000, 1500, 2000, 3000)
SECOND = timedelta(seconds=1)
# The roles of a cluster's processes, by a word of their titles.
ROLES = {
    "pusher": "pusher",
    "processing": "workers",
    "idle": "workers",
    "leader": "leader",
}


def sustain(leader: psutil.Process, rate: int, seconds: int, task: str, *, once: bool) -> bool:
    """Fire at a rate for some seconds, and print one line; return whether every slot has run."""
    begin = clock.now() + timedelta(seconds=3) + timedelta(milliseconds=rate * (seconds if once else 1) / 3)
    expected = rate * seconds
    if once:
        harness.make_jobs([begin + n * SECOND / rate for n in range(expected)], task)
    else:
        first = [begin + n * SECOND / rate for n in range(rate)]
        harness.make_interval_jobs(first, SECOND, (seconds - 1) * SECOND, task)
    ahead = (begin - clock.now()) / SECOND
    assert ahead > 0, "the jobs took too long to create"
    time.sleep(ahead)
    before = cpu_seconds(leader)
    time.sleep(seconds)
    after = cpu_seconds(leader)
    statuses = harness.wait_until_quiet()
    late = harness.seconds_late() or [0.0]
    shares = " ".join(
        f"{role} {100 * (after[role] - before[role]) / seconds:.0f} %"
        for role in ("pusher", "workers", "foreign")
    )
    skipped = expected - statuses["succeeded"]
    print(
        f"{harness.database_name()}_sustained_{rate}"
        f" p50 {1000 * harness.percentile(late, 0.5):.1f} ms p99 {1000 * harness.percentile(late, 0.99):.1f} ms"
        f" not_run {skipped} ({100 * skipped / expected:.1f} %) settled {statuses['succeeded']} cpu {shares}",
        flush=True,
    )
    assert min(late) >= 0, "a job started early"
    harness.forget_everything()
    return skipped == 0


def cpu_seconds(leader: psutil.Process) -> Counter[str]:
    """Return how many seconds of CPU the processes of each role have used, and those of others on this machine."""
    used: Counter[str] = Counter()
    everybody = psutil.cpu_times()
    used["foreign"] = sum(everybody) - everybody.idle - everybody.iowait  # type: ignore[assignment]
    for process in (leader, *leader.children(recursive=True)):
        title = " ".join(process.cmdline())
        role = next((role for word, role in ROLES.items() if word in title), "others")
        seconds = sum(process.cpu_times()[:2])
        used[role] += seconds  # type: ignore[assignment]
        used["foreign"] -= seconds  # type: ignore[assignment]
    return used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rates", nargs="*", type=int, default=RATES)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--task", default="bench.coroutine")
    parser.add_argument("--once", action="store_true", help="one-time jobs instead of recurring ones")
    options = parser.parse_args()
    print(f"# {harness.database_name()}, load {harness.load()}")
    with harness.cluster() as process:
        harness.wait_for_worker()
        leader = psutil.Process(process.pid)
        are_clean = [
            sustain(leader, rate, options.seconds, options.task, once=options.once) for rate in options.rates
        ]
    print(f"# load {harness.load()}")
    harness.discard(DATA)
    return 0 if all(are_clean) else 1


if __name__ == "__main__":
    sys.exit(main())
