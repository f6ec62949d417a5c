"""The recorder of the benchmarks: when the bodies of tasks began, for Cronty and its peers alike.

It imports nothing but the standard library, so that every peer's workers can use it.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

FOLDER = "BENCH_RECORDS"
"""The environment variable that names the folder; a benchmark sets it before it starts the workers."""

_file: int | None = None


class Record(NamedTuple):
    """One call of a task: what the task said, when its body began (nanoseconds since 1970), and in which process."""

    label: str
    at: int
    pid: int


def record(label: str | int) -> None:
    """Write one line, first thing in the body of a task; the label has no spaces.

    For lateness, the label is the moment at which the task was due, in nanoseconds.
    """
    global _file
    at = time.time_ns()
    if _file is None:
        path = Path(os.environ[FOLDER]) / "records"
        _file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    # One write to the page cache, about 2 µs: nothing has to be flushed, and forked processes share the file.
    os.write(_file, f"{label} {at} {os.getpid()}\n".encode())


def read(folder: str | Path) -> list[Record]:
    """Return everything recorded in the folder so far."""
    path = Path(folder) / "records"
    if not path.exists():
        return []
    lines = (line.split() for line in path.read_text().splitlines())
    return [Record(label, int(at), int(pid)) for label, at, pid in lines]


def forget(folder: str | Path) -> None:
    """Empty the folder's records; processes that have the file open go on writing to it."""
    path = Path(folder) / "records"
    if path.exists():
        os.truncate(path, 0)


def seconds_late(folder: str | Path) -> list[float]:
    """Return how late each body began, for labels that are due moments in nanoseconds."""
    return [(row.at - int(row.label)) / 1e9 for row in read(folder)]
