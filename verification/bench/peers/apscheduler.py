"""APScheduler 3: a scheduler inside the measuring process, with jobs in a database or in memory."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import create_engine, event

from verification.bench.peers import tasks
from verification.bench.peers.system import System, moment, synchronous


class APScheduler(System):
    distributions = ("apscheduler", "sqlalchemy")
    runs_coroutines = True
    settings = "one process; SQLAlchemyJobStore; 20 threads for functions, AsyncIOScheduler for coroutines; misfire_grace_time=None"

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        # A job that is late must still run: by default one that is more than a second late is dropped.
        options: dict[str, Any] = {
            "jobstores": {"default": self.store()},
            "job_defaults": {"misfire_grace_time": None},
            "timezone": "UTC",
        }
        if kind == "plain":
            self.scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(20)}, **options)
            self.scheduler.start()
            yield
            self.scheduler.shutdown()
            return
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            self.scheduler = AsyncIOScheduler(
                executors={"default": AsyncIOExecutor()}, event_loop=loop, **options
            )
            _call(loop, self.scheduler.start)
            yield
            _call(loop, self.scheduler.shutdown)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def store(self) -> BaseJobStore:
        if self.database_url:
            url = self.database_url.replace("postgres://", "postgresql+psycopg://")
            return SQLAlchemyJobStore(engine=create_engine(url))
        engine = create_engine(f"sqlite:///{self.folder}/apscheduler.sqlite3", connect_args={"timeout": 20})

        @event.listens_for(engine, "connect")
        def set_up(connection: Any, record: object) -> None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={synchronous()}")

        return SQLAlchemyJobStore(engine=engine)

    def add(self, moments: Sequence[int], kind: str) -> None:
        function = tasks.coroutine if kind == "coroutine" else tasks.plain
        for due in moments:
            self.scheduler.add_job(function, "date", run_date=moment(due), args=[due])

    def unfinished(self) -> int:
        return len(self.scheduler.get_jobs())


class APSchedulerInMemory(APScheduler):
    distributions = ("apscheduler",)
    settings = "one process; MemoryJobStore (a crash loses every job); the same executors"

    def store_version(self) -> str:
        return "no store"

    def store(self) -> BaseJobStore:
        return MemoryJobStore()


def _call(loop: asyncio.AbstractEventLoop, function: Any) -> None:
    async def call() -> None:
        function()

    asyncio.run_coroutine_threadsafe(call(), loop).result()
