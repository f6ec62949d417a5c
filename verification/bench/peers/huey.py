"""huey with SQLite: a consumer whose scheduler looks once a second, the shortest interval it accepts.

It has `synchronous=FULL` or `OFF`, but not `NORMAL`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from huey import SqliteHuey

from verification.bench import recorder
from verification.bench.peers import tasks
from verification.bench.peers.system import System, moment, processes

app = SqliteHuey(
    filename=str(Path(os.environ.get(recorder.FOLDER, ".")) / "huey.sqlite3"),
    fsync=True,
    timeout=20,
    utc=True,
)
plain = app.task()(tasks.plain)


class Huey(System):
    distributions = ("huey",)
    settings = "SqliteHuey with fsync; 2 worker processes that poll every 10 ms; scheduler interval 1 s (its minimum)"

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        options = ["-w", "2", "-k", "process", "-d", "0.01", "-m", "0.01", "-b", "1", "-s", "1", "-n", "-q"]
        with processes(["huey_consumer", "verification.bench.peers.huey.app", *options]):
            yield

    def add(self, moments: Sequence[int], kind: str) -> None:
        for due in moments:
            plain.schedule((due,), eta=moment(due))

    def unfinished(self) -> int:
        return int(app.pending_count()) + int(app.scheduled_count())
