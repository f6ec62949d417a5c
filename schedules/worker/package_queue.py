"""The queue between the claim loop and the workers of a cluster.

A plain function keeps a worker busy, and those behind it wait. Coroutines and commands only have to be started, so they
never wait behind plain functions, which have a line of their own.
"""

from contextlib import suppress
from queue import Empty
from typing import Any

from django_q.queues import Queue

from schedules import clock
from schedules.worker import packages, runner
from schedules.worker.concurrency import Permits
from schedules.worker.plain_line import PlainLine, PlainPackage

# How many seconds plain functions let others go first, so that those cannot keep them waiting for ever.
LET_OTHERS_FIRST = 0.1

WAKE_UP = "look at the line"


class PackageQueue(Queue):
    """django-q2's queue, from which a worker takes a plain function only with a permit, and only if nothing else waits."""

    def __init__(self, line: PlainLine, permits: Permits, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._line = line
        self._permits = permits
        # The permit for the package that this worker is running.
        self._permit: int | None = None

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        if isinstance(obj, dict) and obj["func"] is runner.run_plain_functions:
            # Without a place in the line, the leases of its executions expire, and they are queued again.
            attempt, execution_ids = obj["args"]
            self._line.put(PlainPackage(attempt, execution_ids, obj["timeout"]))
            if len(self._line) > self._permits.count:
                # Enough workers know of the line already.
                return
            obj = WAKE_UP
        super().put(obj, block, timeout)  # type: ignore[no-untyped-call]

    def get(self, *arguments: Any, **options: Any) -> Any:
        """Return the next package; the one before it has ended."""
        self._give_back_permit()
        task = WAKE_UP
        while task == WAKE_UP:
            # Whoever holds a permit looks at the line again, so it is left to them when none is free.
            task = self._next_before_plain() or self._next_plain() or self._wait(*arguments, **options)
        return task

    def _next_before_plain(self) -> Any:
        """Return what must not wait for the plain functions in the line, if there is any."""
        if 0 < self._line.seconds_waiting < LET_OTHERS_FIRST:
            with suppress(Empty):
                return self._wait(block=False)
        return None

    def _wait(self, *arguments: Any, **options: Any) -> Any:
        return super().get(*arguments, **options)  # type: ignore[no-untyped-call]

    def _next_plain(self) -> Any:
        """Return the first package in the line, if there is one and a permit for it."""
        if not self._line:
            return None
        self._permit = self._permits.take()
        package = None if self._permit is None else self._line.take()
        if package is None:
            self._give_back_permit()
            return None
        return packages.plain_task(package, clock.now())

    def _give_back_permit(self) -> None:
        if self._permit is not None:
            self._permits.give_back(self._permit)
            self._permit = None
