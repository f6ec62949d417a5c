"""The loop of a worker process: coroutines in progress, leases, and outcomes to be written."""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from django.conf import settings
from django.db import Error, connections

from schedules import clock, engine
from schedules.database_errors import reason_of
from schedules.engine import Outcome, Started
from schedules.tasks import registry
from schedules.tasks.interface import OutputText
from schedules.worker.calls import run_coroutine
from schedules.worker.context import ClusterContext
from schedules.worker.outcomes import log_failure, write_outcomes
from schedules.worker.sessions import use_engine_session
from schedules.worker.starts import start_executions

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

# Outcomes are written in batches, but soon: a killed worker repeats only what it had not written yet.
FLUSH_AFTER = 0.02
FLUSH_BURST_AFTER = 0.1
# How many seconds pass before outcomes are tried again: doubled every time, because a locked row may be free at once.
FIRST_RETRY_AFTER = 0.05
LAST_RETRY_AFTER = 1.0
RETRY_LEASES_AFTER = 0.5
# For how many seconds after its time limit the lease of a run is renewed: a run that still goes on then never ends.
OVERTIME = 20.0
RELEASE_AFTER = 0.2
# Plain functions are started together if all of them should end within this many seconds.
TOGETHER_WITHIN = 0.1
# How many seconds a plain function waits at most for the outcomes of those before it to be written.
WAIT_FOR_WRITER = 1.0
# The part of the time for a stop that commands have to clean up: they are told to end so long before the leader kills them.
TIME_TO_CLEAN_UP = 0.4
LOOK_FOR_STOP_EVERY = 0.1
# After how many seconds an outcome that cannot be written is reported.
REPORT_AFTER = timedelta(seconds=5)


