"""Cronty and its peers, measured side by side: `python -m verification.bench.run [NAME[/DATABASE] …]`.

Results are merged into docs/reference/benchmarks.json, so that a part can be repeated; then the report is written again.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.postgres import Postgres
from verification.bench import report
from verification.bench.comparison import MEASURES, PARTS, RATES
from verification.bench.foreign_load import ForeignLoad, wait_for_rest
from verification.bench.harness import PROJECT
from verification.bench.peers import environment
from verification.bench.peers.system import SYNCHRONOUS

RUNS = (*(run for runs in PARTS.values() for run in runs), *RATES.values())
KEYS = tuple(measure.key for measure in MEASURES)
PER_SECOND = ("1", "10", "100", "250", "500", "1000", "1500", "2000", "3000")
LIMIT_SECONDS = 230
SYNCHRONOUS_OF = {"sqlite-normal": "NORMAL"}
RATE_LINE = re.compile(r"_sustained_(\d+) p50 ([\d.]+) ms p99 ([\d.]+) ms not_run (\d+) \(([\d.]+) %\)")


def measure(name: str, measures: Sequence[str], seconds: float) -> dict[str, Any]:
    """Measure one system in a process of its own; what cannot be had is reported as absent."""
    system, _, database = name.partition("/")
    try:
        python = Path(sys.executable) if system in ("cronty", "rates") else environment.python()
    except environment.PeersMissingError as error:
        return {"absent": f"not installed: {error}"}
    wait_for_rest(20)
    begin = time.monotonic()
    load = ForeignLoad()
    with _folder() as folder, _database(database) as url:
        if system == "rates":
            command = [python, "-m", "verification.bench.sustained", "--seconds", "6", *PER_SECOND]
        else:
            command = [python, "-m", "verification.bench.peers.measuring", system, folder, *measures]
        lines, problem = _lines([str(part) for part in command], url, seconds, SYNCHRONOUS_OF.get(database))
    result = {
        "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        "seconds": round(time.monotonic() - begin),
        "load": load.finish().as_json(),
    }
    if problem:
        result["problem"] = problem
    if system == "rates":
        return result | {"points": [point for line in lines for point in _points(line)]}
    for line in lines:
        result |= json.loads(line)
    # Each measure has its own, because a later run may repeat only some of them.
    for key in KEYS:
        if key in result:
            result[key] |= {"at": result["at"], "load": result["load"]}
    return result


def _points(line: str) -> Iterator[dict[str, float]]:
    if found := RATE_LINE.search(line):
        rate, p50, p99, missing, share = map(float, found.groups())
        yield {
            "rate": rate,
            "p50": p50 / 1000,
            "p99": p99 / 1000,
            "not_run": missing,
            "not_run_percent": share,
        }


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cronty-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _database(name: str) -> Iterator[str]:
    if name != "postgresql":
        yield ""
        return
    with Postgres(is_durable=True) as server:
        yield server.url


def _lines(
    command: Sequence[str], url: str, seconds: float, synchronous: str | None = None
) -> tuple[list[str], str]:
    """Return what a program printed and why it ended early, if it did; everything it started ends with it."""
    variables = os.environ | ({"DATABASE_URL": url} if url else {}) | {SYNCHRONOUS: synchronous or "FULL"}
    if not url:
        variables.pop("DATABASE_URL", None)
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
            _end_group(process)
        output.seek(0)
        errors.seek(0)
        if process.returncode and not problem:
            problem = (errors.read().strip().splitlines() or [f"ended with status {process.returncode}"])[-1]
        return output.read().splitlines(), problem


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of the process group that the program led."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def select(wanted: Sequence[str]) -> list[str]:
    """Return the runs that a name, or a name and database, stands for; all of them without a name."""
    known = {*RUNS, *(run.partition("/")[0] for run in RUNS)}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known are {', '.join(RUNS)}")
    return [run for run in RUNS if not wanted or run in wanted or run.partition("/")[0] in wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="a system such as cronty or celery, or one run such as cronty/sqlite"
    )
    parser.add_argument("--measures", nargs="+", choices=KEYS, default=KEYS)
    parser.add_argument("--results", type=Path, default=report.RESULTS)
    parser.add_argument("--seconds", type=float, default=LIMIT_SECONDS, help="the most that one run may take")
    options = parser.parse_args()
    runs = select(options.names)
    for name in runs:
        result = measure(name, options.measures, options.seconds)
        results = report.read(options.results)
        kept = results["runs"].get(name, {}) if set(options.measures) != set(KEYS) else {}
        results["runs"][name] = {key: value for key, value in kept.items() if key != "problem"} | result
        results["machine"] = machine()
        options.results.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        report.write(options.results)
        print(report.line(name, results["runs"][name]), flush=True)


if __name__ == "__main__":
    main()
