"""The leader's watch over its cluster: detect a claim loop or workers that have stopped.

The claim loop counts its steps in shared memory, and workers count the probes that come through the queue. As long as
both counts grow, the cluster works.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

from django.db import Error, connections

from schedules import clock
from schedules.models import Cluster
from schedules.worker.context import ClusterContext
from schedules.worker.proc import RunDelay, children_of, stopped_holder

WATCH_SECONDS = 1.0
SILENT_AFTER = 9.0


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
