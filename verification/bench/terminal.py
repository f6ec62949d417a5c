"""Times of the terminal: `cronty --help`, `cronty jobs` with few and many jobs, and `cronty apply` of many.

`python -m verification.bench.terminal /path/to/venv/bin/cronty` measures an installed wheel; without a path, the checkout.
Each line is `name value unit`; wall time first, then processor time.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CHECKOUT = [sys.executable, "-m", "cronty_site.terminal"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cronty", nargs="?", help="the command of an installed package")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=7, help="repeat the short commands; the median counts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure([options.cronty] if options.cronty else CHECKOUT, Path(folder), options.jobs, options.times)


def measure(cronty: list[str], folder: Path, jobs: int, times: int) -> None:
    file = folder / "jobs.yaml"
    run(cronty, folder, "manage", "migrate", "--verbosity", "0")
    person = ("--username", "admin", "--email", "admin@cronty.example")
    run(cronty, folder, "manage", "createsuperuser", "--noinput", *person)
    show("load", os.getloadavg()[0], "")
    show_times("help", [run(cronty, folder, "--help") for _ in range(times)])
    write_jobs(file, 5, hour=3)
    run(cronty, folder, "apply", str(file), "--yes")
    show_times("jobs_5", [run(cronty, folder, "jobs") for _ in range(times)])
    write_jobs(file, jobs, hour=3)
    show_times(f"apply_{jobs}_new", [run(cronty, folder, "apply", str(file), "--yes")])
    show_times(f"apply_{jobs}_unchanged", [run(cronty, folder, "apply", str(file), "--yes")])
    write_jobs(file, jobs, hour=4)
    show_times(f"apply_{jobs}_changed", [run(cronty, folder, "apply", str(file), "--yes")])
    show_times(f"jobs_{jobs}", [run(cronty, folder, "jobs") for _ in range(times)])
    show("load", os.getloadavg()[0], "")


def write_jobs(file: Path, count: int, *, hour: int) -> None:
    jobs = {
        f"Job {n}": {
            "schedule": f"{n % 60} {hour} * * *",
            "task": "webhook",
            "arguments": {"url": f"https://example.org/{n}"},
        }
        for n in range(count)
    }
    # JSON is YAML.
    file.write_text(json.dumps({"timezone": "Europe/Berlin", "jobs": jobs}, indent=1))


def run(cronty: list[str], folder: Path, *arguments: str) -> tuple[float, float]:
    """Run a command that must succeed; return the seconds that it took, and those of the processor."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CRONTY_DATA": str(folder / "data"),
        "CRONTY_MAX_ACTIVE_JOBS": "1000000",
        "CRONTY_MAX_RUNS_PER_MINUTE": "0",
        "DJANGO_SUPERUSER_PASSWORD": "only for this measurement",
        "PYTHONPATH": str(PROJECT) if cronty == CHECKOUT else "",
    }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*cronty, *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"cronty {' '.join(arguments)}: {done.stderr}")
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show_times(name: str, pairs: list[tuple[float, float]]) -> None:
    show(name, statistics.median(wall for wall, _ in pairs), "s")
    show(f"{name}_cpu", statistics.median(cpu for _, cpu in pairs), "s")


def show(name: str, value: float, unit: str) -> None:
    sys.stdout.write(f"{name} {value:.2f} {unit}".rstrip() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
