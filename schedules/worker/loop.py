"""The loop of a worker process: coroutines in progress, leases, and outcomes to be written."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings
from django.db import DatabaseError, Error, InterfaceError, NotSupportedError, OperationalError, connections

from schedules import clock, engine
from schedules.database_errors import is_outage, reason_of
from schedules.engine import Outcome, Started
from schedules.models import Execution
from schedules.tasks import registry
from schedules.worker.calls import run_coroutine
from schedules.worker.context import ClusterContext

logger = logging.getLogger(__name__)

# Outcomes are written in batches, but soon: a killed worker repeats only what it had not written yet.
FLUSH_AFTER = 0.02
FLUSH_BURST_AFTER = 0.1
RETRY_WRITE_AFTER = 0.5
RELEASE_AFTER = 0.2


def start_executions(cluster_id: int, attempt: int, execution_ids: list[int]) -> list[Started]:
    """Start the executions that are still ours; reconnect once if the connection broke since the last run."""
    try:
        return engine.start_runs(cluster_id, attempt, execution_ids, clock.now())
    except (OperationalError, InterfaceError, NotSupportedError):
        # PostgreSQL reports "not supported" when a migration changed a table that a prepared plan uses.
        connections["default"].close()
        return engine.start_runs(cluster_id, attempt, execution_ids, clock.now())


class WorkerLoop:
    """The work in progress of one worker process: a thread for coroutines, a thread that writes, and their leases."""

    def __init__(self, context: ClusterContext) -> None:
        self.context = context
        self.cluster_id = context.cluster_id
        self._in_progress: dict[int, Started] = {}
        self._finished: list[Outcome] = []
        self._write_at = 0.0
        self._is_writing = False
        self._lock = threading.Lock()
        self._is_over = False
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="outcomes")
        self._thread = threading.Thread(target=self._run_loop, name="coroutines", daemon=True)
        self._thread.start()
        self._spawn(self._keep_writing())
        self._spawn(self._keep_renewing())

    def start_coroutines(self, chunk: list[Started]) -> None:
        """Run coroutine tasks in the background, all at once."""
        self._in_progress |= {started.execution_id: started for started in chunk}
        self._spawn(self._complete_all(chunk))

    @contextmanager
    def keep_lease(self, started: Started) -> Iterator[None]:
        """Renew the lease of an execution for as long as the block runs."""
        self._in_progress[started.execution_id] = started
        try:
            yield
        finally:
            self._in_progress.pop(started.execution_id, None)

    def iterate_until_released(self, execution_ids: list[int]) -> Iterator[int]:
        """Yield the ids one by one; release those that wait behind a long execution for other workers."""
        waiting = deque(execution_ids)
        watch = self._spawn(self._release(waiting)) if len(waiting) > 1 else None
        yield from _drained(waiting)
        if watch:
            watch.cancel()

    def add_outcome(self, outcome: Outcome) -> None:
        """Queue an outcome; it is written in a batch a moment later."""
        with self._lock:
            if not self._finished:
                self._write_at = time.monotonic() + FLUSH_BURST_AFTER
                self._loop.call_soon_threadsafe(self._wake.set)
            self._finished.append(outcome)

    def write_if_due(self) -> None:
        """Write outcomes that have waited long enough in this thread: in a burst, one thread is faster than two."""
        if self._finished and time.monotonic() > self._write_at:
            batch = self._take_outcomes()
            if not _try(write_outcomes, self.cluster_id, batch):
                self._return_outcomes(batch)

    def drain(self, max_wait: float) -> bool:
        """Finish and write what is in progress, then end the loop; return whether that worked in time."""
        if self._is_over:
            return True
        try:
            self._spawn(self._until_drained()).result(max_wait)
        except TimeoutError:
            return False
        finally:
            self._is_over = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(1)
            self._writer.submit(connections.close_all)
            self._writer.shutdown(wait=False)
        return True

    def _run_loop(self) -> None:
        """Run the event loop until the drain, even if a task breaks it; then let remaining tasks clean up."""
        while not self._is_over:
            try:
                self._loop.run_forever()
            except BaseException:
                logger.exception("A task broke out of the loop; the others go on")
        if remaining := asyncio.all_tasks(self._loop):
            for task in remaining:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(remaining, timeout=0.5))
        self._loop.close()

    def _take_outcomes(self) -> list[Outcome]:
        with self._lock:
            batch, self._finished = self._finished, []
        return batch

    def _return_outcomes(self, batch: list[Outcome]) -> None:
        with self._lock:
            self._finished = batch + self._finished

    async def _complete_all(self, chunk: list[Started]) -> None:
        await asyncio.gather(*map(self._complete, chunk))

    async def _complete(self, started: Started) -> None:
        with self.keep_lease(started):
            outcome = await run_coroutine(started, registry.get(started.task))
        with self._lock:
            self._finished.append(outcome)
        self._wake.set()

    async def _keep_writing(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(FLUSH_AFTER)
            self._wake.clear()
            if time.monotonic() < self._write_at + FLUSH_AFTER:
                self._wake.set()
                continue
            if batch := self._take_outcomes():
                self._is_writing = True
                is_written = await self._on_writer(write_outcomes, self.cluster_id, batch)
                if not is_written:
                    self._return_outcomes(batch)
                self._is_writing = False
                if not is_written:
                    # Keep the outcome: if the database is away, no other cluster can take over the execution, either.
                    await asyncio.sleep(RETRY_WRITE_AFTER)
                    self._wake.set()

    async def _release(self, waiting: deque[int]) -> None:
        await asyncio.sleep(RELEASE_AFTER)
        left = list(_drained(waiting))
        if left:
            await self._on_writer(engine.release_claims, self.cluster_id, left, clock.now())

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(settings.CRONTY_LEASE_SECONDS / 3)
            if held := list(self._in_progress):
                await self._on_writer(engine.renew, self.cluster_id, held, clock.now())

    async def _until_drained(self) -> None:
        while self._in_progress or self._finished or self._is_writing:
            await asyncio.sleep(FLUSH_AFTER)

    async def _on_writer(self, step: Callable[..., Any], *arguments: Any) -> bool:
        return await self._loop.run_in_executor(self._writer, _try, step, *arguments)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


def _drained(waiting: deque[int]) -> Iterator[int]:
    """Yield and remove one by one until the queue is empty; another thread may take from it meanwhile."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


