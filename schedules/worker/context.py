"""The state that all processes of one cluster share.

The leader creates it before it forks the other processes and passes it to the claim loop and to every worker.
"""

import ctypes
import fcntl
import math
import os
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any, NamedTuple

from schedules import clock
from schedules.worker import q2
from schedules.worker.locks import Permits, Turns

# How many seconds a report stays valid: longer than a worker takes to repeat it.
REPORT_SECONDS = 5.0
# How many seconds a burst lasts after the last claim that left work behind: workers are still starting its runs.
BURST_SECONDS = 0.1
# The maximum number of plain functions in a package.
PLAIN_CHUNK = 10
# How many packages the line can hold: more than a cluster ever has.
LINE_LENGTH = 4096


class Clock:
    """The shared time of all hosts, the monotonic clock and sleep; tests replace it."""

    def now(self) -> datetime:
        return clock.now()

    def measure(self) -> None:
        clock.measure()

    def is_host_set(self) -> bool:
        return clock.database.is_host_set()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: TID251  (the clock of the loops, which tests replace)


class PlainPackage(NamedTuple):
    """Plain functions that one worker runs in sequence."""

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
    """How many packages were ever added and removed, and since when the current first one has been first."""

    _fields_ = (("put", ctypes.c_ulong), ("removed", ctypes.c_ulong), ("first_since", ctypes.c_double))


class PlainLine:
    """The packages of plain functions that no worker has taken yet.

    It is in shared memory with a file lock, which the kernel releases when a process is killed; the locks of a
    multiprocessing queue would stay locked forever.
    """

    def __init__(self) -> None:
        self._places = RawArray(_Place, LINE_LENGTH)
        self._ends = RawValue(_Ends)
        # Only for its lock, which belongs to each process and not to the descriptor that all of them inherit.
        self._lock_file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the line)
        # A cluster that is not stopped cleanly does not close its line.
        weakref.finalize(self, self._lock_file.close)

    def put(self, package: PlainPackage) -> bool:
        """Add a package at the end; return False if the line is full."""
        with self._lock():
            ends = self._ends
            if len(self) == LINE_LENGTH:
                return False
            if not self:
                ends.first_since = time.monotonic()
            place = self._places[ends.put % LINE_LENGTH]
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
            package = self._package(self._ends.removed)
            self._ends.removed += 1
            self._ends.first_since = time.monotonic()
            return package

    def clear(self) -> list[int]:
        """Remove all packages, and return the executions in them."""
        with self._lock():
            execution_ids = self.execution_ids()
            self._ends.removed = self._ends.put
            return execution_ids

    def execution_ids(self) -> list[int]:
        """Return the waiting executions."""
        numbers = range(self._ends.removed, self._ends.put)
        return [pk for number in numbers for pk in self._package(number).execution_ids]

    def __len__(self) -> int:
        """Return the number of waiting packages."""
        waiting: int = self._ends.put - self._ends.removed
        return waiting

    @property
    def seconds_waiting(self) -> float:
        """For how long the first package has been the first; 0 if the line is empty."""
        return time.monotonic() - self._ends.first_since if self else 0.0

    def close(self) -> None:
        self._lock_file.close()

    def _package(self, number: int) -> PlainPackage:
        place = self._places[number % LINE_LENGTH]
        return PlainPackage(place.attempt, place.execution_ids[: place.count], place.timeout)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock_file, fcntl.LOCK_UN)


class _SharedValues(ctypes.Structure):
    """What the processes of a cluster report to each other, in shared memory instead of the database.

    A process that has to be restarted may be the one that has locked the database.
    """

    _fields_ = (
        ("killed_at", ctypes.c_double),
        ("claim_loop_pid", ctypes.c_int),
        ("claim_loop_pulse", ctypes.c_ulong),
        ("probe_pulse", ctypes.c_ulong),
        ("blocked_at", ctypes.c_double),
        ("burst_at", ctypes.c_double),
    )


def _shared_values() -> Any:
    # No lock, because a killed process would hold it forever; each value has one writer, or the last write wins.
    return RawValue(_SharedValues)


def _moments_of_workers() -> Any:
    return RawArray(ctypes.c_double, q2.worker_count())


@dataclass(frozen=True)
class ClusterContext:
    """One cluster: its row, its permits for plain functions, its clock, and what its processes report to each other."""

    cluster_id: int
    permits: Permits
    clock: Clock = field(default_factory=Clock)
    sweep_at: float = 0.0
    """The earliest time to look for expired leases, on the monotonic clock."""
    plain_line: PlainLine = field(default_factory=PlainLine)
    """The plain functions that wait for a worker."""
    _shared: Any = field(default_factory=_shared_values, repr=False)
    _unwritten_since: Any = field(default_factory=_moments_of_workers, repr=False)

    @cached_property
    def turns(self) -> Turns:
        """The order in which processes take SQLite's write lock."""
        return Turns(self.permits.folder)

    @property
    def is_stopping(self) -> bool:
        return bool(self._shared.killed_at)

    @property
    def seconds_left(self) -> float:
        """The seconds until the leader kills what still runs; infinite unless the cluster is stopping."""
        return self._shared.killed_at - time.monotonic() if self.is_stopping else math.inf

    def stop_within(self, seconds: float) -> None:
        """Make every process of the cluster stop claiming, and finish within this many seconds."""
        self._shared.killed_at = time.monotonic() + seconds

    @property
    def pulses(self) -> dict[str, int]:
        """Two counters that grow while the cluster works: steps of the claim loop, and returned probes."""
        return {"claim loop": self._shared.claim_loop_pulse, "probe": self._shared.probe_pulse}

    def pulse(self) -> None:
        """Show that the claim loop is alive; it calls this before every step, and each step is bounded."""
        self._shared.claim_loop_pid = os.getpid()
        self._shared.claim_loop_pulse += 1

    @property
    def claim_loop_pid(self) -> int | None:
        """The process of the claim loop, or None if it has not shown its pulse yet."""
        return self._shared.claim_loop_pid or None

    def probe_returned(self) -> None:
        self._shared.probe_pulse += 1

    @property
    def is_blocked(self) -> bool:
        """Whether a worker has reported within the last few seconds that it waits for the database."""
        reported_at = self._shared.blocked_at
        return bool(reported_at) and time.monotonic() - reported_at < REPORT_SECONDS

    def report_blocked(self) -> None:
        """Report that runs cannot be started or settled now; workers repeat this as long as it lasts."""
        self._shared.blocked_at = time.monotonic()

    @property
    def is_burst(self) -> bool:
        """Whether the claim loop has just taken as many runs as it may, so that more are waiting."""
        reported_at = self._shared.burst_at
        return bool(reported_at) and time.monotonic() - reported_at < BURST_SECONDS

    def report_burst(self) -> None:
        """Report that more was due than one claim takes; the claim loop repeats this as long as it lasts."""
        self._shared.burst_at = time.monotonic()

    @property
    def unwritten_since(self) -> datetime | None:
        """The earliest finish time not yet written by a worker, or None if every outcome is written."""
        moments = [moment for moment in self._unwritten_since if moment]
        return datetime.fromtimestamp(min(moments), UTC) if moments else None

    def report_unwritten(self, worker: int, since: datetime | None) -> None:
        """Report the earliest finish time that this worker has not written yet; None if all are written."""
        self._unwritten_since[worker] = since.timestamp() if since else 0.0

    def close(self) -> None:
        self.permits.close()
        self.plain_line.close()
