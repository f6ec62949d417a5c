"""What a worker does with what it claimed: start it, call its task, and write down how it went."""

import asyncio
import inspect
import json
import logging
import math
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from multiprocessing import util
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, NotSupportedError, OperationalError, connections
from django_q.exceptions import TimeoutException
from django_q.timeout import TimeoutHandler

from schedules import clock, engine, limits
from schedules.engine import Outcome, Started
from schedules.models import Execution
from schedules.tasks import registry
from schedules.worker.concurrency import lane

logger = logging.getLogger(__name__)

Status = Execution.Status

# Outcomes are written together, but soon: a killed worker repeats only what it had not written yet.
FLUSH_AFTER = 0.02
FLUSH_BURST_AFTER = 0.1
RETRY_WRITE_AFTER = 0.5
KEPT_BYTES = 16_384
WAIT_FOR_LANE = 0.3
LET_GO_AFTER = 0.2
# Two threads share this process: neither must wait five milliseconds for the other after each query.
SWITCH_AFTER = 0.0005


def run(cluster_id: int, attempt: int, execution_ids: list[int]) -> None:
    """Start what is still ours of a chunk of coroutines; they go on in the background."""
    loop = WorkerLoop.of_this_process(cluster_id)
    loop.take(_start(cluster_id, attempt, execution_ids))


def run_in_turn(cluster_id: int, attempt: int, execution_ids: list[int]) -> None:
    """Run plain functions here and now, or hand such back when long ones take all the lanes."""
    loop = WorkerLoop.of_this_process(cluster_id)
    with lane(WAIT_FOR_LANE) as is_free:
        if not is_free:
            engine.hand_back(cluster_id, clock.now(), only=registry.plain_names())
            return
        for execution_id in loop.turns(execution_ids):
            loop.write_if_due()
            for started in _start(cluster_id, attempt, [execution_id]):
                with loop.holding(started):
                    outcome = run_plain(started, registry.get(started.task))
                loop.add_outcome(outcome)


def _start(cluster_id: int, attempt: int, execution_ids: list[int]) -> list[Started]:
    """Start executions; a connection that broke since the last run is noticed here, and made anew once."""
    try:
        return engine.start_runs(cluster_id, attempt, execution_ids, clock.now())
    except (OperationalError, InterfaceError, NotSupportedError):
        # Not supported, says PostgreSQL, if a migration changed what a plan was made for.
        connections["default"].close()
        return engine.start_runs(cluster_id, attempt, execution_ids, clock.now())


def probe() -> None:
    """Do nothing: that it came this far shows that the queue and this worker are alive."""


def run_plain(started: Started, task: registry.Task | None) -> Outcome:
    """Call a plain function within its time limit; whatever it raises becomes its outcome."""
    try:
        # Its own alarm: the one that django-q2 set is for all that travelled together.
        with TimeoutHandler(max(1, math.ceil(started.timeout.total_seconds()))):
            return _returned(
                started, _known(started, task).call(_context(started), started.args, started.kwargs)
            )
    except TimeoutException:
        return _failed(started, TimeoutError(_timeout_words(started)))
    except BaseException as error:
        return _failed(started, error)


async def run_coroutine(started: Started, task: registry.Task | None) -> Outcome:
    """Await a coroutine task within its time limit."""
    try:
        async with asyncio.timeout(started.timeout.total_seconds()):
            value = _known(started, task).call(_context(started), started.args, started.kwargs)
            return _returned(started, await value if inspect.isawaitable(value) else value)
    except TimeoutError as error:
        return _failed(started, TimeoutError(str(error) or _timeout_words(started)))
    except BaseException as error:
        # A task's own CancelledError, too: nobody else cancels it but the end of the process, which writes nothing.
        return _failed(started, error)


def _known(started: Started, task: registry.Task | None) -> registry.Task:
    if task is None:
        raise registry.Final(f"Unknown task: {started.task}")
    return task