def write_outcomes(cluster_id: int, batch: list[Outcome]) -> None:
    """Settle outcomes in one batch; an outcome that cannot be written does not affect the others."""
    try:
        engine.settle_runs(cluster_id, batch)
    except OperationalError:
        # The database is locked or away, and the outcomes are fine: let the caller try again.
        raise
    except (ValueError, TypeError, DatabaseError):
        if len(batch) == 1 and connections["default"].is_usable():
            logger.exception("The outcome of execution %s cannot be written", batch[0].execution_id)
            engine.settle_runs(cluster_id, [_unwritable(batch[0])])
            return
        if not connections["default"].is_usable():
            raise
        for outcome in batch:
            write_outcomes(cluster_id, [outcome])


def _try(step: Callable[..., Any], *arguments: Any) -> bool:
    """Run a database step; log an error and return False, so that the caller can try again later."""
    try:
        connections["default"].close_if_unusable_or_obsolete()
        step(*arguments)
    except Exception as error:
        if isinstance(error, Error) and is_outage(error):
            logger.warning("Could not write to the database (%s); trying again", reason_of(error))
        else:
            logger.exception("Could not write to the database; trying again")
        connections["default"].close()
        return False
    return True


def _unwritable(outcome: Outcome) -> Outcome:
    message = "The outcome of this run could not be stored."
    return Outcome(
        outcome.execution_id,
        outcome.attempt,
        outcome.job_id,
        Execution.Status.FAILED,
        outcome.finished_at,
        error=message,
    )
