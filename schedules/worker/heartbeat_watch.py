"""The leader's watch over its cluster: detect a claim loop or workers that have stopped.

The claim loop counts its steps in shared memory, and workers count the probes that come through the queue. As long as
both counts grow, the cluster works. Linux's /proc tells how long processes waited for a processor, and which one holds a
SQLite lock; on other systems, both are unknown.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from django.db import Error, connections

from schedules import clock
from schedules.models import Cluster
from schedules.worker.context import ClusterContext

WATCH_SECONDS = 1.0
SILENT_AFTER = 9.0
PROC = Path("/proc")
NANOSECONDS = 1e9
LOCKS = PROC / "locks"
# The byte of the shared-memory file that a writer locks in WAL mode.
WRITE_LOCK = "120"
# The state after SIGSTOP; under a debugger, it is "t".
STOPPED = "T"


class Trouble(NamedTuple):
    """Why one process of a cluster must be restarted, or all of them if `pid` is None."""

    reason: str
    pid: int | None = None


class HeartbeatWatch:
    """Detects a cluster whose claim loop or probe has stopped, and excuses it while the database does not answer."""

    def __init__(self, context: ClusterContext, sentinel_pid: int = 0) -> None:
        self._context = context
        self._sentinel_pid = sentinel_pid
        self._checked_at = time.monotonic()
        self._pulses = context.pulses
        self._silent_for = dict.fromkeys(self._pulses, 0.0)
        self._run_delay = RunDelay()
        # The claim loop's pulse when its trouble was last reported. Before its first pulse, its process is unknown, so only
        # the whole cluster can be restarted.
        self._reported_pulse = 0

    def trouble(self) -> Trouble | None:
        """Check the pulses about once a second; return what must be restarted, or None."""
        passed = time.monotonic() - self._checked_at
        if passed < WATCH_SECONDS:
            return None
        self._checked_at = time.monotonic()
        self._measure_silence(passed)
        claim_loop_is_silent = self._silent_for["claim loop"] > SILENT_AFTER
        probe_is_silent = self._silent_for["probe"] > SILENT_AFTER
        is_sqlite = connections["default"].vendor == "sqlite"
        if probe_is_silent and is_sqlite and (pid := self._stopped_holder()):
            self._silent_for["probe"] = 0.0
            return Trouble("it was stopped while it held the lock of the database", pid)
        # The claim loop sends the probes: while its own pulse is missing, wait to see whether it is stuck itself.
        if not claim_loop_is_silent and (not probe_is_silent or self._silent_for["claim loop"]):
            return None
        # With SQLite, every step of the claim loop is bounded, even while the database is locked. Do not query the
        # database, because the claim loop may have stopped while it held the lock.
        is_stuck = claim_loop_is_silent and is_sqlite
        if not is_stuck and (self._context.is_blocked or not self._can_write()):
            # The cluster's processes are waiting for the database, too. After that, a probe takes a while to come back,
            # but a working claim loop shows its pulse at once.
            self._silent_for["probe"] = 0.0
            return None
        self._silent_for = dict.fromkeys(self._silent_for, 0.0)
        return self._claim_loop_trouble() if claim_loop_is_silent else _trouble_with("probe")

    def _measure_silence(self, passed: float) -> None:
        """Count the seconds since each pulse last grew, except time in which no process could run."""
        before, self._pulses = self._pulses, self._context.pulses
        # If more time has passed, this process was suspended as well. A process that waits for a processor cannot show its
        # pulse; a restart would only add load and repeat its runs.
        counted = max(0.0, min(passed, 2 * WATCH_SECONDS) - self._held_up_for())
        for name, pulse in self._pulses.items():
            self._silent_for[name] = self._silent_for[name] + counted if pulse == before[name] else 0.0

    def _claim_loop_trouble(self) -> Trouble:
        """Report the claim loop's process; if it has shown no pulse since the last report, the whole cluster."""
        before, self._reported_pulse = self._reported_pulse, self._pulses["claim loop"]
        has_come_back = self._reported_pulse != before
        return _trouble_with("claim loop", self._context.claim_loop_pid if has_come_back else None)

    def _held_up_for(self) -> float:
        """Return how many seconds a process of the cluster has waited for a processor since the last check."""
        return self._run_delay.growth([os.getpid(), self._sentinel_pid, *children_of(self._sentinel_pid)])

    def _stopped_holder(self) -> int | None:
        database = Path(connections["default"].settings_dict["NAME"])
        return stopped_holder(database, self._context.turns.file, self._sentinel_pid)

    def _can_write(self) -> bool:
        """Return whether the database accepts a write within a second."""
        try:
            Cluster.objects.filter(pk=self._context.cluster_id).update(watched_at=clock.now())
        except Error:
            # A broken connection would stay broken.
            connections.close_all()
            return False
        return time.monotonic() - self._checked_at < 1


