"""The order in which the workers of a cluster take packages from their queue.

A plain function keeps its worker busy. Coroutines and commands only have to be started, so they must not wait behind
plain functions, which have a line of their own.
"""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from typing import Any

from schedules.worker import packages
from schedules.worker.context import PlainLine, PlainPackage
from schedules.worker.locks import Permits

# How many seconds plain functions let others go first; not forever, or they would starve.
LET_OTHERS_FIRST = 0.1

WAKE_UP = "check the line"

Take = Callable[[], Any]


class QueueOrder:
    """Lets a worker take a plain function only with a permit, and only if nothing else waits."""

    def __init__(self, line: PlainLine, permits: Permits) -> None:
        self._line = line
        self._permits = permits
        # The permit for the package that this worker is running.
        self._permit: int | None = None

    def before_put(self, package: Any) -> Any:
        """Return what to put into the queue: the package, a wake-up call if it waits in the line instead, or None."""
        if not (isinstance(package, dict) and package["func"] is packages.run_plain_functions):
            return package
        # If the line is full, the executions are queued again when their leases expire.
        attempt, execution_ids = package["args"]
        self._line.put(PlainPackage(attempt, execution_ids, package["timeout"]))
        # With a longer line, enough workers have been woken already.
        return WAKE_UP if len(self._line) <= self._permits.count else None

    def next(self, take: Take, take_at_once: Take) -> Any:
        """Return the next package from the line or the queue; the previous one has ended."""
        self._give_back_permit()
        package = WAKE_UP
        while package == WAKE_UP:
            # If no permit is free, leave the line to the workers that hold one: they will check it again.
            package = self._next_before_plain(take_at_once) or self._next_plain() or take()
        return package

    def _next_before_plain(self, take_at_once: Take) -> Any:
        """Return a package that may go before the plain functions in the line, if any."""
        if 0 < self._line.seconds_waiting < LET_OTHERS_FIRST:
            with suppress(Empty):
                return take_at_once()
        return None

    def _next_plain(self) -> Any:
        """Return the first package in the line, if there is one and a permit is free."""
        if not self._line:
            return None
        self._permit = self._permits.take()
        package = None if self._permit is None else self._line.take()
        if package is None:
            self._give_back_permit()
            return None
        return packages.from_line(package)

    def _give_back_permit(self) -> None:
        if self._permit is not None:
            self._permits.give_back(self._permit)
            self._permit = None
