"""A running cluster: its row, its processes, and how they end."""

import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error, connections
from setproctitle import setproctitle

from schedules import clock, engine
from schedules.models import Cluster
from schedules.tasks import outbound
from schedules.worker import packages, q2
from schedules.worker.claim_loop import ClaimLoop
from schedules.worker.context import ClusterContext
from schedules.worker.database_errors import reason_of
from schedules.worker.heartbeat_watch import HeartbeatWatch, Trouble
from schedules.worker.locks import Permits
from schedules.worker.package_queue import QueueOrder
from schedules.worker.sessions import use_engine_session
from schedules.worker.supervisor import fork

logger = logging.getLogger(__name__)


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
