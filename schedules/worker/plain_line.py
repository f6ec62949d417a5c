"""The line of plain functions: packages that wait for a worker with a permit, in memory that a cluster's processes share."""

import ctypes
import fcntl
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import NamedTuple

# The most plain functions in a package.
PLAIN_CHUNK = 10
# More packages than a cluster ever holds.
PLACES = 4096


class PlainPackage(NamedTuple):
    """Plain functions that one worker runs one after the other."""

    attempt: int
    execution_ids: list[int]
    timeout: int


class _Place(ctypes.Structure):
    _fields_ = (
        ("attempt", ctypes.c_int),
        ("timeout", ctypes.c_int),
        ("count", ctypes.c_int),
        ("execution_ids", ctypes.c_longlong * PLAIN_CHUNK),
    )


class _Ends(ctypes.Structure):
    """How many packages were ever put into the line and taken from it, and when the first one became the first."""

    _fields_ = (("put", ctypes.c_ulong), ("taken", ctypes.c_ulong), ("first_since", ctypes.c_double))


class PlainLine:
    """The packages of plain functions that no worker has taken yet.

    In shared memory, because a queue of multiprocessing has locks that a killed process would hold for ever; here the
    kernel releases the lock.
    """

    def __init__(self) -> None:
        self._places = RawArray(_Place, PLACES)
        self._ends = RawValue(_Ends)
        # Of no use but for the lock, which belongs to a process and not to the descriptor that all of them inherit.
        self._lock_file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the line)
        # A cluster that is not stopped cleanly does not close its line.
        weakref.finalize(self, self._lock_file.close)

    def put(self, package: PlainPackage) -> bool:
        """Add a package at the end; return False if there is no place for it."""
        with self._lock():
            ends = self._ends
            if len(self) == PLACES:
                return False
            if not self:
                ends.first_since = time.monotonic()
            place = self._places[ends.put % PLACES]
            place.attempt, place.timeout = package.attempt, package.timeout
            place.count = len(package.execution_ids)
            place.execution_ids[: place.count] = package.execution_ids
            ends.put += 1
            return True

    def take(self) -> PlainPackage | None:
        """Remove the first package and return it."""
        with self._lock():
            if not self:
                return None
            package = self._package(self._ends.taken)
            self._ends.taken += 1
            self._ends.first_since = time.monotonic()
            return package

    def clear(self) -> list[int]:
        """Remove all packages, and return the executions in them."""
        with self._lock():
            found = self.execution_ids()
            self._ends.taken = self._ends.put
            return found

    def execution_ids(self) -> list[int]:
        """Return the executions that wait."""
        numbers = range(self._ends.taken, self._ends.put)
        return [pk for number in numbers for pk in self._package(number).execution_ids]

    def __len__(self) -> int:
        """Return how many packages wait."""
        waiting: int = self._ends.put - self._ends.taken
        return waiting

    @property
    def seconds_waiting(self) -> float:
        """For how long the first package has been the first; 0 if the line is empty."""
        return time.monotonic() - self._ends.first_since if self else 0.0

    def close(self) -> None:
        self._lock_file.close()

    def _package(self, number: int) -> PlainPackage:
        place = self._places[number % PLACES]
        return PlainPackage(place.attempt, place.execution_ids[: place.count], place.timeout)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock_file, fcntl.LOCK_UN)
