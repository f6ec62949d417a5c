"""The process that leads a cluster: it starts django-q2, watches it, restarts it, and stops it cleanly."""

import logging
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime
from types import FrameType
from typing import Any

from django.conf import settings
from django.db import Error, connections
from django_q.cluster import Cluster as DjangoQCluster

from schedules import clock, engine
from schedules.models import Cluster
from schedules.worker import broker, concurrency, parent_death

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.5
WATCH_EVERY = 2.0
SILENT_AFTER = 9.0
KEEP_CONNECTION = 60


class Leader:
    """Leads one cluster until it is told to stop."""

    def __init__(self, on_start: Callable[[], object] = lambda: None) -> None:
        self.stops = 0
        self._on_start = on_start
        self._cluster: Any = None
        self._row: Cluster | None = None
        self._watch = Watch()
        parent_death.end_forks_with_parent()
        _write_lazily()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_stop)

    def lead(self) -> None:
        """Run until the first signal; the second one leaves at once."""
        self._start_when_possible()
        while not self.stops:
            self._rest()
            if reason := self._trouble():
                logger.error("Restarting the cluster: %s", reason)
                self._kill(reason)
                self._start_when_possible()
        self._stop()

    def _start_when_possible(self) -> None:
        while not self.stops and not self._start():
            self._rest()

    def _start(self) -> bool:
        """Enlist and fork a new cluster; False while the database does not answer."""
        try:
            self._on_start()
            self._row = engine.enlist(clock.now())
        except Error:
            logger.warning("The database does not answer; trying again", exc_info=True)
            return False
        finally:
            # A forked process must not share its parent's connection.
            connections.close_all()
        broker.cluster_id = self._row.pk
        broker.is_stopping.value = 0
        concurrency.open_lanes(settings.CRONTY_WORKERS)
        self._watch = Watch()
        self._cluster = _QuietCluster()
        self._cluster.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_stop)
        return True

    def _trouble(self) -> str:
        """Say why the cluster must be restarted, or nothing."""
        assert self._row is not None
        if not self._cluster.sentinel.is_alive():
            return "its sentinel died"
        return self._watch.trouble(self._row.pk)

    def _kill(self, reason: str) -> None:
        """End every process of the cluster, and free what it held: they are surely dead."""
        self._cluster.sentinel.kill()
        self._cluster.sentinel.join()
        self._give_up_claims(f"Restarted: {reason}")

    def _stop(self) -> None:
        """Finish what is running, within the limit, and hand back the rest."""
        if self._cluster is None or self._row is None:
            return
        # Before django-q2 is asked to: a process that was killed may hold a lock that its stop waits for, and what is
        # claimed meanwhile would be cut off at the deadline.
        broker.is_stopping.value = 1
        _survive(lambda: engine.hand_back(broker.cluster_id, clock.now()))
        # In a thread: setting the event waits for whoever listens, for ever if the sentinel died listening.
        threading.Thread(target=self._cluster.stop_event.set, daemon=True).start()
        deadline = time.monotonic() + settings.CRONTY_STOP_SECONDS
        while self._cluster.sentinel.is_alive() and time.monotonic() < deadline and self.stops < 2:
            self._cluster.sentinel.join(0.1)
        self._cluster.sentinel.kill()
        self._cluster.sentinel.join()
        self._give_up_claims("")

    def _give_up_claims(self, note: str) -> None:
        cluster_id = broker.cluster_id
        _survive(lambda: engine.hand_back(cluster_id, clock.now(), also_running=True))
        _survive(lambda: engine.retire(cluster_id, clock.now(), note))
        connections.close_all()
        concurrency.close_lanes()

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1

    def _rest(self) -> None:
        time.sleep(LOOK_EVERY)  # noqa: TID251


class Watch:
    """Notices a cluster whose pulse stands still although the database answers."""

    def __init__(self) -> None:
        self._looked_at = time.monotonic()
        self._pulse: tuple[datetime, datetime] | None = None
        self._silent_for = {"claim loop": 0.0, "probe": 0.0}

    def trouble(self, cluster_id: int) -> str:
        """Look at the cluster's row every few seconds; say what has been silent for too long."""
        passed = time.monotonic() - self._looked_at
        if passed < WATCH_EVERY:
            return ""
        self._looked_at = time.monotonic()
        try:
            pulse = _pulse_of(cluster_id)
        except Error:
            # A database that is away, or locked, silences everybody: that is not the cluster's fault.
            # A connection that broke stays broken until it is closed, and the watch would be blind for ever.
            connections.close_all()
            self._silent_for = dict.fromkeys(self._silent_for, 0.0)
            return ""
        is_slow = time.monotonic() - self._looked_at > 1
        for name, now, before in zip(self._silent_for, pulse, self._pulse or (None, None), strict=True):
            self._silent_for[name] = self._silent_for[name] + min(passed, 3.0) if now == before else 0.0
        self._pulse = pulse
        if is_slow:
            self._silent_for = dict.fromkeys(self._silent_for, 0.0)
        silent = [name for name, seconds in self._silent_for.items() if seconds > SILENT_AFTER]
        return f"its {silent[0]} was silent for {SILENT_AFTER:g} s" if silent else ""


def _pulse_of(cluster_id: int) -> tuple[datetime, datetime]:
    """Read the two heartbeats; the write shows that the cluster could have written, too."""
    Cluster.objects.filter(pk=cluster_id).update(watched_at=clock.now())
    row = Cluster.objects.filter(pk=cluster_id).values_list("last_seen_at", "probe_returned_at").first()
    if row is None:
        raise Error("the cluster's row is gone")
    return row


def _write_lazily() -> None:
    """Let the engine commit without waiting for the disk: what a power cut takes back is fired again, never lost.

    Changes by people and agents are written by other processes, which do wait for the disk.
    """
    database = connections["default"].settings_dict
    options = database["OPTIONS"]
    if connections["default"].vendor == "sqlite":
        if command := options.get("init_command"):
            options["init_command"] = command.replace("synchronous=FULL", "synchronous=NORMAL")
    elif not database.get("DISABLE_SERVER_SIDE_CURSORS"):
        # Poolers refuse such options. Keep the operator's own options, such as a schema.
        options["options"] = f"{options.get('options', '')} -c synchronous_commit=off".strip()
    # Saves a query before every run: the runner notices a broken connection when it uses it.
    database["CONN_HEALTH_CHECKS"] = False
    if not options.get("pool"):
        # The project's own setting may close a connection after each use: too slow for a loop that polls.
        database["CONN_MAX_AGE"] = database["CONN_MAX_AGE"] or KEEP_CONNECTION


def _survive(step: Callable[[], object]) -> None:
    """On the way out a database that is away must not keep us: leases end by themselves."""
    try:
        step()
    except Error:
        logger.warning("The database does not answer; the leases will run out instead", exc_info=True)
        # The next step begins with a new connection.
        connections.close_all()


class _QuietCluster(DjangoQCluster):
    """A cluster that leaves signals to its leader."""

    def sig_handler(self, signum: int, frame: FrameType | None) -> None:
        return
