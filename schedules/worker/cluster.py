"""The leader of a cluster: the process that starts django-q2, watches it, restarts it and stops it cleanly."""

import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from uuid import uuid4

from django.conf import settings
from django.db import Error, connections
from django_q.cluster import Sentinel
from django_q.conf import Conf
from django_q.worker import worker
from setproctitle import setproctitle

from schedules import clock, engine
from schedules.engine import sqlite_file
from schedules.models import Cluster
from schedules.tasks import outbound
from schedules.worker import parent_death, runner
from schedules.worker.broker import LedgerBroker
from schedules.worker.concurrency import Permits
from schedules.worker.context import ClusterContext
from schedules.worker.database_errors import reason_of
from schedules.worker.lock_holder import stopped_holder
from schedules.worker.package_queue import PackageQueue
from schedules.worker.run_delay import RunDelay, children_of
from schedules.worker.sessions import project_session, short_waits, use_engine_session
from schedules.worker.supervisor import growing_pauses

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.5
# How often old runs are pruned, for how long at a time, and the pauses while there are more of them.
PRUNE_EVERY = 1.0
PRUNE_SECONDS = 0.4
SHORT_PAUSE = 0.05
LONGEST_REST = 0.02
# Short, so that a cluster is soon back after the database.
LONGEST_PAUSE = 4.0
WATCH_EVERY = 1.0
CHECK_EVERY = 5.0
SILENT_AFTER = 9.0

# All processes inherit the context, so they are forked, with connections closed before. Since Python 3.14, fork is no
# longer the default; a forked process uses it for its own children, too.
fork = multiprocessing.get_context("fork")


class NotReadyError(Exception):
    """The database is not ready for a cluster yet; the text says what to do."""


class LedgerSentinel(Sentinel):
    """django-q2's sentinel, with our broker, and with workers that finish their executions before they end."""

    def __init__(self, context: ClusterContext, stop_event: Any, start_event: Any) -> None:
        setproctitle("qcluster sentinel")
        self.context = context
        broker = LedgerBroker(context=context)
        # Returns when the cluster has stopped.
        super().__init__(stop_event, start_event, uuid4(), broker)  # type: ignore[no-untyped-call]

    def start(self) -> None:
        self.task_queue = PackageQueue(
            self.context.plain_line, self.context.permits, maxsize=Conf.QUEUE_LIMIT
        )
        super().start()  # type: ignore[no-untyped-call]

    def spawn_worker(self) -> None:
        timer = fork.Value("f", -1)
        # The number of a worker that has died is free again, and so is what it reported.
        number = min(set(range(Conf.WORKERS)) - {process.number for process in self.pool})
        self.context.report_unwritten(number, None)
        process: Any = fork.Process(
            target=run_worker,
            args=(self.context, number, self.task_queue, self.result_queue, timer, self.timeout),
            name=f"Process-{uuid4().hex}",
            daemon=Conf.DAEMONIZE_WORKERS,
        )
        process.timer, process.number = timer, number
        self.pool.append(process)
        process.start()


def run_worker(context: ClusterContext, number: int, *arguments: Any) -> None:
    """Run django-q2's worker function in this process, then finish the executions in progress."""
    # For the starts: a power cut must not undo the record of a run that was already delivered. On SQLite this one wait
    # also brings the claim to the disk; on PostgreSQL the statement itself waits.
    use_engine_session(is_urgent=True, is_durable=True)
    with runner.executing(context, number):
        worker(*arguments)