class WorkerLoop:
    """One process's work in hand: a loop for coroutines, a thread that writes, and the leases of both."""

    _current: "WorkerLoop | None" = None

    def __init__(self, cluster_id: int) -> None:
        self.cluster_id = cluster_id
        self._in_hand: dict[int, Started] = {}
        self._finished: list[Outcome] = []
        self._write_at = 0.0
        self._lock = threading.Lock()
        self._is_over = False
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="outcomes")
        self._thread = threading.Thread(target=self._turn, name="coroutines", daemon=True)
        sys.setswitchinterval(SWITCH_AFTER)
        self._thread.start()
        self._spawn(self._keep_writing())
        self._spawn(self._keep_renewing())

    @classmethod
    def of_this_process(cls, cluster_id: int) -> "WorkerLoop":
        if cls._current is None or cls._current.cluster_id != cluster_id:
            cls._current = cls(cluster_id)
            # Runs when django-q2 lets this process end: what is in hand is finished first.
            util.Finalize(None, cls._current.clear, exitpriority=100)
        return cls._current

    def take(self, chunk: list[Started]) -> None:
        """Run coroutine tasks in the background, all at once."""
        self._in_hand |= {started.execution_id: started for started in chunk}
        self._spawn(self._complete_all(chunk))

    def holding(self, started: Started) -> "_Holding":
        """Keep the lease of a run that happens outside the loop."""
        return _Holding(self._in_hand, started)

    def turns(self, execution_ids: list[int]) -> Iterator[int]:
        """Give one after the other; what waits behind a long one is let go, for whoever is free."""
        waiting = deque(execution_ids)
        watch = self._spawn(self._let_go(waiting)) if len(waiting) > 1 else None
        yield from _drained(waiting)
        if watch:
            watch.cancel()

    def add_outcome(self, outcome: Outcome) -> None:
        """Note an outcome; it is written with its neighbours a moment later."""
        with self._lock:
            if not self._finished:
                self._write_at = time.monotonic() + FLUSH_BURST_AFTER
                self._loop.call_soon_threadsafe(self._wake.set)
            self._finished.append(outcome)

    def write_if_due(self) -> None:
        """Write what has waited long enough from this thread: in a burst, one thread is faster than two."""
        if self._finished and time.monotonic() > self._write_at:
            batch = self._pick_up()
            if not _survive(write, self.cluster_id, batch):
                self._put_back(batch)

    def clear(self, patience: float | None = None) -> bool:
        """Finish what is in hand and write it down; tell whether that worked in time."""
        if self._is_over:
            return True
        limit = settings.CRONTY_STOP_SECONDS if patience is None else patience
        try:
            self._spawn(self._until_clear()).result(limit)
        except TimeoutError:
            return False
        finally:
            self._is_over = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(1)
            self._writer.submit(connections.close_all)
            self._writer.shutdown(wait=False)
            WorkerLoop._current = None
        return True

    def _turn(self) -> None:
        """Turn the loop until the end, whatever a task does to it; then give those left a moment to clean up."""
        while not self._is_over:
            try:
                self._loop.run_forever()
            except BaseException:
                logger.exception("A task broke out of the loop; the others go on")
        if left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left, timeout=0.5))
        self._loop.close()

    def _pick_up(self) -> list[Outcome]:
        with self._lock:
            batch, self._finished = self._finished, []
        return batch

    def _put_back(self, batch: list[Outcome]) -> None:
        with self._lock:
            self._finished = batch + self._finished

    async def _complete_all(self, chunk: list[Started]) -> None:
        await asyncio.gather(*map(self._complete, chunk))

    async def _complete(self, started: Started) -> None:
        with self.holding(started):
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
            batch = self._pick_up()
            if batch and not await self._on_writer(write, self.cluster_id, batch):
                # The database is away: keep them, the lease is void only when somebody else could take it.
                self._put_back(batch)
                await asyncio.sleep(RETRY_WRITE_AFTER)
                self._wake.set()

    async def _let_go(self, waiting: deque[int]) -> None:
        await asyncio.sleep(LET_GO_AFTER)
        left = list(_drained(waiting))
        if left:
            await self._on_writer(engine.let_go, self.cluster_id, left, clock.now())

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(settings.CRONTY_LEASE_SECONDS / 3)
            if held := list(self._in_hand):
                await self._on_writer(engine.renew, self.cluster_id, held, clock.now())

    async def _until_clear(self) -> None:
        while self._in_hand or self._finished or self._wake.is_set():
            await asyncio.sleep(FLUSH_AFTER)
        # One empty turn of the writer: the last batch has been written when it answers.
        await self._on_writer(bool)

    async def _on_writer(self, step: Callable[..., Any], *arguments: Any) -> bool:
        return await self._loop.run_in_executor(self._writer, _survive, step, *arguments)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


