"""What a worker writes from threads of its own: the outcomes of its runs, in batches, and the leases of those in progress.

    main, coroutines ── add ──▶ finished ──▶ in hand ──▶ database
                                               │  ▲
                         cannot be written now │  │ again, after growing pauses
                                               ▼  │
                                             deferred

Until an outcome is written, the lease of its run is renewed (loop.py). Shared memory tells the claim loop that the run has
ended, so that the next slot is not treated as an overlap.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from itertools import chain
from typing import Any

from django.db import DatabaseError, Error, NotSupportedError, OperationalError, connections

from schedules import clock, engine
from schedules.engine import Outcome, Started
from schedules.models import Execution
from schedules.worker.context import ClusterContext
from schedules.worker.database_errors import is_outage, reason_of
from schedules.worker.sessions import use_engine_session

logger = logging.getLogger(__name__)
# Outcomes are written in batches, but soon: a killed worker repeats only what it had not written yet.
FLUSH_AFTER = 0.02
FLUSH_BURST_AFTER = 0.1
# How many seconds to wait before retrying outcomes: short at first, because a locked row may soon be free, then doubled.
FIRST_RETRY_AFTER = 0.05
LAST_RETRY_AFTER = 1.0
# How many seconds a plain function waits at most for earlier outcomes to be written, and an ending worker for its last ones.
WAIT_FOR_WRITER = 1.0
# After how long an outcome that cannot be written is reported.
REPORT_AFTER = timedelta(seconds=5)
# How many seconds beyond its time limit a run's lease is still renewed; after that, the run is considered stuck.
OVERTIME = 20.0


class OutcomeWriter:
    """The outcomes of one worker process; a thread writes them, so that nothing that blocks the loop delays them."""

    def __init__(self, context: ClusterContext, worker: int) -> None:
        self._context = context
        self._worker = worker
        self._finished: list[Outcome] = []
        # From when on the next plain function waits for them to be written; the thread writes them slightly later.
        self._due_at = 0.0
        # Outcomes to retry, in groups that are written separately, so that a locked row does not delay the others.
        self._deferred: list[list[Outcome]] = []
        self._retry_after = FIRST_RETRY_AFTER
        self._retry_at = 0.0
        self._in_hand: list[list[Outcome]] = []
        # Whether the claim loop knows that there are outcomes to write.
        self._is_reported = False
        # How many times a thread asked to write at once, and how many of these requests are done.
        self._requests = 0
        self._requests_done = 0
        self._is_over = False
        self._changed = threading.Condition()
        self.thread = threading.Thread(target=self._keep_writing, name="outcomes", daemon=True)
        self.thread.start()

    def add(self, outcome: Outcome, *, in_sequence: bool = False) -> None:
        """Queue an outcome to be written in a batch shortly, or a bit later within a sequence of plain functions."""
        with self._changed:
            if not self._finished:
                self._due_at = time.monotonic() + (FLUSH_BURST_AFTER if in_sequence else 0.0)
                self._changed.notify_all()
            if not self._is_reported:
                self._is_reported = True
                self._context.report_unwritten(self._worker, outcome.finished_at)
            self._finished.append(outcome)

    def write_if_due(self) -> None:
        """Wait until due outcomes are written: in a burst, that is faster than competing for the lock."""
        if self._finished and time.monotonic() > self._due_at:
            self.write(WAIT_FOR_WRITER)

    def write(self, max_wait: float) -> None:
        """Wait until every outcome that can be written now is written, but at most `max_wait` seconds."""
        with self._changed:
            self._requests += 1
            request = self._requests
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._requests_done >= request or self._is_over, max_wait)

    @property
    def is_empty(self) -> bool:
        with self._changed:
            return not (self._finished or self._in_hand or self._deferred)

    def execution_ids(self) -> set[int]:
        """Return the executions whose outcomes are not written yet."""
        with self._changed:
            unwritten = chain(self._finished, *self._in_hand, *self._deferred)
            return {outcome.execution_id for outcome in unwritten}

    def close(self) -> None:
        """End the thread after the batch that it is writing; later outcomes are not written."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self.thread.join(WAIT_FOR_WRITER)

    def _keep_writing(self) -> None:
        use_engine_session()
        while self._wait_until_due():
            self._write()
        connections.close_all()

    def _wait_until_due(self) -> bool:
        """Wait until there is something to write; return whether to go on."""
        with self._changed:
            while not self._is_over and (seconds := self._write_at() - time.monotonic()) > 0:
                self._changed.wait(seconds if seconds < math.inf else None)
            return not self._is_over

    def _write_at(self) -> float:
        """Return when to write, on the monotonic clock; the caller holds the lock.

        In a burst, outcomes wait longer for others: each write would delay runs that are due.
        """
        if self._requests > self._requests_done:
            return 0.0
        flush_after = FLUSH_BURST_AFTER if self._context.is_burst else FLUSH_AFTER
        return min(
            self._due_at + flush_after if self._finished else math.inf,
            self._retry_at if self._deferred else math.inf,
        )

    def _write(self) -> None:
        """Write every outcome that can be written; keep the others for the next time."""
        is_retry = time.monotonic() >= self._retry_at
        with self._changed:
            requests = self._requests
            self._in_hand = [self._finished] if self._finished else []
            self._finished = []
            if is_retry:
                self._in_hand += self._deferred
                self._deferred = []
        try:
            deferred = list(chain.from_iterable(map(self._write_group, self._in_hand)))
        except Exception:
            # The thread must survive. Outcomes that were already written are not written again.
            logger.exception("Outcomes could not be written; trying again")
            deferred = self._in_hand
        with self._changed:
            self._in_hand = []
            self._deferred += deferred
            # Deferred outcomes do not count: they wait for a lock of another session.
            self._is_reported = bool(self._finished)
            self._context.report_unwritten(
                self._worker, self._finished[0].finished_at if self._finished else None
            )
            if not self._deferred:
                self._retry_after = FIRST_RETRY_AFTER
            elif is_retry:
                self._retry_at = time.monotonic() + self._retry_after
                self._retry_after = min(2 * self._retry_after, LAST_RETRY_AFTER)
            self._requests_done = requests
            self._changed.notify_all()

    def _write_group(self, group: list[Outcome]) -> list[list[Outcome]]:
        """Write outcomes; return those to retry, in groups."""
        try:
            connections["default"].close_if_unusable_or_obsolete()
            with self._context.turns.take():
                deferred = write_outcomes(self._context.cluster_id, group)
        except Exception as error:
            # Keep the outcomes: during an outage, no other cluster can take over the executions, either.
            log_failure(error)
            connections["default"].close()
            deferred = [group]
        unwritten = list(chain.from_iterable(deferred))
        if unwritten and clock.now() - min(outcome.finished_at for outcome in unwritten) > REPORT_AFTER:
            self._context.report_blocked()
        return deferred


