"""The leader's watch over its cluster: notices when the claim loop or the probes stop.

The claim loop counts its steps in shared memory, and the monitor counts the probes that have come back through the queue
and a worker. As long as both numbers grow, the cluster works.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

from django.db import Error, connections

from schedules import clock
from schedules.models import Cluster
from schedules.worker.context import ClusterContext
from schedules.worker.lock_holder import stopped_holder
from schedules.worker.run_delay import RunDelay, children_of

WATCH_EVERY = 1.0
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
        self._looked_at = time.monotonic()
        self._pulses = context.pulses
        self._silent_for = dict.fromkeys(self._pulses, 0.0)
        self._run_delay = RunDelay()
        # The claim loop's pulse when it was last reported. Before its first pulse, its process is unknown, and it cannot be
        # restarted alone.
        self._reported_pulse = 0

    def trouble(self) -> Trouble | None:
        """Look at the pulses about once a second; return what must be restarted, or None.

        If a claim loop does not come back after it was reported, the whole cluster must be restarted.
        """
        passed = time.monotonic() - self._looked_at
        if passed < WATCH_EVERY:
            return None
        self._looked_at = time.monotonic()
        before, self._pulses = self._pulses, self._context.pulses
        # If more time has passed, this process was suspended, too. A process that waits for a processor cannot show its
        # pulse: a restart would only add to the load, and repeat its runs.
        counted = max(0.0, min(passed, 2 * WATCH_EVERY) - self._held_up_for())
        for name, pulse in self._pulses.items():
            self._silent_for[name] += counted
            if pulse != before[name]:
                self._silent_for[name] = 0.0
        silent = [name for name, seconds in self._silent_for.items() if seconds > SILENT_AFTER]
        is_sqlite = connections["default"].vendor == "sqlite"
        if "probe" in silent and is_sqlite and (pid := self._stopped_holder()):
            self._silent_for["probe"] = 0.0
            return Trouble("it was stopped while it held the lock of the database", pid)
        # The claim loop sends the probes: while its own pulse is missing, wait to see whether it is the one that is stuck.
        if not silent or (silent == ["probe"] and self._silent_for["claim loop"]):
            return None
        # With SQLite, every step of the claim loop is bounded, also while the database is locked. Do not ask the
        # database, because the claim loop may have stopped while it held the lock.
        is_stuck = "claim loop" in silent and is_sqlite
        if not is_stuck and (self._context.is_blocked or not self._can_write()):
            # Not the cluster's fault: its processes wait for the database, too. A probe takes a while to come back after
            # that, but a working claim loop shows its pulse at once.
            self._silent_for["probe"] = 0.0
            return None
        self._silent_for = dict.fromkeys(self._silent_for, 0.0)
        before_report, self._reported_pulse = self._reported_pulse, self._pulses["claim loop"]
        is_claim_loop_alone = silent[0] == "claim loop" and self._reported_pulse != before_report
        return Trouble(
            f"the {silent[0]} was silent for {SILENT_AFTER:g} s",
            self._context.claim_loop_pid if is_claim_loop_alone else None,
        )

    def _held_up_for(self) -> float:
        """Return how many seconds a process of the cluster has waited for a processor since the last look."""
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
        return time.monotonic() - self._looked_at < 1
