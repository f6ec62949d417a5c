"""Benchmark of bursts of several kinds: when webhooks, coroutines and short plain functions begin, each alone and together.

Usage: `python -m verification.bench.mixed [alone mixed few webhooks]`, on SQLite or DATABASE_URL. A webhook begins when its
request arrives. The processor time of a webhook is that of the cluster's workers.
"""

import sys
import time
from collections import defaultdict
from datetime import timedelta

import psutil

from verification.bench import harness, recorder

DATA = harness.prepare()

from schedules import clock  # noqa: E402
from schedules.models import Execution  # noqa: E402

SHORT = "short"
WEBHOOK = "webhook"
COROUTINE = "coroutine"
TASKS = {SHORT: "bench.short", WEBHOOK: "webhook", COROUTINE: "bench.coroutine"}
LABELS = {"request": WEBHOOK, "short": SHORT}
BURST = {WEBHOOK: 500, SHORT: 200, COROUTINE: 1000}
FEW = {WEBHOOK: 20, SHORT: 100}


def burst(name: str, counts: dict[str, int], address: str, workers: list[psutil.Process]) -> None:
    """Run jobs of several kinds that are due at the same instant."""
    due = clock.now() + timedelta(seconds=2) + timedelta(milliseconds=sum(counts.values()))
    for kind, count in counts.items():
        kwargs = {"url": address, "body": {"text": "bench"}} if kind == WEBHOOK else {}
        harness.make_jobs([due] * count, TASKS[kind], kwargs=kwargs)
    time.sleep((due - clock.now()) / timedelta(seconds=1) - 0.5)
    before = _cpu_seconds(workers)
    harness.wait_until_settled(sum(counts.values()))
    spent = _cpu_seconds(workers) - before
    not_run = Execution.objects.exclude(status="succeeded").count()
    assert not not_run, f"{not_run} did not succeed"
    late = defaultdict(list)
    for row in recorder.read(DATA):
        late[LABELS.get(row.label, COROUTINE)].append(row.at / 1e9 - due.timestamp())
    for kind, count in counts.items():
        assert len(late[kind]) == count, f"{len(late[kind])} of {count} begun: {kind}"
        assert min(late[kind]) >= 0, f"one began early: {kind}"
        harness.show(f"{name}_{kind}_first", min(late[kind]), "s")
        harness.show(f"{name}_{kind}_p99", harness.percentile(late[kind], 0.99), "s")
        harness.show(f"{name}_{kind}_last", max(late[kind]), "s")
    if set(counts) == {WEBHOOK}:
        harness.show(f"{name}_processor_time_each", 1000 * spent / counts[WEBHOOK], "ms")
    harness.forget_everything()


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def main() -> None:
    database = harness.database_name()
    wanted = sys.argv[1:] or ["alone", "mixed", "few", "webhooks"]
    print(f"# {database}, load {harness.load()}")
    with harness.slow_server(0) as address, harness.cluster() as process:
        harness.wait_for_worker()
        family = psutil.Process(process.pid).children(recursive=True)
        workers = [member for member in family if " idle" in " ".join(member.cmdline())]
        assert len(workers) == 3, f"{len(workers)} workers"
        if "alone" in wanted:
            for kind, count in BURST.items():
                burst(f"{database}_{kind}_alone", {kind: count}, address, workers)
        if "mixed" in wanted:
            burst(f"{database}_mixed", BURST, address, workers)
        if "few" in wanted:
            burst(f"{database}_few", FEW, address, workers)
        if "webhooks" in wanted:
            burst(f"{database}_100_webhooks", {WEBHOOK: 100}, address, workers)
    print(f"# load {harness.load()}")
    harness.discard(DATA)


if __name__ == "__main__":
    main()