def _drained(waiting: deque[int]) -> Iterator[int]:
    """Take out one by one until nothing is left: what another thread takes meanwhile is that thread's own."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


class _Holding:
    def __init__(self, in_hand: dict[int, Started], started: Started) -> None:
        self._in_hand, self._started = in_hand, started

    def __enter__(self) -> None:
        self._in_hand[self._started.execution_id] = self._started

    def __exit__(self, *error: object) -> None:
        self._in_hand.pop(self._started.execution_id, None)


def write(cluster_id: int, batch: list[Outcome]) -> None:
    """Settle outcomes together; if one of them cannot be written, it fails alone."""
    try:
        engine.settle_runs(cluster_id, batch)
    except OperationalError:
        # Locked, or gone for a while: nothing is wrong with the outcomes, so they are tried again.
        raise
    except (ValueError, TypeError, DatabaseError):
        if len(batch) == 1 and connections["default"].is_usable():
            logger.exception("Outcome of execution %s cannot be written", batch[0].execution_id)
            engine.settle_runs(cluster_id, [_unwritable(batch[0])])
            return
        if not connections["default"].is_usable():
            raise
        for outcome in batch:
            write(cluster_id, [outcome])


def _survive(step: Callable[..., Any], *arguments: Any) -> bool:
    """Run a database step in the writer's thread; a database that went away is asked again later."""
    try:
        connections["default"].close_if_unusable_or_obsolete()
        step(*arguments)
    except Exception:
        logger.exception("Could not write to the database; will try again")
        connections["default"].close()
        return False
    return True


def _context(started: Started) -> registry.Run:
    return registry.Run(
        execution_id=started.execution_id,
        key=started.key,
        job_id=started.job_public_id,
        job_name=started.job_name,
        attempt=started.attempt,
        scheduled_for=started.scheduled_for,
        owner_id=started.owner_id,
        signing_key=started.signing_key or "",
        timeout=started.timeout.total_seconds(),
    )


def _returned(started: Started, value: Any) -> Outcome:
    if value is registry.WAITING:
        return _outcome(started, Status.WAITING)
    if problem := limits.json_problem(value, max_bytes=KEPT_BYTES):
        value = {"kept": _shortened(value), "note": problem}
    return _outcome(started, Status.SUCCEEDED, result=value)


def _failed(started: Started, error: BaseException) -> Outcome:
    after = error.after if isinstance(error, registry.RetryLater) else None
    words = _words_of(error) or type(error).__name__
    if not isinstance(error, registry.Final | registry.RetryLater | TimeoutError):
        words = f"{type(error).__name__}: {words}"
    is_final = isinstance(error, registry.Final)
    trace = "" if isinstance(error, registry.Final | registry.RetryLater) else _trace(error)
    return _outcome(
        started,
        Status.FAILED,
        error=_shortened(words),
        traceback=_shortened(trace),
        retry_at=None if is_final else engine.retry_at(started, clock.now(), after),
    )


def _outcome(started: Started, status: Execution.Status, **values: Any) -> Outcome:
    return Outcome(
        started.execution_id, started.attempt, started.job_id, status, finished_at=clock.now(), **values
    )


def _unwritable(outcome: Outcome) -> Outcome:
    words = "The outcome of this run could not be stored."
    return Outcome(
        outcome.execution_id,
        outcome.attempt,
        outcome.job_id,
        Status.FAILED,
        outcome.finished_at,
        error=words,
    )


def _timeout_words(started: Started) -> str:
    return f"Timed out after {started.timeout / timedelta(seconds=1):g} seconds."


def _words_of(error: BaseException) -> str:
    with suppress(Exception):
        return str(error)
    return ""


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-20))


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else _as_text(value)
    clean = limits.strip_unprintable(text).encode("utf-8", "replace")
    return clean[:KEPT_BYTES].decode("utf-8", "ignore")


def _as_text(value: Any) -> str:
    """Show what is no JSON as well as it can be shown: the run succeeded, whatever its result looks like."""
    with suppress(Exception):
        return json.dumps(value, default=repr, ensure_ascii=False)
    with suppress(Exception):
        return repr(value)
    return f"A {type(value).__name__} that cannot be shown."
