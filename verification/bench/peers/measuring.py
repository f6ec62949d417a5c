"""Measurements of one system, printed as JSON lines: `python -m verification.bench.peers.measuring SYSTEM FOLDER MEASURE…`.

It runs in the environment of the system that it measures, so it imports nothing but the standard library.
"""

import importlib
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from verification.bench import recorder
from verification.bench.peers.system import System

SYSTEMS = {
    "cronty": "Cronty",
    "apscheduler": "APScheduler",
    "apscheduler_memory": "APSchedulerInMemory",
    "celery": "Celery",
    "django_q2": "DjangoQ2",
    "django_tasks_db": "DjangoTasksDb",
    "floor": "Floor",
    "huey": "Huey",
    "procrastinate": "Procrastinate",
}
MODULES = {"apscheduler_memory": "apscheduler"}
SECOND = 10**9
SINGLES = 60
SINGLES_SECONDS = 15
LIMIT_SECONDS = 60
LARGE_LIMIT_SECONDS = 30


def load(name: str, folder: Path) -> System:
    module = importlib.import_module(f"verification.bench.peers.{MODULES.get(name, name)}")
    system: System = getattr(module, SYSTEMS[name])(folder)
    return system


def describe(system: System) -> dict[str, Any]:
    parts = [f"{name} {version(name)}" for name in system.distributions]
    return {
        "settings": system.settings,
        "runs_coroutines": system.runs_coroutines,
        "versions": [*parts, system.store_version()],
    }


class Measuring:
    """Adds jobs to a running system, waits for their bodies and computes how late they began."""

    def __init__(self, system: System, folder: Path) -> None:
        self.system = system
        self.folder = folder
        # Jobs that can be added per second; a warm-up measures it.
        self.rate = 2000.0

    def warm_up(self, kind: str) -> None:
        """Let every process import and connect, and find out how quickly jobs can be added."""
        if not self.system.is_quick:
            return
        for count in (20, 50):
            begin = time.monotonic()
            self.system.add([time.time_ns() + SECOND] * count, kind)
            self.rate = count / (time.monotonic() - begin)
            if not self.wait(count, LIMIT_SECONDS):
                raise SystemExit(f"the warm-up did not end: {self.recorded()} of {count} jobs began")
            recorder.forget(self.folder)

    def single(self, kind: str, count: int = SINGLES, seconds: float = SINGLES_SECONDS) -> dict[str, Any]:
        """Run jobs one at a time, spread evenly over a few seconds."""
        step = int(seconds * SECOND / count)
        begin = self.begin(count)
        self.system.add([begin + number * step for number in range(count)], kind)
        self.wait(count, seconds + (begin - time.time_ns()) / SECOND + LIMIT_SECONDS)
        return self.result(count)

    def burst(self, kind: str, count: int = 1000, limit: float = LIMIT_SECONDS) -> dict[str, Any]:
        """Run many jobs that are due at the same instant, until the system's store says that all have ended."""
        slack = -1.0
        while slack < 0:
            due, begin = self.begin(count), time.monotonic()
            self.system.add([due] * count, kind)
            slack = (due - time.time_ns()) / SECOND
            if slack < 0:
                # Adding took longer than the warm-up promised: let these jobs end, and allow more time.
                self.wait(count, limit)
                recorder.forget(self.folder)
                self.rate = count / (time.monotonic() - begin)
        is_complete = self.wait(count, slack + limit)
        settled = (time.time_ns() - due) / SECOND if is_complete else None
        return self.result(count) | {"settled": settled, "limit": limit}

    def begin(self, count: int) -> int:
        """Return a moment by which the jobs are in place and the system has come to rest."""
        return time.time_ns() + int((2 + 1.5 * count / self.rate) * SECOND)

    def wait(self, count: int, seconds: float) -> bool:
        """Wait until all bodies began and no job is left, without asking the system before that."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.recorded() >= count and not self.system.unfinished():
                return True
            time.sleep(0.02)
        return False

    def recorded(self) -> int:
        path = self.folder / "records"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def result(self, count: int) -> dict[str, Any]:
        late = recorder.seconds_late(self.folder)
        recorder.forget(self.folder)
        return {
            "jobs": count,
            "began": len(late),
            "early": sum(value < 0 for value in late),
            "earliest": min(late, default=None),
            "p50": percentile(late, 0.5),
            "p99": percentile(late, 0.99),
        }


def percentile(values: Sequence[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * share) - 1] if ordered else None


def measure(system: System, folder: Path, wanted: Sequence[str]) -> None:
    """Print a line for each wanted measure, in an order in which a late one cannot disturb the next."""
    async_kind = "coroutine" if system.runs_coroutines else "plain"
    kinds = {"plain": "plain", "single": async_kind, "coroutines": async_kind, "large": async_kind}
    for kind in dict.fromkeys(kinds[name] for name in kinds if name in wanted):
        with system.running(kind):
            measuring = Measuring(system, folder)
            measuring.warm_up(kind)
            for name in (name for name in kinds if name in wanted and kinds[name] == kind):
                if name == "coroutines" and not system.runs_coroutines:
                    continue
                if name == "single":
                    result = measuring.single(kind)
                elif name == "large":
                    result = measuring.burst(kind, 10_000, LARGE_LIMIT_SECONDS)
                else:
                    result = measuring.burst(kind)
                print(json.dumps({name: result | {"kind": kind}}), flush=True)


def end_with_parent() -> None:
    """Kill this process group, which has only processes of this measurement, when the parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.killpg(0, signal.SIGKILL)

    if os.getpgrp() == os.getpid():
        threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    end_with_parent()
    name, folder, *wanted = sys.argv[1:]
    place = Path(folder)
    os.environ[recorder.FOLDER] = folder
    system = load(name, place)
    if reason := system.absent():
        print(json.dumps({"absent": reason}), flush=True)
        return
    print(json.dumps({"about": describe(system)}), flush=True)
    measure(system, place, wanted)


if __name__ == "__main__":
    main()