def _trouble_with(name: str, pid: int | None = None) -> Trouble:
    return Trouble(f"the {name} was silent for {SILENT_AFTER:g} s", pid)


class RunDelay:
    """Remembers how long each thread of some processes has waited for a processor."""

    def __init__(self) -> None:
        self._waited: dict[str, int] = {}

    def growth(self, pids: Iterable[int]) -> float:
        """Return by how many seconds the longest wait of a thread has grown since the last call.

        A thread that sleeps, or was stopped by a signal, does not wait for a processor.
        """
        before, self._waited = self._waited, {}
        for pid in pids:
            self._waited |= _waits_of(pid)
        grown = (waited - before[thread] for thread, waited in self._waited.items() if thread in before)
        return max(grown, default=0) / NANOSECONDS


def children_of(pid: int) -> list[int]:
    """Return the processes that the main thread of a process has started."""
    with suppress(OSError):
        return [int(word) for word in (PROC / f"{pid}/task/{pid}/children").read_text().split()]
    return []


def _waits_of(pid: int) -> dict[str, int]:
    """Map the threads of a process to the nanoseconds they have waited for a processor."""
    waits = {}
    with suppress(OSError):
        for thread in (PROC / f"{pid}/task").iterdir():
            # The fields: time on a processor, time waiting for one, number of runs.
            waits[str(thread)] = int((thread / "schedstat").read_text().split()[1])
    return waits


def stopped_holder(database: Path, turn: Path, parent: int) -> int | None:
    """Return the process that holds the write lock or the turn at it although it is stopped, or None.

    It must be a child of `parent`, or belong to another cluster on this host, which may be stopped as a whole. A process
    that is not stopped may be in a long transaction of a user's task; processes of other programs are up to their users.
    """
    for pid in (holder(database), _holder(turn, "FLOCK", "0")):
        if pid is None:
            continue
        state, its_parent = _state_and_parent(pid)
        if state == STOPPED and (its_parent == parent or _is_cluster(pid)):
            return pid
    return None


def holder(database: Path) -> int | None:
    """Return the process that holds the write lock now, or None."""
    return _holder(database.with_name(f"{database.name}-shm"), "POSIX", WRITE_LOCK)


def _holder(file: Path, kind: str, start: str) -> int | None:
    """Return the process that holds a lock of this kind beginning at this byte of a file, or None."""
    try:
        inode = file.stat().st_ino
        lines = LOCKS.read_text().splitlines()
    except OSError:
        # Not Linux, not in WAL mode, or no turn was taken yet.
        return None
    for line in lines:
        # For example `1: POSIX  ADVISORY  WRITE 4619 fe:00:1574136 120 120`; waiting processes have `->` after the number.
        match line.split():
            case [_, its_kind, _, "WRITE", pid, its_file, its_start, _] if (its_kind, its_start) == (
                kind,
                start,
            ):
                if its_file.endswith(f":{inode}"):
                    return int(pid)
    return None


def _is_cluster(pid: int) -> bool:
    try:
        # The title that every process of a cluster gives itself.
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"qcluster ")
    except OSError:
        return False


def _state_and_parent(pid: int) -> tuple[str, int]:
    try:
        # The name of the process, in parentheses, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[1])