class Trouble(NamedTuple):
    """Why one process of a cluster must be restarted, or all of them if `pid` is None."""

    reason: str
    pid: int | None = None


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
        use_engine_session(is_urgent=True)
        setproctitle("qcluster leader")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_stop)

    def lead(self) -> None:
        """Run until the first signal, then stop cleanly; a second signal ends everything at once."""
        self._start_when_possible()
        while not self.stops:
            self._sleep(LOOK_EVERY if self._prune_at else SHORT_PAUSE)
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
        """Now and then, check whether this cluster may go on; stop it cleanly if not."""
        if time.monotonic() < self._check_at:
            return
        self._check_at = time.monotonic() + CHECK_EVERY
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
        """Prune old runs for a moment: this process has time for it, and watches the others in between."""
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
                    # Half of the time, so that claims find SQLite's lock free.
                    self._sleep(min(time.monotonic() - since, LONGEST_REST))
                    since = time.monotonic()
        except Error as error:
            # Other processes report a database that cannot be used.
            logger.info("Pruning is put off (%s)", reason_of(error))
            connections.close_all()

    def _start_when_possible(self) -> None:
        """Start a cluster as soon as the database is ready; log the reason for waiting whenever it changes."""
        logged = ""
        pauses = growing_pauses(LOOK_EVERY, LONGEST_PAUSE)
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
        # The garbage collections of the forked processes then skip what exists already, and leave its memory shared.
        gc.freeze()
        # While the database was away, nobody could renew a lease; give the other clusters time for it.
        sweep_at = time.monotonic() + settings.CRONTY_LEASE_SECONDS if has_waited else 0.0
        self._context = ClusterContext(row.pk, Permits(settings.CRONTY_WORKERS), sweep_at=sweep_at)
        self._stop_event, start_event = fork.Event(), fork.Event()
        self._sentinel = fork.Process(
            target=LedgerSentinel, args=(self._context, self._stop_event, start_event), name="sentinel"
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
            # Killing the others, too, would repeat what they run and what they could not write yet. The sentinel starts
            # another process in its place.
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
        # First: django-q2's own stop may wait for a lock that a killed process holds, and executions claimed meanwhile
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

    def _sleep(self, seconds: float = LOOK_EVERY) -> None:
        time.sleep(seconds)  # noqa: TID251  (the loop's own pause)


class HeartbeatWatch:
    """Detects a cluster whose claim loop or probe has stopped, and tells that from a database that does not answer."""

    def __init__(self, context: ClusterContext, sentinel_pid: int = 0) -> None:
        self._context = context
        self._sentinel_pid = sentinel_pid
        self._looked_at = time.monotonic()
        self._pulses = context.pulses
        self._silent_for = dict.fromkeys(self._pulses, 0.0)
        self._run_delay = RunDelay()
        # A claim loop that has not shown itself yet cannot be restarted alone: its process is not known.
        self._reported_pulse = 0

    def trouble(self) -> Trouble | None:
        """Look at the pulses every second or so; return which one has stopped, or None.

        A claim loop that does not come back after it was reported is a trouble of the whole cluster.
        """
        passed = time.monotonic() - self._looked_at
        if passed < WATCH_EVERY:
            return None
        self._looked_at = time.monotonic()
        before, self._pulses = self._pulses, self._context.pulses
        # If more time has passed, this process was stopped, too. While a busy machine keeps a process from running, it
        # cannot show its pulse: a restart would only add to the load, and repeat what it runs.
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
        # The claim loop sends the probes: without a pulse of its own, first see whether it is the one that is stuck.
        if not silent or (silent == ["probe"] and self._silent_for["claim loop"]):
            return None
        # With SQLite, every step of the claim loop is bounded, also while the database is locked. Do not ask the
        # database, because the claim loop may have stopped while it held the lock.
        is_stuck = "claim loop" in silent and is_sqlite
        if not is_stuck and (self._context.is_blocked or not self._can_write()):
            # Not the cluster's fault: its processes wait for the database, too. Afterwards a probe takes a while, but a
            # claim loop that works shows it at once.
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
        """Return for how many seconds since the last look a process of the cluster has waited for a processor."""
        return self._run_delay.growth([os.getpid(), self._sentinel_pid, *children_of(self._sentinel_pid)])

    def _stopped_holder(self) -> int | None:
        database = Path(connections["default"].settings_dict["NAME"])
        return stopped_holder(database, self._context.turns.file, self._sentinel_pid)

    def _can_write(self) -> bool:
        """Return whether the database takes a write within a second."""
        try:
            Cluster.objects.filter(pk=self._context.cluster_id).update(watched_at=clock.now())
        except Error:
            # A broken connection would stay broken.
            connections.close_all()
            return False
        return time.monotonic() - self._looked_at < 1


def _try(step: Callable[[], object]) -> None:
    """Run a database step of the shutdown; if it fails, the leases expire by themselves."""
    try:
        step()
    except Error as error:
        logger.warning("The database cannot be used (%s); the leases will expire instead", reason_of(error))
        # Let the next step open a new connection.
        connections.close_all()
