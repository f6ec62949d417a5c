"""Cronty and its peers, measured side by side: `python -m verification.bench.run [NAME[/DATABASE] …]`.

Each line is `name value unit`; lines with # say what was measured, and how much other programs used of the machine. The
figures are published in docs/reference/benchmarks.md.
"""

import argparse
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.postgres import Postgres
from verification.bench.harness import PROJECT
from verification.bench.peers import environment
from verification.bench.peers.system import SYNCHRONOUS

MEASURES = ("single", "coroutines", "plain", "large")
# Only systems of one part are compared: all of them wait for the disk before a task begins, or none does.
PARTS = {
    "sqlite": ("cronty", "apscheduler", "huey", "django_tasks_db", "django_q2", "floor", "rates"),
    "sqlite-normal": ("cronty", "apscheduler", "django_tasks_db", "floor"),
    "none": ("celery", "apscheduler_memory"),
    "postgresql": (
        "cronty",
        "apscheduler",
        "procrastinate",
        "django_tasks_db",
        "django_q2",
        "floor",
        "rates",
    ),
}
RUNS = tuple(f"{system}/{database}" for database, systems in PARTS.items() for system in systems)
PER_SECOND = ("1", "10", "100", "250", "500", "1000", "1500", "2000", "3000")
LIMIT_SECONDS = 230
# A measurement is not reliable if other programs use more.
MOST_SHARE = 0.10


def measure(name: str, measures: Sequence[str], seconds: float) -> Iterator[str]:
    """Measure one system in a process of its own, and yield what to print."""
    system, _, database = name.partition("/")
    try:
        python = Path(sys.executable) if system in ("cronty", "rates") else environment.python()
    except environment.PeersMissingError as error:
        yield f"# {name}: absent, not installed: {error}"
        return
    wait_for_rest(20)
    before, begin = psutil.cpu_percent(interval=2) / 100, counters()
    with tempfile.TemporaryDirectory(prefix="cronty-bench-") as folder, database_of(database) as url:
        if system == "rates":
            command = [python, "-m", "verification.bench.sustained", "--seconds", "6", *PER_SECOND]
        else:
            command = [python, "-m", "verification.bench.peers.measuring", system, folder, *measures]
        synchronous = "NORMAL" if database == "sqlite-normal" else "FULL"
        lines, problem = lines_of([str(part) for part in command], url, seconds, synchronous)
    for line in lines:
        if line.startswith("{"):
            for key, result in json.loads(line).items():
                yield from described(name, key, result)
        else:
            yield line
    clock, busy, ours = (after - first for after, first in zip(counters(), begin, strict=True))
    during = max(0.0, (busy - ours) / (clock * (psutil.cpu_count() or 1)))
    mark = " (loaded)" if max(before, during) > MOST_SHARE else ""
    yield (
        f"# {name}: others used {before:.0%} before and {during:.0%} during{mark},"
        f" load average {os.getloadavg()[0]:.2f}{f'; {problem}' if problem else ''}"
    )


def described(name: str, key: str, result: Any) -> Iterator[str]:
    if key not in MEASURES:
        yield f"# {name}: {key}: {result}"
        return
    if result["began"] != result["jobs"] or result["early"]:
        yield f"# {name}: {key}: {result['began']} of {result['jobs']} began, {result['early']} early"
    if result["p99"] is not None:
        yield f"{name} {key}_p50 {1000 * result['p50']:.4g} ms"
        yield f"{name} {key}_p99 {1000 * result['p99']:.4g} ms"
    if "settled" in result:
        settled, limit = result["settled"], result["limit"]
        yield f"{name} {key}_settled {settled:.4g} s" if settled else f"# {name}: {key}: not in {limit:.0f} s"


@contextmanager
def database_of(name: str) -> Iterator[str]:
    if name != "postgresql":
        yield ""
        return
    with Postgres(is_durable=True) as server:
        yield server.url


def lines_of(command: Sequence[str], url: str, seconds: float, synchronous: str) -> tuple[list[str], str]:
    """Return what a program printed and why it ended early, if it did; everything it started ends with it."""
    variables = os.environ | {"DATABASE_URL": url, SYNCHRONOUS: synchronous}
    if not url:
        del variables["DATABASE_URL"]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=PROJECT, env=variables, stdout=output, stderr=errors, start_new_session=True
        )
        problem = ""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            problem = f"stopped after {seconds:.0f} s"
        finally:
            # Whatever is left of the process group that the program led.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        errors.seek(0)
        if process.returncode and not problem:
            problem = (errors.read().strip().splitlines() or [f"ended with status {process.returncode}"])[-1]
        return output.read().splitlines(), problem


def wait_for_rest(seconds: float) -> None:
    """Wait until others use little, but not for ever: a loaded measurement is marked, not refused."""
    until = time.monotonic() + seconds
    while psutil.cpu_percent(interval=1) / 100 > MOST_SHARE and time.monotonic() < until:
        pass


def counters() -> tuple[float, float, float]:
    """Return seconds: the clock, the busy time of all cores, and the CPU time of us and our ended children."""
    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + getattr(times, "steal", 0.0)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), busy, sum(usage.ru_utime + usage.ru_stime for usage in usages)


def select(wanted: Sequence[str]) -> list[str]:
    """Return the runs that a name, or a name and database, stands for; all of them without a name."""
    known = {*RUNS, *(run.partition("/")[0] for run in RUNS)}
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known are {', '.join(RUNS)}")
    return [run for run in RUNS if not wanted or run in wanted or run.partition("/")[0] in wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="a system such as cronty or celery, or one run such as cronty/sqlite"
    )
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--seconds", type=float, default=LIMIT_SECONDS, help="the most that one run may take")
    options = parser.parse_args()
    print(
        f"# {os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()},", end=" "
    )
    print(f"Python {platform.python_version()}", flush=True)
    for name in select(options.names):
        for line in measure(name, options.measures, options.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
