"""The order in which the workers of a cluster take tasks from their queue.

A plain function keeps a worker busy, and those behind it wait. Coroutines and commands only have to be started, so they
never wait behind plain functions, which have a line of their own.
"""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from typing import Any

from schedules import clock
from schedules.worker import packages, runner
from schedules.worker.concurrency import Permits
from schedules.worker.plain_line import PlainLine, PlainPackage

# For how many seconds plain functions let others go first: not forever, or they would starve.
LET_OTHERS_FIRST = 0.1

WAKE_UP = "look at the line"

Take = Callable[[], Any]


class QueueOrder:
    """Lets a worker take a plain function only with a permit, and only if nothing else waits."""

    def __init__(self, line: PlainLine, permits: Permits) -> None:
        self._line = line
        self._permits = permits
        # The permit for the task that this worker is running.
        self._permit: int | None = None

    def before_put(self, task: Any) -> Any:
        """Return what to put into the queue: the task, a wake-up call if it waits in the line instead, or None."""
        if not (isinstance(task, dict) and task["func"] is runner.run_plain_functions):
            return task
        # Without a place in the line, the leases of its executions expire, and they are queued again.
        attempt, execution_ids = task["args"]
        self._line.put(PlainPackage(attempt, execution_ids, task["timeout"]))
        # Enough workers know of a longer line already.
        return WAKE_UP if len(self._line) <= self._permits.count else None

    def next(self, take: Take, take_at_once: Take) -> Any:
        """Return the next task, from the line or from the queue; the one before it has ended."""
        self._give_back_permit()
        task = WAKE_UP
        while task == WAKE_UP:
            # If no permit is free, leave the line to those who hold one: they look at it again.
            task = self._next_before_plain(take_at_once) or self._next_plain() or take()
        return task

    def _next_before_plain(self, take_at_once: Take) -> Any:
        """Return what must not wait for the plain functions in the line, if there is any."""
        if 0 < self._line.seconds_waiting < LET_OTHERS_FIRST:
            with suppress(Empty):
                return take_at_once()
        return None

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
