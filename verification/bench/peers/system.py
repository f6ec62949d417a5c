"""What every measured system offers, and the processes it starts."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
WORKERS = 2
POLL_SECONDS = 0.05
# The variable with SQLite's `synchronous`: FULL waits for the disk at every commit, NORMAL does not.
SYNCHRONOUS = "BENCH_SYNCHRONOUS"


class System:
    """A scheduler under measurement; its folder is empty at the beginning, and DATABASE_URL names a PostgreSQL."""

    distributions: Sequence[str] = ()
    settings = ""
    runs_coroutines = False
    # A look at the schedule that takes longer than this makes a warm-up too expensive.
    is_quick = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database_url = os.environ.get("DATABASE_URL", "")

    def absent(self) -> str:
        """Return why this system cannot be measured here, or an empty string."""
        return ""

    def store_version(self) -> str:
        """Return the name and version of the program that keeps the jobs."""
        if not self.database_url:
            return f"SQLite {sqlite3.sqlite_version}"
        import psycopg

        with psycopg.connect(self.database_url) as connection:
            return f"PostgreSQL {connection.info.server_version // 10_000}"

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        """Keep the workers for one kind of task running: `coroutine` or `plain`."""
        raise NotImplementedError
        yield

    def add(self, moments: Sequence[int], kind: str) -> None:
        """Add a one-time job for each moment (nanoseconds since 1970), which is also the argument of its task."""
        raise NotImplementedError

    def unfinished(self) -> int:
        """Return how many jobs the system's own store holds that have not ended."""
        raise NotImplementedError


def synchronous() -> str:
    return os.environ.get(SYNCHRONOUS, "FULL")


def moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)


@contextmanager
def processes(*commands: Sequence[str]) -> Iterator[None]:
    """Run programs of this Python's environment, and stop them: first politely, after ten seconds for good."""
    with ExitStack() as stack:
        for command in commands:
            stack.enter_context(_process(command))
        yield


@contextmanager
def _process(command: Sequence[str]) -> Iterator[None]:
    program = Path(sys.executable).parent / command[0]
    started = subprocess.Popen(
        [program if program.exists() else command[0], *command[1:]],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
