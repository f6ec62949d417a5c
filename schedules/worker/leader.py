"""The leader of a cluster: the process that starts it, watches it, restarts it and stops it cleanly."""

import logging
import signal
import time
from collections.abc import Callable
from types import FrameType

from django.conf import settings
from django.db import Error, connections
from setproctitle import setproctitle

from schedules import clock, engine
from schedules.engine import sqlite_file
from schedules.worker import parent_death
from schedules.worker.cluster import RunningCluster
from schedules.worker.database_errors import reason_of
from schedules.worker.heartbeat_watch import Trouble
from schedules.worker.sessions import project_session, short_waits, use_engine_session
from schedules.worker.supervisor import growing_pauses

logger = logging.getLogger(__name__)

CHECK_PROCESSES_EVERY = 0.5
# How often old runs are pruned, for how long at a time, and the pauses in between, in seconds.
PRUNE_EVERY = 1.0
PRUNE_SECONDS = 0.4
SHORT_PAUSE = 0.05
LONGEST_REST = 0.02
# Short, so that a cluster starts soon after the database is back.
LONGEST_PAUSE = 4.0
CHECK_CLUSTER_EVERY = 5.0


class NotReadyError(Exception):
    """The database is not ready for a cluster yet; the text says what to do."""


class Leader:
    """Keeps one cluster running until a signal, and prunes old runs in between.

    `on_start` runs before each start and may raise NotReadyError; what `meanwhile` raises stops the cluster for good.
    """

    def __init__(
        self, on_start: Callable[[], object] = lambda: None, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        self.stops = 0
        self._on_start = on_start
        self._meanwhile = meanwhile
        self._refusal: Exception | None = None
        self._cluster: RunningCluster | None = None
        self._pruner: engine.RunPruner | None = None
        self._check_at = 0.0
        self._prune_at = 1.0
        parent_death.end_forks_with_parent()
        use_engine_session()
        setproctitle("qcluster leader")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_stop)

    def lead(self) -> None:
        """Run until the first signal, then stop cleanly; a second signal ends everything at once."""
        self._start_when_possible()
        while self._cluster and not self.stops:
            _sleep(CHECK_PROCESSES_EVERY if self._prune_at else SHORT_PAUSE)
            if sqlite_file.is_replaced():
                # A clean stop would write to the wrong file.
                self._cluster.end_processes()
                sqlite_file.refuse_replaced()
            if trouble := self._cluster.trouble():
                self._recover(self._cluster, trouble)
            else:
                self._prune()
                self._check()
        if self._cluster:
            self._cluster.stop(lambda: self.stops > 1)
        if self._refusal:
            raise self._refusal

    def _start_when_possible(self) -> None:
        """Start a cluster as soon as the database is ready; log why it must wait, whenever the reason changes."""
        logged = ""
        pauses = growing_pauses(CHECK_PROCESSES_EVERY, LONGEST_PAUSE)
        while not self.stops and (reason := self._start(has_waited=bool(logged))):
            if reason != logged:
                logged = reason
                logger.warning("The cluster cannot start yet: %s", reason)
            self._pause(next(pauses))

    def _start(self, *, has_waited: bool) -> str:
        """Register and fork a new cluster; return why the database is not ready, or an empty text."""
        try:
            with project_session():
                try:
                    self._on_start()
                finally:
                    connections.close_all()
            row = engine.enlist(clock.now())
        except NotReadyError as error:
            return str(error)
        except Error as error:
            return f"the database cannot be used ({reason_of(error)})"
        finally:
            # A forked process must not share its parent's connections.
            connections.close_all()
        # During an outage of the database, nobody could renew leases: give other clusters time to do so.
        sweep_at = time.monotonic() + settings.CRONTY_LEASE_SECONDS if has_waited else 0.0
        self._cluster = RunningCluster(row.pk, sweep_at=sweep_at)
        self._pruner = engine.RunPruner(row.pk)
        while not self.stops and not self._cluster.has_started():
            _sleep(0.1)
        return ""

    def _recover(self, cluster: RunningCluster, trouble: Trouble) -> None:
        if trouble.pid:
            cluster.restart_process(trouble.pid, trouble.reason)
            return
        logger.error("Restarting the cluster: %s", trouble.reason)
        cluster.kill(f"Restarted: {trouble.reason}")
        self._cluster = None
        self._start_when_possible()

    def _check(self) -> None:
        """Check every few seconds whether this cluster may go on; if not, stop it cleanly."""
        if time.monotonic() < self._check_at:
            return
        self._check_at = time.monotonic() + CHECK_CLUSTER_EVERY
        try:
            with project_session():
                self._meanwhile()
        except Error as error:
            logger.info("A check is put off (%s)", reason_of(error))
            connections.close_all()
        except Exception as error:
            self._refusal = error
            self.stops += 1

    def _prune(self) -> None:
        """Prune old runs for a moment; this process has time for that between its checks of the others."""
        begin = time.monotonic()
        if self._pruner is None or begin < self._prune_at:
            return
        self._prune_at = begin + PRUNE_EVERY
        try:
            with short_waits():
                since = begin
                for _ in self._pruner.prune(clock.now()):
                    if self.stops or time.monotonic() - begin > PRUNE_SECONDS:
                        self._prune_at = 0.0
                        break
                    # Rest half the time, so that claims find SQLite's lock free.
                    _sleep(min(time.monotonic() - since, LONGEST_REST))
                    since = time.monotonic()
        except Error as error:
            # Other processes report the outage.
            logger.info("Pruning is put off (%s)", reason_of(error))
            connections.close_all()

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1

    def _pause(self, seconds: float) -> None:
        """Sleep in short steps, so that a signal ends the pause."""
        until = time.monotonic() + seconds
        while not self.stops and time.monotonic() < until:
            _sleep(CHECK_PROCESSES_EVERY)


def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251  (the loop's own pause)
