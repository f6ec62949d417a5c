"""The leader of a cluster: the process that starts it, watches it, restarts it and stops it cleanly."""

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

from django.conf import settings
from django.db import Error, connections
from setproctitle import setproctitle

from schedules import clock, engine
from schedules.engine import sqlite_file
from schedules.models import Cluster
from schedules.tasks import outbound
from schedules.worker import packages, parent_death, q2
from schedules.worker.claim_loop import ClaimLoop
from schedules.worker.context import ClusterContext
from schedules.worker.database_errors import reason_of
from schedules.worker.heartbeat_watch import HeartbeatWatch, Trouble
from schedules.worker.locks import Permits
from schedules.worker.package_queue import QueueOrder
from schedules.worker.sessions import project_session, short_waits, use_engine_session
from schedules.worker.supervisor import fork, growing_pauses

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


def run_sentinel(context: ClusterContext, stop_event: Any, start_event: Any) -> None:
    """Run django-q2 in this process until the cluster has stopped."""
    setproctitle("qcluster sentinel")
    next_packages = ClaimLoop(context).next_packages
    order = QueueOrder(context.plain_line, context.permits)
    q2.LedgerSentinel(
        context, next_packages, order, partial(executing_durably, context), stop_event, start_event
    )


@contextmanager
def executing_durably(context: ClusterContext, number: int) -> Iterator[None]:
    """Let this process, worker `number`, run executions inside the block, and finish those in progress."""
    # Starts must be durable: a power cut must not undo the record of a run that was already delivered. On SQLite, this
    # also writes the claim to disk; on PostgreSQL, the statement itself waits for the disk.
    use_engine_session(is_durable=True)
    with packages.executing(context, number):
        yield


class RunningCluster:
    """One cluster from the fork of its sentinel until all its processes have ended and its claims are released.

    `sweep_at` is the earliest time, on the monotonic clock, at which it may take over the runs of other clusters.
    """

    def __init__(self, cluster_id: int, *, sweep_at: float) -> None:
        # Before forking workers, so that the first request of each does not wait for it.
        outbound.prepare()
        # The garbage collector of forked processes then skips existing objects, so that their memory stays shared.
        gc.freeze()
        self._context = ClusterContext(cluster_id, Permits(settings.CRONTY_WORKERS), sweep_at=sweep_at)
        self._stop_event, self._start_event = fork.Event(), fork.Event()
        self._sentinel = fork.Process(
            target=run_sentinel, args=(self._context, self._stop_event, self._start_event), name="sentinel"
        )
        self._sentinel.start()
        self._watch = HeartbeatWatch(self._context, self._sentinel.pid or 0)

    def has_started(self) -> bool:
        """Return whether all its processes have started; raise RuntimeError if its sentinel ended before that."""
        if self._start_event.is_set():
            return True
        if not self._sentinel.is_alive():
            release(self._context, "It could not be started.")
            raise RuntimeError(
                f"The sentinel exited during its start, with status {self._sentinel.exitcode}."
            )
        return False

    def trouble(self) -> Trouble | None:
        """Return why processes of the cluster must be restarted, or None."""
        return self._watch.trouble() if self._sentinel.is_alive() else Trouble("its sentinel died")

    def restart_process(self, pid: int, reason: str) -> None:
        """Kill one process; the sentinel starts another in its place.

        Killing the others as well would repeat their runs, even those that ended but whose outcomes are not written.
        """
        logger.error("Restarting process %d: %s", pid, reason)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        row = Cluster.objects.filter(pk=self._context.cluster_id)
        _try(lambda: row.update(note=f"One process was restarted: {reason}"))

    def end_processes(self) -> None:
        """Kill every process, without writing to the database."""
        self._sentinel.kill()
        self._sentinel.join()

    def kill(self, reason: str) -> None:
        """Kill every process, and release what the cluster held."""
        self.end_processes()
        release(self._context, reason)

    def stop(self, is_in_a_hurry: Callable[[], bool]) -> None:
        """Let running executions finish within the limit, unless somebody is in a hurry, and hand back the rest."""
        # Before django-q2's own stop, which may wait for a lock that a killed process holds: executions claimed in that time
        # would be killed at the deadline.
        self._context.stop_within(settings.CRONTY_STOP_SECONDS)
        _try(lambda: engine.hand_back(self._context.cluster_id, clock.now()))
        # In a thread, because setting the event blocks forever if the sentinel was killed while it waited for it.
        threading.Thread(target=self._stop_event.set, daemon=True).start()
        while self._sentinel.is_alive() and self._context.seconds_left > 0 and not is_in_a_hurry():
            self._sentinel.join(0.1)
        self.kill("")


def release(context: ClusterContext, note: str) -> None:
    """Hand back everything that a dead cluster held, and mark its row as stopped."""
    _try(lambda: engine.hand_back(context.cluster_id, clock.now(), also_running=True))
    _try(lambda: engine.retire(context.cluster_id, clock.now(), note))
    connections.close_all()
    context.close()


def _try(step: Callable[[], object]) -> None:
    """Run a database step of the shutdown; if it fails, the leases expire by themselves."""
    try:
        step()
    except Error as error:
        logger.warning("The database cannot be used (%s); the leases will expire instead", reason_of(error))
        # Let the next step open a new connection.
        connections.close_all()


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
