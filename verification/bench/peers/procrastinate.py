"""procrastinate: asynchronous workers on PostgreSQL."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from procrastinate import App, PsycopgConnector

from verification.bench.peers import tasks
from verification.bench.peers.system import POLL_SECONDS, WORKERS, System, moment, processes

URL = os.environ.get("DATABASE_URL", "")
app = App(connector=PsycopgConnector(conninfo=URL))
TASKS = {
    "plain": app.task(name="plain")(tasks.plain),
    "coroutine": app.task(name="coroutine")(tasks.coroutine),
}
UNFINISHED = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


class Procrastinate(System):
    distributions = ("procrastinate", "psycopg")
    runs_coroutines = True
    settings = (
        f"{WORKERS} worker processes, concurrency 10 each, LISTEN/NOTIFY and a poll every {POLL_SECONDS} s"
    )

    def absent(self) -> str:
        return "" if self.database_url else "it needs PostgreSQL"

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        with psycopg.connect(URL) as connection:
            is_new = connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone() == (None,)
        options = f"--log-level error worker -c 10 -p {POLL_SECONDS}".split()
        with app.open():
            if is_new:
                app.schema_manager.apply_schema()
            with processes(
                *[["procrastinate", "--app=verification.bench.peers.procrastinate.app", *options]] * WORKERS
            ):
                yield

    def add(self, moments: Sequence[int], kind: str) -> None:
        for at in dict.fromkeys(moments):
            task = app.configure_task(kind, schedule_at=moment(at))
            task.batch_defer(*[{"due": at} for due in moments if due == at])

    def unfinished(self) -> int:
        with psycopg.connect(URL) as connection:
            row = connection.execute(UNFINISHED).fetchone()
        assert row
        return int(row[0])
