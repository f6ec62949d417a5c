"""The thread that renews and releases the leases of a worker's runs in progress."""

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.db import connections

from schedules import clock, engine
from schedules.engine import Started
from schedules.worker.context import ClusterContext
from schedules.worker.outcomes import log_failure
from schedules.worker.sessions import use_engine_session

# How many seconds beyond its time limit a run's lease is still renewed; after that, the run is considered stuck.
OVERTIME = 20.0


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