def write_outcomes(cluster_id: int, batch: list[Outcome]) -> list[list[Outcome]]:
    """Settle outcomes in one batch; an outcome that cannot be written does not affect the others.

    Return the outcomes to retry because a row or table is locked, in groups.
    """
    try:
        blocked = engine.settle_runs(cluster_id, batch).blocked
    except (OperationalError, NotSupportedError) as error:
        if not engine.is_lock_timeout(error):
            # The outcomes are fine; the database is locked, down or migrated. Let the caller reconnect and try again.
            raise
        logger.warning("Outcomes wait for a row or table that is locked: %s", error)
        # One of them waited for a row other than its run and job: split the batch, so that one half can go ahead.
        middle = len(batch) // 2
        return [half for half in (batch[:middle], batch[middle:]) if half]
    except (ValueError, TypeError, DatabaseError) as error:
        if is_outage(error):
            raise
        if len(batch) == 1 and connections["default"].is_usable():
            execution_id = batch[0].execution_id
            logger.exception(
                "The outcome of execution %s cannot be written",
                execution_id,
                extra={"execution": execution_id},
            )
            blocked = engine.settle_runs(cluster_id, [_unwritable(batch[0])]).blocked
        elif connections["default"].is_usable():
            return list(chain.from_iterable(write_outcomes(cluster_id, [outcome]) for outcome in batch))
        else:
            raise
    return [blocked] if blocked else []


def log_failure(error: Exception) -> None:
    """Log that something could not be written; an outage without a traceback."""
    if isinstance(error, Error) and is_outage(error):
        logger.warning("Could not write to the database (%s); trying again", reason_of(error))
    else:
        logger.exception("Could not write to the database; trying again")


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


class Leases:
    """The runs in progress, and the thread that changes their leases.

    Outcomes have another thread, because they may have to wait for a locked row, and leases must not.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        # Per run: the attempt, and until when its lease is renewed, on the monotonic clock.
        self._until: dict[int, tuple[int, float]] = {}
        self.executor = ThreadPoolExecutor(1, "leases", initializer=use_engine_session)

    def hold(self, runs: Iterable[Started]) -> None:
        begin = time.monotonic() + OVERTIME
        self._until |= {run.execution_id: (run.attempt, begin + run.timeout.total_seconds()) for run in runs}

    def drop(self, run: Started) -> None:
        """Stop renewing a lease, unless it belongs to a later attempt that came to the same worker."""
        attempt, _ = self._until.get(run.execution_id, (None, 0.0))
        if attempt == run.attempt:
            self._until.pop(run.execution_id, None)

    @property
    def is_empty(self) -> bool:
        return not self._until

    def held(self) -> set[int]:
        """Return the runs in progress whose leases are to be renewed."""
        now = time.monotonic()
        # Copy it in one step, because another thread may change it meanwhile.
        return {key for key, (_, until) in list(self._until.items()) if now < until}

    def overdue(self) -> set[int]:
        """Return the runs that are still going although they should have ended."""
        now = time.monotonic()
        return {key for key, (_, until) in list(self._until.items()) if now >= until}

    def change(self, step: Callable[..., Any], ids: Collection[int]) -> Future[bool]:
        """Change leases in the thread; on an error, log it and return False, so that the caller can try again."""
        return self.executor.submit(self._try, step, ids)

    def close(self) -> None:
        self.executor.submit(connections.close_all)
        self.executor.shutdown(wait=False)

    def _try(self, step: Callable[..., Any], ids: Collection[int]) -> bool:
        try:
            connections["default"].close_if_unusable_or_obsolete()
            with self._context.turns.take():
                step(self._context.cluster_id, ids, clock.now())
        except Exception as error:
            log_failure(error)
            if not engine.is_lock_timeout(error):
                connections["default"].close()
            return False
        return True
