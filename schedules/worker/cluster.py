"""The leader of a cluster: the process that starts django-q2, watches it, restarts it and stops it cleanly."""

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
# How often old runs are pruned, for how long at a time, and the pauses while there are more of them.
PRUNE_EVERY = 1.0
PRUNE_SECONDS = 0.4
SHORT_PAUSE = 0.05
LONGEST_REST = 0.02
# Short, so that a cluster is soon back after the database.
LONGEST_PAUSE = 4.0
CHECK_CLUSTER_EVERY = 5.0


class NotReadyError(Exception):
    """The database is not ready for a cluster yet; the text says what to do."""


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
    """Let this process, the worker of this number, run executions inside the block, and finish those in progress."""
    # For the starts: a power cut must not undo the record of a run that was already delivered. On SQLite this one wait
    # also brings the claim to the disk; on PostgreSQL the statement itself waits.
    use_engine_session(is_durable=True)
    with packages.executing(context, number):
        yield


class Leader:
    """Starts a cluster, restarts it when needed, and stops it at a signal."""

    def __init__(
        self, on_start: Callable[[], object] = lambda: None, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        self.stops = 0
        self._on_start = on_start
        self._meanwhile = meanwhile
        self._check_at = 0.0
        self._refusal: Exception | None = None
        self._context: ClusterContext | None = None
        self._watch: HeartbeatWatch | None = None
        self._sentinel: Any = None
        self._stop_event: Any = None
        self._pruner: engine.RunPruner | None = None
        self._prune_at = 1.0
        parent_death.end_forks_with_parent()
        use_engine_session()
        setproctitle("qcluster leader")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_stop)

    def lead(self) -> None:
        """Run until the first signal, then stop cleanly; a second signal ends everything at once."""
        self._start_when_possible()
        while not self.stops:
            self._sleep(CHECK_PROCESSES_EVERY if self._prune_at else SHORT_PAUSE)
            if sqlite_file.is_replaced():
                # Without a clean stop, which would write.
                self._sentinel.kill()
                self._sentinel.join()
                sqlite_file.refuse_replaced()
            if trouble := self._trouble():
                self._recover(trouble)
            else:
                self._prune()
                self._check()
        self._stop()
        if self._refusal:
            raise self._refusal

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
        """Prune old runs for a moment: this process has time for that between its checks of the others."""
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
                    # Rest half of the time, so that claims find SQLite's lock free.
                    self._sleep(min(time.monotonic() - since, LONGEST_REST))
                    since = time.monotonic()
        except Error as error:
            # Other processes report a database that cannot be used.
            logger.info("Pruning is put off (%s)", reason_of(error))
            connections.close_all()

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
        # Before workers are forked, so that the first request of each does not wait for it.
        outbound.prepare()
        # The garbage collector of the forked processes then skips existing objects, so that their memory stays shared.
        gc.freeze()
        # While the database was away, nobody could renew a lease; give the other clusters time to do so.
        sweep_at = time.monotonic() + settings.CRONTY_LEASE_SECONDS if has_waited else 0.0
        self._context = ClusterContext(row.pk, Permits(settings.CRONTY_WORKERS), sweep_at=sweep_at)
        self._stop_event, start_event = fork.Event(), fork.Event()
        self._sentinel = fork.Process(
            target=run_sentinel, args=(self._context, self._stop_event, start_event), name="sentinel"
        )
        self._sentinel.start()
        self._watch = HeartbeatWatch(self._context, self._sentinel.pid)
        self._pruner = engine.RunPruner(row.pk)
        while not self.stops and not start_event.is_set():
            if not self._sentinel.is_alive():
                self._release_claims("It could not be started.")
                raise RuntimeError(
                    f"The sentinel exited during its start, with status {self._sentinel.exitcode}."
                )
            self._sleep(0.1)
        return ""

    def _trouble(self) -> Trouble | None:
        """Return why processes of the cluster must be restarted, or None."""
        assert self._watch is not None
        if not self._sentinel.is_alive():
            return Trouble("its sentinel died")
        return self._watch.trouble()

    def _recover(self, trouble: Trouble) -> None:
        assert self._context is not None
        if trouble.pid:
            # If the others were killed, too, their runs would be repeated, even those whose outcomes are not written yet.
            # The sentinel starts another process in place of this one.
            logger.error("Restarting process %d: %s", trouble.pid, trouble.reason)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(trouble.pid, signal.SIGKILL)
            row = Cluster.objects.filter(pk=self._context.cluster_id)
            _try(lambda: row.update(note=f"One process was restarted: {trouble.reason}"))
            return
        logger.error("Restarting the cluster: %s", trouble.reason)
        self._kill(trouble.reason)
        self._start_when_possible()

    def _kill(self, reason: str) -> None:
        """Kill every process of the cluster, and release its claims."""
        self._sentinel.kill()
        self._sentinel.join()
        self._release_claims(f"Restarted: {reason}")

    def _stop(self) -> None:
        """Let running executions finish within the limit, and hand back the rest."""
        if self._context is None:
            return
        # First: django-q2's own stop may wait for a lock that a killed process holds, and executions claimed in that time
        # would be killed at the deadline.
        self._context.stop_within(settings.CRONTY_STOP_SECONDS)
        cluster_id = self._context.cluster_id
        _try(lambda: engine.hand_back(cluster_id, clock.now()))
        # In a thread, because setting the event blocks for ever if the sentinel was killed while it listened.
        threading.Thread(target=self._stop_event.set, daemon=True).start()
        while self._sentinel.is_alive() and self._context.seconds_left > 0 and self.stops < 2:
            self._sentinel.join(0.1)
        self._sentinel.kill()
        self._sentinel.join()
        self._release_claims("")

    def _release_claims(self, note: str) -> None:
        """Hand back everything that the dead cluster held, and mark its row as stopped."""
        assert self._context is not None
        cluster_id = self._context.cluster_id
        _try(lambda: engine.hand_back(cluster_id, clock.now(), also_running=True))
        _try(lambda: engine.retire(cluster_id, clock.now(), note))
        connections.close_all()
        self._context.close()

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1

    def _pause(self, seconds: float) -> None:
        """Sleep in short steps, so that a signal ends the pause."""
        until = time.monotonic() + seconds
        while not self.stops and time.monotonic() < until:
            self._sleep()

    def _sleep(self, seconds: float = CHECK_PROCESSES_EVERY) -> None:
        time.sleep(seconds)  # noqa: TID251  (the loop's own pause)


def _try(step: Callable[[], object]) -> None:
    """Run a database step of the shutdown; if it fails, the leases expire by themselves."""
    try:
        step()
    except Error as error:
        logger.warning("The database cannot be used (%s); the leases will expire instead", reason_of(error))
        # Let the next step open a new connection.
        connections.close_all()
