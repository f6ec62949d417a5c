"""Benchmark of growth: server time of every page, admin list and tool from a thousand to a million jobs and runs.

Each is asked by an owner of nearly everything, by an owner of a hundred jobs, and by staff who see everything. The exit
status is 1 if something takes longer than its limit, or more than twice as long with the most rows as with the fewest.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from verification.bench import harness

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOST_SECONDS = 0.150
MOST_GROWTH = 2.0
# Shorter differences are noise of the machine.
NOISE_SECONDS = 0.005
TIMES = 5
os.environ |= {
    "CRONTY_MAX_ACTIVE_JOBS": "10000000",
    "CRONTY_MAX_RUNS_PER_MINUTE": "0",
    "CRONTY_MAX_CREATES_PER_MINUTE": "1000000",
    "CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE": "100000",
    "CRONTY_HISTORY_PER_PERSON": "10000000",
    "CRONTY_EVENTS_PER_PERSON": "10000000",
    "CRONTY_MCP_CALLS_PER_MINUTE": "1000000",
}
DATA = harness.prepare()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from schedules import clock, engine  # noqa: E402
from schedules.services.runs.counters import RunCounters  # noqa: E402
from schedules.web import metrics  # noqa: E402
from verification.bench import drawing  # noqa: E402
from verification.bench.growth_questions import Question, questions  # noqa: E402
from verification.bench.growth_rows import Filling  # noqa: E402


def seconds_of(question: Question) -> float:
    """Return the median of several times, after one call that fills the caches."""
    begin = time.perf_counter()
    question.ask()
    if time.perf_counter() - begin > 1:
        return time.perf_counter() - begin
    times = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        question.ask()
        times.append(time.perf_counter() - begin)
    return harness.median(times)


def problem_of(seconds: list[float]) -> str:
    if seconds[-1] > MOST_SECONDS:
        return "too slow"
    return "grows" if seconds[-1] > MOST_GROWTH * seconds[0] + NOISE_SECONDS else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of jobs, in rising order")
    parser.add_argument("--only", default="", help="measure only names that contain this text")
    parser.add_argument(
        "--results", type=Path, help="keep the results in this file, to measure one size at a time"
    )
    parser.add_argument("--picture", type=Path, help="write the chart to this SVG file")
    chosen = parser.parse_args()
    call_command("collectstatic", verbosity=0, interactive=False)
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}", flush=True)
    results = json.loads(chosen.results.read_text()) if chosen.results and chosen.results.exists() else {}
    measured = results.setdefault(database, {})
    for size in map(int, chosen.sizes.split(",")):
        measured[str(size)] = measure(size, chosen.only)
    if chosen.results:
        chosen.results.write_text(json.dumps(results, indent=1))
    failed = show_table(measured)
    if chosen.picture:
        chosen.picture.write_text(picture(database, measured))
    print(f"# load {harness.load()}")
    connection.close()
    harness.discard(DATA)
    return 1 if failed else 0


def measure(size: int, only: str) -> dict[str, float]:
    """Return the seconds of every question, with that many jobs."""
    begin = time.perf_counter()
    filling = Filling(clock.now())
    filling.grow_to(size)
    print(
        f"# {size:,} jobs, filled in {time.perf_counter() - begin:.0f} s, load {harness.load()}", flush=True
    )
    # Both read at first what has been filled in, which no installation writes at once.
    engine.prune_history()
    metrics.counters = RunCounters()
    asked = [question for question in questions(filling) if only in question.name]
    return {f"{question.who} {question.name}": seconds_of(question) for question in asked}


def show_table(measured: dict[str, dict[str, float]]) -> int:
    """Print milliseconds by size, the slowest last; return how many are over a limit."""
    sizes = sorted(measured, key=int)
    print(f"{'ms at jobs:':56}" + "".join(f"{int(size):>11,}" for size in sizes))
    failed = 0
    for name in sorted(measured[sizes[-1]], key=lambda name: measured[sizes[-1]][name]):
        seconds = [measured[size][name] for size in sizes if name in measured[size]]
        problem = problem_of(seconds)
        failed += bool(problem)
        print(f"{name:56}" + "".join(f"{each * 1000:11.1f}" for each in seconds) + f"  {problem}")
    print(f"# {len(measured[sizes[-1]]) - failed} of {len(measured[sizes[-1]])} within the limits")
    return failed


def picture(database: str, measured: dict[str, dict[str, float]]) -> str:
    """Draw the slowest and the middle answer of each kind by the number of jobs."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for kind in ("pages", "admin", "tools"):
        for label, share in (("slowest", 1.0), ("median", 0.5)):
            lines[f"{kind}, {label}"] = [
                (
                    int(size),
                    1000 * harness.percentile([row[name] for name in row if kind_of(name) == kind], share),
                )
                for size, row in sorted(measured.items(), key=lambda each: int(each[0]))
            ]
    return drawing.lines(
        f"Server time by number of jobs and runs ({database})",
        lines,
        across="jobs, and as many runs and events",
        up="milliseconds",
        is_log_across=True,
        is_log_up=True,
        limit=1000 * MOST_SECONDS,
    )


def kind_of(name: str) -> str:
    what = name.partition(" ")[2]
    if what.startswith("/admin/"):
        return "admin"
    return "pages" if what.startswith("/") else "tools"


if __name__ == "__main__":
    sys.exit(main())
