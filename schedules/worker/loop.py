"""The work in progress of a worker process, and the threads that share it.

    [main] ── coroutines, commands ──▶ [coroutines] ── output ──▶ [output] ──▶ database
      │                                  │   ▲   │
      │ outcomes                outcomes │   │   └─ runs to release ──────┐
      ▼                                  │   │ heartbeat?                 ▼
    [outcomes] ◀─────────────────────────┘ [lease timer] ─ renewals ─▶ [leases] ──▶ database
      │
      ▼
    database

    main         django-q2's worker (packages.py): starts runs in the database, and calls plain functions itself
    coroutines   the event loop, in which coroutines and commands run
    outcomes     writes outcomes in batches (outcomes.py)
    leases       renews and releases leases, one change after the other (outcomes.py)
    lease timer  requests renewals, and asks the event loop for a heartbeat: if none comes, a coroutine blocks it
    output       saves what commands print (commands.py), which may wait for the database; it starts with the first output

Every thread that writes has its own database session, so that none waits for the transaction of another.
"""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from django.db import (
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    connections,
)

from schedules import clock, engine
from schedules.engine import Started
from schedules.tasks import registry
from schedules.worker.calls import run_coroutine
from schedules.worker.commands import Commands
from schedules.worker.context import ClusterContext
from schedules.worker.outcomes import OVERTIME, WAIT_FOR_WRITER, Leases, OutcomeWriter

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

# How many coroutines begin before the loop goes on with those that have begun; four times as many each time that the last
# group took less than `QUICK_SECONDS`.
BEGIN_TOGETHER = 4
QUICK_SECONDS = 0.001
RETRY_LEASES_AFTER = 0.5
RELEASE_AFTER = 0.2
# Plain functions are started together if all of them should end within this many seconds.
TOGETHER_WITHIN = 0.1
CHECK_FOR_DRAIN_EVERY = 0.02


