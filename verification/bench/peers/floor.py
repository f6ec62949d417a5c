"""The floor: a bare loop in one process; one durable commit takes all that is due, one keeps the outcomes."""

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verification.bench import recorder
from verification.bench.peers.system import POLL_SECONDS, System, processes, synchronous

CREATE = (
    "CREATE TABLE IF NOT EXISTS jobs (due BIGINT NOT NULL, state INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS jobs_due ON jobs (state, due)",
)
TAKE = "UPDATE jobs SET state = 1 WHERE state = 0 AND due <= {} RETURNING due"
FINISH = "UPDATE jobs SET state = 2 WHERE state = 1"
NEXT = "SELECT min(due) FROM jobs WHERE state = 0"
UNFINISHED = "SELECT count(*) FROM jobs WHERE state < 2"


class Floor(System):
    settings = "one process; one durable commit takes all that is due, one keeps the outcomes"
    runs_coroutines = True

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        connection = connect(self.folder)
        for statement in CREATE:
            connection.execute(statement)
        with processes(["python", "-m", "verification.bench.peers.floor", str(self.folder)]):
            yield

    def add(self, moments: Sequence[int], kind: str) -> None:
        connection = connect(self.folder)
        connection.execute("BEGIN")
        cursor = connection.cursor()
        cursor.executemany(f"INSERT INTO jobs VALUES ({_mark()}, 0)", [(due,) for due in moments])
        connection.execute("COMMIT")

    def unfinished(self) -> int:
        return int(connect(self.folder).execute(UNFINISHED).fetchone()[0])


def connect(folder: Path) -> Any:
    """Return a connection in autocommit mode, in which every statement is a durable transaction."""
    if url := os.environ.get("DATABASE_URL"):
        import psycopg

        return psycopg.connect(url, autocommit=True)
    connection = sqlite3.connect(folder / "floor.sqlite3", isolation_level=None, timeout=20)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous()}")
    return connection


def loop(folder: Path) -> None:
    connection = connect(folder)
    take = TAKE.format(_mark())
    with asyncio.Runner() as runner:
        while True:
            taken = connection.execute(take, (time.time_ns(),)).fetchall()
            if taken:
                runner.run(call(taken))
                connection.execute(FINISH)
            (at,) = connection.execute(NEXT).fetchone()
            pause = (at - time.time_ns()) / 1e9 if at else POLL_SECONDS
            time.sleep(min(max(pause, 0), POLL_SECONDS))


async def call(rows: Sequence[tuple[int]]) -> None:
    await asyncio.gather(*(body(due) for (due,) in rows))


async def body(due: int) -> None:
    recorder.record(due)


def _mark() -> str:
    return "%s" if os.environ.get("DATABASE_URL") else "?"


if __name__ == "__main__":
    loop(Path(sys.argv[1]))
