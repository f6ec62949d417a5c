"""Benchmark of growth: server time of every page, admin list and tool from a thousand to a million jobs and runs.

Each is asked by an owner of nearly everything, by an owner of a hundred jobs, and by staff who see everything. The exit
status is 1 if something takes longer than its limit, or more than twice as long with the most rows as with the fewest.
"""

import argparse
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
TIMES = 7
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

from schedules import clock  # noqa: E402
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


def problems_of(seconds: list[float]) -> str:
    if seconds[-1] > MOST_SECONDS:
        return "too slow"
    return "grows" if seconds[-1] > MOST_GROWTH * seconds[0] + NOISE_SECONDS else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of jobs, in rising order")
    parser.add_argument("--only", default="", help="measure only names that contain this text")
    parser.add_argument("--picture", type=Path, help="write the chart to this SVG file")
    chosen = parser.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    call_command("collectstatic", verbosity=0, interactive=False)
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}", flush=True)
    filling = Filling(clock.now())
    measured: dict[tuple[str, str], list[float]] = {}
    for size in sizes:
        begin = time.perf_counter()
        filling.grow_to(size)
        print(
            f"# {size:,} jobs, filled in {time.perf_counter() - begin:.0f} s, load {harness.load()}",
            flush=True,
        )
        for question in questions(filling):
            if chosen.only in question.name:
                measured.setdefault((question.who, question.name), []).append(seconds_of(question))
    failed = show_table(measured, sizes)
    if chosen.picture:
        chosen.picture.write_text(picture(database, measured, sizes))
    print(f"# {len(measured) - failed} of {len(measured)} within the limits, load {harness.load()}")
    connection.close()
    harness.discard(DATA)
    return 1 if failed else 0


def show_table(measured: dict[tuple[str, str], list[float]], sizes: list[int]) -> int:
    """Print milliseconds by size, the slowest last; return how many are over a limit."""
    print(f"{'ms at jobs:':58}" + "".join(f"{size:>11,}" for size in sizes))
    failed = 0
    for (who, name), seconds in sorted(measured.items(), key=lambda row: row[1][-1]):
        problem = problems_of(seconds)
        failed += bool(problem)
        print(f"{who:6}{name:52}" + "".join(f"{each * 1000:11.1f}" for each in seconds) + f"  {problem}")
    return failed


def picture(database: str, measured: dict[tuple[str, str], list[float]], sizes: list[int]) -> str:
    """Draw the slowest answer of each kind by the number of jobs."""
    kinds = {"pages": "/", "admin": "/admin/", "tools": ""}
    lines: dict[str, list[tuple[float, float]]] = {}
    for kind in kinds:
        rows = [seconds for (_, name), seconds in measured.items() if kind_of(name) == kind]
        for label, share in (("slowest", 1.0), ("median", 0.5)):
            lines[f"{kind}, {label}"] = [
                (size, 1000 * harness.percentile([row[place] for row in rows], share))
                for place, size in enumerate(sizes)
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
    if name.startswith("/admin/"):
        return "admin"
    return "pages" if name.startswith("/") else "tools"


if __name__ == "__main__":
    sys.exit(main())