class WorkerLoop:
    """The runs of one worker process, from their start to their outcome.

    Outcomes and leases have threads of their own: a coroutine that blocks the event loop must neither hold back the
    outcomes of other runs nor let their leases expire.
    """

    def __init__(self, context: ClusterContext, worker: int = 0) -> None:
        self.context = context
        self.cluster_id = context.cluster_id
        self.outcomes = OutcomeWriter(context, worker)
        self.leases = Leases(context)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._commands = Commands(context, self.leases, self._tasks)
        # Unknown before the first plain function.
        self._last_plain_seconds = math.inf
        # When the next probe replaces the session in which this worker starts runs, on the monotonic clock.
        self.renew_session_at = 0.0
        # How many heartbeats the event loop has missed in a row. A count, because the process may be suspended for a time.
        self._missed_heartbeats = 0
        self._is_over = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="coroutines", daemon=True)
        self._thread.start()
        threading.Thread(target=self._keep_renewing, name="lease timer", daemon=True).start()

    def start(self, attempt: int, execution_ids: list[int]) -> list[Started]:
        """Start the executions that are still ours; reconnect once if the connection broke since the last run.

        Locked executions are left out: they are queued again when their leases expire.
        """
        start = partial(engine.start_runs, self.cluster_id, attempt, execution_ids)
        try:
            with self.context.turns.take():
                return start(clock.now())
        except (OperationalError, InterfaceError, InternalError, NotSupportedError) as error:
            if engine.is_lock_timeout(error):
                self.context.report_blocked()
                return start(clock.now(), skip_locked=True)
            # PostgreSQL reports "not supported" if a migration changed a table that a prepared plan uses, and an internal
            # error if it ended a transaction that took too long.
            connections["default"].close()
            return start(clock.now())

    def start_coroutines(self, chunk: list[Started]) -> None:
        """Run coroutine tasks in the background, together."""
        self.leases.hold(chunk)
        self._loop.call_soon_threadsafe(self._begin, chunk)

    def start_command(self, started: Started, permit: int) -> None:
        """Run a command in the background; give its permit back when it has ended."""
        self.leases.hold([started])
        self._commands.add(started)
        self._loop.call_soon_threadsafe(self._create_tasks, [started], permit)
        self.spawn(self._commands.interrupt_in_time(started.execution_id))

    def start_in_sequence(self, attempt: int, execution_ids: list[int]) -> Iterator[Started]:
        """Start plain functions and yield them one by one; release those that wait behind a long one.

        While functions are quick, all of a package are started in one commit. A run that was started before is started
        alone: if it killed its worker, it must not take others with it again.
        """
        claimed, started, is_over = deque(execution_ids), deque[Started](), threading.Event()
        if len(claimed) > 1:
            self.spawn(self._release(claimed, started, is_over))
        try:
            for execution_id in _drained(claimed):
                group = [execution_id]
                if attempt == 0 and self._last_plain_seconds * (1 + len(claimed)) < TOGETHER_WITHIN:
                    group += _drained(claimed)
                self.outcomes.write_if_due()
                runs = self.start(attempt, group)
                self.leases.hold(runs)
                started.extend(runs)
                for run in _drained(started):
                    # Extend the lease: the time limit counts from here.
                    self.leases.hold([run])
                    begin = time.monotonic()
                    try:
                        yield run
                    finally:
                        self.leases.drop(run)
                    self._last_plain_seconds = time.monotonic() - begin
        finally:
            is_over.set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        """Run a coroutine in the event loop, in the background."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    @property
    def is_stuck(self) -> bool:
        """Whether a coroutine that should have ended blocks the loop, so that no other coroutine can go on."""
        if self._missed_heartbeats * settings.CRONTY_LEASE_SECONDS / 3 < OVERTIME:
            return False
        return any(execution_id in self._tasks for execution_id in self.leases.overdue())

    def drain(self, max_wait: float) -> bool:
        """Finish and write what is in progress, then end the loop; return whether that worked in time."""
        if self._is_over.is_set():
            return True
        self._commands.drain_ends_at = time.monotonic() + max_wait
        try:
            self.spawn(self._until_drained()).result(max_wait)
        except TimeoutError:
            self.outcomes.write(WAIT_FOR_WRITER)
            return False
        finally:
            self._is_over.set()
            # Close before the event loop ends: what it then cancels must be handed back, without an outcome.
            self.outcomes.close()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(1)
            self.leases.close()
            self._commands.close()
        return True

    def _run_loop(self) -> None:
        """Run the event loop until the drain, even if a task breaks it; then let remaining tasks clean up."""
        while not self._is_over.is_set():
            try:
                self._loop.run_forever()
            except BaseException:
                logger.exception("A task broke out of the loop; the others go on")
        if remaining := asyncio.all_tasks(self._loop):
            for task in remaining:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(remaining, timeout=0.5))
        # Async generators keep connections open until they end.
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _create_tasks(self, chunk: list[Started], permit: int | None = None) -> None:
        for started in chunk:
            # Keep a reference, because the event loop only has a weak one.
            self._tasks[started.execution_id] = self._loop.create_task(self._complete(started, permit))

    def _begin(self, chunk: list[Started], count: int = BEGIN_TOGETHER) -> None:
        """Start a few coroutines at a time, so that the first can send before all of them are prepared.

        While they are quick, start more at a time: each step of the loop lets other threads go first.
        """
        begin = time.monotonic()
        self._create_tasks(chunk[:count])

        def go_on() -> None:
            is_quick = time.monotonic() - begin < QUICK_SECONDS
            self._begin(chunk[count:], 4 * count if is_quick else count)

        if len(chunk) > count:
            self._loop.call_soon(go_on)

    async def _complete(self, started: Started, permit: int | None) -> None:
        task = registry.get(started.task)
        is_program = permit is not None or (task is not None and task.runs_program)
        if is_program and permit is None:
            self._commands.add(started)
            self.spawn(self._commands.interrupt_in_time(started.execution_id))
        try:
            outcome = await run_coroutine(
                started,
                task,
                partial(self._commands.save_output, started),
                partial(self._commands.save_agent_run, started),
            )
        finally:
            self.leases.drop(started)
            # A later attempt may have come to this worker, too.
            if self._tasks.get(started.execution_id) is asyncio.current_task():
                del self._tasks[started.execution_id]
            if is_program:
                self._commands.remove(started, permit)
        if is_program and self._commands.is_interrupted(started):
            # No outcome: the leader hands the run back, so that another cluster starts it again.
            return
        self.outcomes.add(outcome)

    async def _release(self, claimed: deque[int], started: deque[Started], is_over: threading.Event) -> None:
        """Release runs that wait behind a long function, or that remain after a start has failed."""
        is_last = False
        while not is_last:
            await asyncio.sleep(RELEASE_AFTER)
            is_last = is_over.is_set()
            if unstarted := list(_drained(claimed)):
                await self._until_done(engine.release_claims, unstarted)
            if uncalled := list(_drained(started)):
                await self._until_done(engine.release_uncalled, [run.execution_id for run in uncalled])
                for run in uncalled:
                    self.leases.drop(run)

    def _keep_renewing(self) -> None:
        while not self._is_over.wait(settings.CRONTY_LEASE_SECONDS / 3):
            # The event loop may have just ended, or the system may refuse a thread: try again until the drain.
            with suppress(RuntimeError):
                self._missed_heartbeats += 1
                self._loop.call_soon_threadsafe(self._beat)
                self._renew()
                if self._commands:
                    self.spawn(self._commands.stop_lost())

    def _renew(self) -> None:
        """Renew the leases of the runs in progress, and of those whose outcomes are not written yet."""
        while held := self.leases.held() | self.outcomes.execution_ids():
            if self.leases.change(engine.renew, held).result():
                return
            self._is_over.wait(RETRY_LEASES_AFTER)

    def _beat(self) -> None:
        self._missed_heartbeats = 0

    async def _until_drained(self) -> None:
        while not (self.leases.is_empty and self.outcomes.is_empty):
            await asyncio.sleep(CHECK_FOR_DRAIN_EVERY)

    async def _until_done(self, step: Callable[..., Any], ids: Collection[int]) -> None:
        while not await asyncio.wrap_future(self.leases.change(step, ids)):
            await asyncio.sleep(RETRY_LEASES_AFTER)


def _drained(waiting: deque[Item]) -> Iterator[Item]:
    """Yield and remove one by one until the queue is empty; another thread may take from it meanwhile."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()