class WorkerLoop:
    """The work in progress of one worker process.

    It has a thread for coroutines, one that writes outcomes, and one that renews leases, because outcomes may have to
    wait for a locked row while leases must not. Another one says when to renew them: a coroutine that blocks the loop
    must not end the leases of other runs.
    """

    def __init__(self, context: ClusterContext, worker: int = 0) -> None:
        self.context = context
        self._worker = worker
        self.cluster_id = context.cluster_id
        # Until when the lease of each run is renewed, on the monotonic clock.
        self._in_progress: dict[int, float] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # The attempts of the commands in progress, which are stopped when another cluster has taken them over.
        self._commands: dict[int, int] = {}
        self._stopped: set[int] = set()
        self._drain_ends_at = math.inf
        self._finished: list[Outcome] = []
        # Whether the claim loop knows that there are outcomes to write.
        self._is_reported = False
        # What could not be written yet, in groups that are written one by one: one locked row must not delay the others.
        self._deferred: list[list[Outcome]] = []
        self._retry_after = FIRST_RETRY_AFTER
        self._retry_at = 0.0
        self._in_hand: list[list[Outcome]] = []
        self._write_at = 0.0
        # How many seconds the last plain function took; before the first one, nobody knows.
        self._last_took = math.inf
        # When the next probe opens a new database session for the starts of this worker, on the monotonic clock.
        self.renew_session_at = 0.0
        self._lock = threading.Lock()
        # How often the loop was asked for a sign of life since its last one. Not a time: this process may stand still.
        self._unanswered = 0
        self._over = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, "outcomes", initializer=use_engine_session)
        self._renewer = ThreadPoolExecutor(1, "leases", initializer=use_engine_session)
        # Output may wait for the database without delaying outcomes and leases; the thread starts with the first.
        self._output_writer = ThreadPoolExecutor(1, "output", initializer=use_engine_session)
        self._thread = threading.Thread(target=self._run_loop, name="coroutines", daemon=True)
        self._thread.start()
        self._spawn(self._keep_writing())
        threading.Thread(target=self._keep_renewing, name="lease timer", daemon=True).start()

    def start_coroutines(self, chunk: list[Started]) -> None:
        """Run coroutine tasks in the background, all at once."""
        self._note_progress(chunk)
        self._loop.call_soon_threadsafe(self._create_tasks, chunk)

    def start_command(self, started: Started, permit: int) -> None:
        """Run a command in the background; give its permit back when it has ended."""
        self._note_progress([started])
        self._commands[started.execution_id] = started.attempt
        self._loop.call_soon_threadsafe(self._create_tasks, [started], permit)
        self._spawn(self._stop_in_time(started.execution_id))

    @contextmanager
    def keep_lease(self, started: Started) -> Iterator[None]:
        """Renew the lease of an execution for as long as the block runs."""
        self._note_progress([started])
        try:
            yield
        finally:
            self._in_progress.pop(started.execution_id, None)

    def start_in_sequence(self, attempt: int, execution_ids: list[int]) -> Iterator[Started]:
        """Start plain functions and yield them one by one; release those that wait behind a long one.

        While functions are quick, those of a package are started in one commit. A run that was started before is
        started alone: if it kills its worker, it must not take others with it a second time.
        """
        claimed, started, is_over = deque(execution_ids), deque[Started](), threading.Event()
        if len(claimed) > 1:
            self._spawn(self._release(claimed, started, is_over))
        try:
            for execution_id in _drained(claimed):
                group = [execution_id]
                if attempt == 0 and self._last_took * (1 + len(claimed)) < TOGETHER_WITHIN:
                    group += _drained(claimed)
                self.write_if_due()
                runs = start_executions(self.context, attempt, group)
                self._note_progress(runs)
                started.extend(runs)
                for run in _drained(started):
                    begin = time.monotonic()
                    yield run
                    self._last_took = time.monotonic() - begin
        finally:
            is_over.set()

    def add_outcome(self, outcome: Outcome) -> None:
        """Queue an outcome; it is written in a batch a moment later."""
        with self._lock:
            if not self._finished:
                self._write_at = time.monotonic() + FLUSH_BURST_AFTER
                self._loop.call_soon_threadsafe(self._wake.set)
            self._add(outcome)

    def write_if_due(self) -> None:
        """Wait until outcomes that are due are written: in a burst, that is faster than to go on meanwhile."""
        if self._finished and time.monotonic() > self._write_at:
            with suppress(TimeoutError):
                self._writer.submit(self._write).result(WAIT_FOR_WRITER)

    @property
    def is_stuck(self) -> bool:
        """Whether a coroutine that should have ended blocks the loop, so that no other coroutine goes on."""
        if self._unanswered * settings.CRONTY_LEASE_SECONDS / 3 < OVERTIME:
            return False
        now = time.monotonic()
        return any(now > until for key, until in list(self._in_progress.items()) if key in self._tasks)

    def write_now(self) -> None:
        """Wait until outcomes are written, as far as that is possible now."""
        self._writer.submit(self._write).result()

    def drain(self, max_wait: float) -> bool:
        """Finish and write what is in progress, then end the loop; return whether that worked in time."""
        if self._over.is_set():
            return True
        self._drain_ends_at = time.monotonic() + max_wait
        try:
            self._spawn(self._until_drained()).result(max_wait)
        except TimeoutError:
            return False
        finally:
            self._over.set()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(1)
            for thread in (self._writer, self._renewer, self._output_writer):
                thread.submit(connections.close_all)
                thread.shutdown(wait=False)
        return True

    def _run_loop(self) -> None:
        """Run the event loop until the drain, even if a task breaks it; then let remaining tasks clean up."""
        while not self._over.is_set():
            try:
                self._loop.run_forever()
            except BaseException:
                logger.exception("A task broke out of the loop; the others go on")
        if remaining := asyncio.all_tasks(self._loop):
            for task in remaining:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(remaining, timeout=0.5))
        self._loop.close()

    def _write(self) -> None:
        """Write every outcome that can be written; keep the others for the next time."""
        is_retry = time.monotonic() >= self._retry_at
        with self._lock:
            self._in_hand = [self._finished] if self._finished else []
            self._finished = []
            if is_retry:
                self._in_hand += self._deferred
                self._deferred = []
        deferred = list(chain.from_iterable(map(self._write_group, self._in_hand)))
        with self._lock:
            self._in_hand = []
            # Not what is deferred: it waits for somebody else.
            self._deferred += deferred
            self._is_reported = bool(self._finished)
            self.context.report_unwritten(
                self._worker, self._finished[0].finished_at if self._finished else None
            )
        if not deferred:
            self._retry_after = FIRST_RETRY_AFTER
        elif is_retry:
            self._retry_at = time.monotonic() + self._retry_after
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.call_later, self._retry_after, self._wake.set)
            self._retry_after = min(2 * self._retry_after, LAST_RETRY_AFTER)

    def _add(self, outcome: Outcome) -> None:
        """Add an outcome to those to be written; the caller holds the lock."""
        if not self._is_reported:
            self._is_reported = True
            self.context.report_unwritten(self._worker, outcome.finished_at)
        self._finished.append(outcome)

    def _write_group(self, group: list[Outcome]) -> list[list[Outcome]]:
        """Write outcomes; return those to be tried again, in groups."""
        try:
            connections["default"].close_if_unusable_or_obsolete()
            with self.context.turns.take():
                deferred = write_outcomes(self.cluster_id, group)
        except Exception as error:
            # Keep the outcomes: if the database is away, no other cluster can take over the executions, either.
            log_failure(error)
            connections["default"].close()
            deferred = [group]
        unwritten = list(chain.from_iterable(deferred))
        if unwritten and clock.now() - min(outcome.finished_at for outcome in unwritten) > REPORT_AFTER:
            self.context.report_blocked()
        return deferred

    def _note_progress(self, runs: Iterable[Started]) -> None:
        begin = time.monotonic() + OVERTIME
        self._in_progress |= {run.execution_id: begin + run.timeout.total_seconds() for run in runs}

    def _held(self) -> set[int]:
        """Return the executions whose leases are to be renewed: those in progress, and those not written yet."""
        now = time.monotonic()
        with self._lock:
            unwritten = chain(self._finished, *self._in_hand, *self._deferred)
            # Copied in one step, because another thread may change it meanwhile.
            in_progress = (key for key, until in list(self._in_progress.items()) if now < until)
            return {*in_progress, *(outcome.execution_id for outcome in unwritten)}

    def _create_tasks(self, chunk: list[Started], permit: int | None = None) -> None:
        for started in chunk:
            # Kept until it is done, because the event loop itself would not keep it from being collected.
            self._tasks[started.execution_id] = self._loop.create_task(self._complete(started, permit))

    async def _complete(self, started: Started, permit: int | None) -> None:
        try:
            save_output = partial(self._save_output, started)
            outcome = await run_coroutine(started, registry.get(started.task), save_output)
        finally:
            self._in_progress.pop(started.execution_id, None)
            self._tasks.pop(started.execution_id, None)
            if permit is not None:
                self._commands.pop(started.execution_id, None)
                self.context.permits.give_back(permit)
        if started.execution_id in self._stopped:
            # Without an outcome: the leader hands the run back, so that another cluster starts it again.
            return
        with self._lock:
            self._add(outcome)
        self._wake.set()

    async def _stop_in_time(self, execution_id: int) -> None:
        """Tell a command to end while there is time to clean up, even if a plain function keeps this worker busy."""
        time_to_clean_up = settings.CRONTY_STOP_SECONDS * TIME_TO_CLEAN_UP
        while execution_id in self._commands:
            await asyncio.sleep(LOOK_FOR_STOP_EVERY)
            task = self._tasks.get(execution_id)
            if (
                task
                and min(self.context.seconds_left, self._drain_ends_at - time.monotonic()) < time_to_clean_up
            ):
                self._stopped.add(execution_id)
                task.cancel()
                return

    async def _keep_writing(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._flush_after())
            self._wake.clear()
            if time.monotonic() < self._write_at + FLUSH_AFTER:
                self._wake.set()
                continue
            await self._loop.run_in_executor(self._writer, self._write)

    def _flush_after(self) -> float:
        """Return how long outcomes wait for others: longer in a burst, where each write would delay runs that are due."""
        return FLUSH_BURST_AFTER if self.context.is_burst else FLUSH_AFTER

    async def _release(self, claimed: deque[int], started: deque[Started], is_over: threading.Event) -> None:
        """Release what waits behind a long function, and what is left when a start has failed."""
        is_last = False
        while not is_last:
            await asyncio.sleep(RELEASE_AFTER)
            is_last = is_over.is_set()
            if unstarted := list(_drained(claimed)):
                await self._until_done(engine.release_claims, unstarted)
            if uncalled := [run.execution_id for run in _drained(started)]:
                await self._until_done(engine.release_uncalled, uncalled)
                for execution_id in uncalled:
                    self._in_progress.pop(execution_id, None)

    def _keep_renewing(self) -> None:
        while not self._over.wait(settings.CRONTY_LEASE_SECONDS / 3):
            # The loop may have ended meanwhile, or the system refuses a thread: try again until it is over.
            with suppress(RuntimeError):
                self._unanswered += 1
                self._loop.call_soon_threadsafe(self._answer)
                while (held := self._held()) and not self._renewer.submit(
                    self._try, engine.renew, held
                ).result():
                    self._over.wait(RETRY_LEASES_AFTER)
                if self._commands:
                    self._spawn(self._stop_lost_commands())

    def _answer(self) -> None:
        self._unanswered = 0

    async def _stop_lost_commands(self) -> None:
        """Stop the commands that this cluster no longer holds: they may be running elsewhere."""
        lost: list[int] = []

        def find(cluster_id: int, attempts: dict[int, int], now: datetime) -> None:
            lost.extend(engine.find_lost(cluster_id, attempts))

        await self._on_renewer(find, dict(self._commands))
        for execution_id in lost:
            if task := self._tasks.get(execution_id):
                logger.warning(
                    "Execution %s was taken over or ended: its command is stopped",
                    execution_id,
                    extra={"execution": execution_id},
                )
                task.cancel()

    async def _save_output(self, started: Started, output: OutputText) -> None:
        def save() -> None:
            try:
                connections["default"].close_if_unusable_or_obsolete()
                with self.context.turns.take():
                    engine.save_output(started.execution_id, started.attempt, output)
            except Error as error:
                # The next save brings the same text and more.
                logger.warning("Could not store output (%s)", reason_of(error))
                connections["default"].close()

        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            await self._loop.run_in_executor(self._output_writer, save)

    async def _until_drained(self) -> None:
        while self._in_progress or self._finished or self._in_hand or self._deferred:
            await asyncio.sleep(FLUSH_AFTER)

    async def _until_done(self, step: Callable[..., Any], ids: Collection[int]) -> None:
        while not await self._on_renewer(step, ids):
            await asyncio.sleep(RETRY_LEASES_AFTER)

    async def _on_renewer(self, step: Callable[..., Any], ids: Collection[int]) -> bool:
        return await self._loop.run_in_executor(self._renewer, self._try, step, ids)

    def _try(self, step: Callable[..., Any], ids: Collection[int]) -> bool:
        """Change the leases of executions; log an error and return False, so that the caller can try again later."""
        try:
            connections["default"].close_if_unusable_or_obsolete()
            with self.context.turns.take():
                step(self.cluster_id, ids, clock.now())
        except Exception as error:
            log_failure(error)
            if not engine.is_lock_timeout(error):
                connections["default"].close()
            return False
        return True

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


def _drained(waiting: deque[Item]) -> Iterator[Item]:
    """Yield and remove one by one until the queue is empty; another thread may take from it meanwhile."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()
