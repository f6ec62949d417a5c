"""The state that all processes of one cluster share.

The leader creates it before it forks the other processes and passes it to the claim loop and to every worker.
"""

import ctypes
import math
import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any

from schedules import clock
from schedules.worker import q2
from schedules.worker.concurrency import Permits
from schedules.worker.plain_line import PlainLine
from schedules.worker.turns import Turns

# How many seconds a report is valid: longer than a worker takes to repeat it.
REPORTED_FOR = 5.0
# How long a thread pauses for the others of its process to get their turn.
LET_OTHERS_RUN = 0.0005
# How many seconds a burst lasts after the last claim that left work behind: workers are still starting its runs.
BURST_LASTS = 0.1


class Clock:
    """The time that all hosts agree on, the monotonic clock, and sleep; tests replace it."""

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

    def let_others_run(self) -> None:
        """Give the other threads of this process their turn."""
        time.sleep(LET_OTHERS_RUN)  # noqa: TID251  (gives the interpreter away)


class _SharedValues(ctypes.Structure):
    """What the processes of a cluster tell each other: in shared memory, and not in the database.

    The process that has to be restarted may be the one that has locked the database.
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
    # Without a lock, because a killed process would hold it for ever; each value has one writer, or needs only the last.
    return RawValue(_SharedValues)


def _moments_of_workers() -> Any:
    return RawArray(ctypes.c_double, q2.worker_count())


@dataclass(frozen=True)
class ClusterContext:
    """One cluster: its row, its permits for plain functions, its clock, and what its processes tell each other."""

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
        """The turns at SQLite's write lock."""
        return Turns(self.permits.folder)

    @property
    def is_stopping(self) -> bool:
        return bool(self._shared.killed_at)

    @property
    def seconds_left(self) -> float:
        """How many seconds are left until the leader kills what still runs; infinite unless it is stopping."""
        return self._shared.killed_at - time.monotonic() if self.is_stopping else math.inf

    def stop_within(self, seconds: float) -> None:
        """Make every process of the cluster stop claiming, and finish within this many seconds."""
        self._shared.killed_at = time.monotonic() + seconds

    @property
    def pulses(self) -> dict[str, int]:
        """Two counters that grow while the cluster works: of the claim loop's steps, and of probes that returned."""
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
        return bool(reported_at) and time.monotonic() - reported_at < REPORTED_FOR

    def report_blocked(self) -> None:
        """Report that runs cannot be started or settled now; a worker repeats this while it is true."""
        self._shared.blocked_at = time.monotonic()

    @property
    def is_burst(self) -> bool:
        """Whether the claim loop has just taken as many runs as it may, so that more are waiting."""
        reported_at = self._shared.burst_at
        return bool(reported_at) and time.monotonic() - reported_at < BURST_LASTS

    def report_burst(self) -> None:
        """Report that more was due than one claim takes; the claim loop repeats this while it is true."""
        self._shared.burst_at = time.monotonic()

    @property
    def unwritten_since(self) -> datetime | None:
        """The earliest finish time not yet written by a worker, or None if every outcome is written."""
        moments = [moment for moment in self._unwritten_since if moment]
        return datetime.fromtimestamp(min(moments), UTC) if moments else None

    def report_unwritten(self, worker: int, since: datetime | None) -> None:
        """Report the earliest finish time that this worker has not written yet; None if it has written all."""
        self._unwritten_since[worker] = since.timestamp() if since else 0.0

    def close(self) -> None:
        self.permits.close()
        self.plain_line.close()
