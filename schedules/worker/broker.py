"""A broker for django-q2 that claims executions directly from the ledger."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from itertools import chain

from django.conf import settings
from django.db import Error, connection, connections
from django_q.brokers import Broker

from schedules import clock, engine
from schedules.engine import Claim
from schedules.engine.interruptions import BUSY, Interruption
from schedules.models import Cluster, Execution
from schedules.tasks.registry import Lane
from schedules.worker import packages
from schedules.worker.claim_watch import ClaimWatch
from schedules.worker.command_lane import CommandLane
from schedules.worker.context import Clock, ClusterContext
from schedules.worker.database_errors import description_of, reason_of
from schedules.worker.next_slot import BATCH_AHEAD, NextSlot
from schedules.worker.packages import Package
from schedules.worker.plain_lane import PlainLane
from schedules.worker.turns import WAIT_FOR_TURN

logger = logging.getLogger(__name__)

POLL = 0.1
# How often claims are renewed, in seconds; more often if the lease is short.
TIDY_EVERY = 3.0
PAUSE_AFTER_ERROR = 0.5
# The most executions that one cluster holds: enough to keep every worker busy, but few to hand back.
HELD = 2000
# Small enough that workers start the first runs of a burst while the next are claimed.
BATCH = 500
# While many are held, wait until there is room for this many instead of claiming a few at a time.
SMALLEST_CLAIM = 250
OVERDUE = timedelta(seconds=5)
# In which time other clusters write the outcome of a run that has ended; before, the next slot is not called an overlap.
OTHERS_WRITE_WITHIN = timedelta(seconds=0.25)


class LedgerBroker(Broker):
    """Claims executions for the pusher, and records for the monitor that a probe returned."""

    _context: ClusterContext | None = None
    _tidied_at = 0.0
    _tidy_at = 0.0
    _tidy_took = 0.0
    _sweep_at = 0.0
    _clock_offset: float | None = None
    _data_version = -1
    _seen_connection: object = None
    _must_look_ahead = True
    _has_found = False
    # An upper bound of the executions held, counted again only when needed.
    _held_at_most = HELD
    _claimed = 0
    # How many clusters shared the work at the last heartbeat.
    _clusters = 1
    _is_claim_blocked = False
    _blocked_since: datetime | None = None

    def __init__(self, list_key: str | None = None, *, context: ClusterContext | None = None) -> None:
        """Create a broker for a cluster; django-q2 itself creates brokers without one, which cannot claim."""
        super().__init__(list_key)  # type: ignore[arg-type]
        self._context = context
        self._next_slot = NextSlot(self._clock)
        self._claim_watch = ClaimWatch(self._clock)
        self._lane_watches = {lane: ClaimWatch(self._clock, lane) for lane in (Lane.PLAIN, Lane.COMMAND)}
        self._commands = CommandLane()
        self._plain = PlainLane()
        self._recorded: list[Interruption] = []
        # A probe that was packed and not returned yet.
        self._probes: list[Package] = []

    @property
    def context(self) -> ClusterContext:
        assert self._context is not None, "start clusters with manage.py qcluster or manage.py up"
        return self._context

    @property
    def _clock(self) -> Clock:
        return self._context.clock if self._context else Clock()

    def ping(self) -> bool:
        return True

    def info(self) -> str:
        return "Cronty's ledger"

    def enqueue(self, task: str) -> None:
        """Refuse django-q2's own tasks: the base class would drop them silently."""
        raise NotImplementedError(
            "Cronty's broker does not accept django-q2 tasks (async_task, Schedule): register a function with"
            " schedules.tasks.task, and create a job for it with schedules.services.schedule."
        )

    def dequeue(self) -> list[Package] | None:
        """Return packages of claimed executions, or None after a short wait."""
        if self._has_found:
            # Another thread of this process sends what was found: do not look for more before it has begun.
            self._clock.let_others_run()
        self._claim_watch.begin()
        self._has_found = False
        try:
            found = self._next_packages()
            self._has_found = bool(found)
            return found
        except Error as error:
            # The pusher must survive a database that is away.
            if engine.is_lock_timeout(error):
                self.context.report_blocked()
            self._claim_watch.could_not_claim(description_of(error))
            logger.warning("The database cannot be used (%s); trying again", reason_of(error))
        except Exception:
            logger.exception("Could not look for work; trying again")
        connections.close_all()
        self._clock.sleep(PAUSE_AFTER_ERROR)
        # If only claims fail, workers must show that they are alive, or the leader would restart them.
        probes, self._probes = self._probes, []
        return probes or None

    def acknowledge(self, task_id: str) -> None:
        """Record that a probe has passed through the pusher, a worker and the monitor."""
        sent_at = packages.probe_sent_at(task_id)
        if sent_at is None:
            return
        try:
            connection.close_if_unusable_or_obsolete()
            self.context.probe_returned()
            with self._turn():
                engine.probe_returned(self.context.cluster_id, sent_at)
        except Error:
            connections.close_all()

    def queue_size(self) -> int:
        return Execution.objects.ready(clock.now()).count()

    def lock_size(self) -> int:
        return Execution.objects.held().count()

    def _next_packages(self) -> list[Package] | None:
        self.context.pulse()
        if self.context.is_stopping:
            self._clock.sleep(POLL)
            return None
        connection.close_if_unusable_or_obsolete()
        self._plain.release_if_stalled(self.context)
        if self._is_time_to_tidy():
            self._probes = [self._tidy()]
        elif not self._may_have_work():
            self._claim_watch.could_claim()
            self._wait(POLL)
            return None
        found: list[Package] = []
        room = self._room()
        waiting = self._plain.names_to_exclude(self.context) if room else []
        if room:
            claims = self._claim(room, exclude_tasks=[*waiting, *self._commands.names()])
            try:
                claims = self._within_lane(claims + self._claim_commands())
            except Error as error:
                # What is claimed already must not wait until its leases expire.
                logger.warning("Commands cannot be claimed (%s); trying again", reason_of(error))
                connections.close_all()
            self._count(claims)
            if len(claims) >= min(room, BATCH):
                self.context.report_burst()
            found += packages.pack(claims, self._clock.now())
            # Look ahead at the next call, so that these packages are not delayed.
            self._must_look_ahead = len(claims) < room
        if not self._must_look_ahead:
            self._is_claim_blocked = False
        _note(self._claim_watch, is_busy=not room or len(claims) == room)
        _note(self._lane_watches[Lane.PLAIN], is_busy=bool(waiting))
        _note(self._lane_watches[Lane.COMMAND], is_busy=self._commands.is_crowded)
        found, self._probes = [*self._probes, *found], []
        if not found:
            # There is work, but no room for it.
            self._clock.sleep(POLL / 4)
        return found or None

    def _claim(self, limit: int, **tasks: Sequence[str]) -> list[Claim]:
        with self._turn():
            now, is_ahead = self._clock.now(), self._next_slot.is_ahead()
            return engine.claim_runs(
                self.context.cluster_id,
                self._next_slot.at if is_ahead else now,
                limit,
                **tasks,
                interruptions=self._interruptions(),
                unwritten_since=self._unwritten_since(now, is_ahead=is_ahead),
                before_commit=self._next_slot.sleep_until_due if is_ahead else None,
            )

    def _unwritten_since(self, now: datetime, *, is_ahead: bool) -> datetime | None:
        """Return since when runs may have ended whose outcomes are not written, or None if all are."""
        moments = [self.context.unwritten_since]
        if is_ahead:
            # A run that ends before the slot is written after this claim.
            moments.append(now)
        if self._clusters > 1:
            # Only their own workers know what they are about to write.
            moments.append(now - OTHERS_WRITE_WITHIN)
        return min((moment for moment in moments if moment), default=None)

    def _claim_commands(self) -> list[Claim]:
        """Claim the commands that there is room for, if they are claimed separately."""
        if not self._commands.is_crowded or not (room := self._commands.room(self.context.cluster_id)):
            return []
        names = self._commands.names()
        claims = self._claim(room, only_tasks=names) if names else []
        self._commands.is_crowded = len(claims) == room
        return claims

    def _within_lane(self, claims: list[Claim]) -> list[Claim]:
        """Return the claims without the commands for which there is no room, and release those."""
        admitted, surplus = self._commands.admit(self.context.cluster_id, claims)
        if surplus:
            ids = [claim.execution_id for claim in surplus]
            with self._turn():
                engine.release_claims(self.context.cluster_id, ids, self._clock.now())
        return admitted

    def _is_time_to_tidy(self) -> bool:
        """Return whether to tidy now: runs that start now or are due before the end come first, but not again and again."""
        if self._clock.is_host_set():
            return True
        overdue = self._clock.monotonic() - self._tidy_at
        is_due_before = not self._must_look_ahead and self._next_slot.until_claim() < self._tidy_took
        is_in_the_way = is_due_before or self._next_slot.until_quiet() > 0
        return overdue > (_tidy_every() / 2 if is_in_the_way else 0)

    def _tidy(self) -> Package:
        """Read the clock, write a heartbeat, renew claims, rescue runs of dead clusters, and send a probe."""
        cluster_id = self.context.cluster_id
        # Before the steps below: if one of them fails, claims must go on until the next attempt.
        begin = self._clock.monotonic()
        self._tidy_at = begin + _tidy_every()
        self._clock.measure()
        now = self._clock.now()
        interruptions = self._interruptions()
        is_new = interruptions != self._recorded
        with self._turn():
            engine.beat(
                cluster_id,
                now,
                claimed=self._claimed,
                blocked_since=self._find_blocked_since(now),
                interruptions=interruptions if is_new else None,
            )
        self._claimed, self._recorded = 0, interruptions
        self._clusters = max(1, Cluster.objects.fresh(now).count())
        self.context.pulse()
        with self._turn():
            engine.renew_claims(cluster_id, now, self.context.plain_line.execution_ids())
        self.context.pulse()
        # Also without a sweep: the clock may have been ahead for a few seconds only.
        engine.recover_from_clock_rollback(now)
        self.context.pulse()
        if self._may_sweep(now):
            with self._turn():
                engine.sweep(now)
            self.context.pulse()
        self._tidy_took = self._clock.monotonic() - begin
        return packages.probe(now)

    def _turn(self) -> AbstractContextManager[None]:
        return self.context.turns.take(WAIT_FOR_TURN)

    def _interruptions(self) -> list[Interruption]:
        of_lanes = (watch.interruptions() for watch in self._lane_watches.values())
        return [*self._claim_watch.interruptions(), *chain.from_iterable(of_lanes)]

    def _may_sweep(self, now: datetime) -> bool:
        """Return whether expired leases can be trusted: not after a clock jump or while nobody could renew them."""
        tick, lease = self._clock.monotonic(), settings.CRONTY_LEASE_SECONDS
        offset = now.timestamp() - tick
        has_jumped = self._clock_offset is not None and abs(offset - self._clock_offset) > lease / 3
        was_away = self._tidied_at > 0 and tick - self._tidied_at > max(2 * _tidy_every(), lease * 2 / 3)
        if has_jumped or was_away:
            self._sweep_at = tick + lease
        self._clock_offset, self._tidied_at = offset, tick
        return tick >= max(self._sweep_at, self.context.sweep_at)

    def _find_blocked_since(self, now: datetime) -> datetime | None:
        """Return since when runs cannot be started or settled, or due jobs not be claimed, because of locks."""
        if not (self.context.is_blocked or self._is_claim_blocked):
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        return self._blocked_since

    def _count(self, claims: list[Claim]) -> None:
        self._claimed += len(claims)
        if claims:
            self._next_slot.note_claim()
        self._held_at_most += len(claims)
        self._plain.add(claims)

    def _room(self) -> int:
        batch = BATCH_AHEAD if self._next_slot.is_ahead() else BATCH
        if self._held_at_most + batch > HELD:
            self._held_at_most = Execution.objects.held().filter(cluster_id=self.context.cluster_id).count()
        room = HELD - self._held_at_most
        # One cluster must not take a whole burst while others are idle.
        share = min(batch, max(packages.CHUNK, batch // self._clusters))
        return min(room, share) if room >= SMALLEST_CLAIM else 0

    def _look_ahead(self) -> None:
        self._must_look_ahead = False
        now = self._clock.now()
        at = engine.wake_up_at(now)
        if (
            at
            and at <= now
            and (waiting := [*self._plain.names_to_exclude(self.context), *self._waiting_commands()])
        ):
            # Ignore what waits for a permit: it cannot be claimed now.
            at = engine.wake_up_at(now, exclude_tasks=waiting)
        self._next_slot.expect(at)
        # Long overdue although the last claim had room for it: another session has locked it.
        self._is_claim_blocked = at is not None and at < now - OVERDUE

    def _waiting_commands(self) -> list[str]:
        """Return the names of all commands if no more of them may run now, else an empty list."""
        names = self._commands.names()
        return names if names and not self._commands.room(self.context.cluster_id) else []

    def _may_have_work(self) -> bool:
        """Return whether a claim could find anything, without a query if the database allows that."""
        may_have_changed = self._may_have_changed()
        if self._must_look_ahead or (may_have_changed and self._next_slot.until_claim() > 0):
            self._look_ahead()
        self._next_slot.count_jobs()
        return self._next_slot.until_claim() <= 0

    def _may_have_changed(self) -> bool:
        """Return whether others may have changed the database since the last call: SQLite says so without a query."""
        if connection.vendor != "sqlite":
            return True
        connection.ensure_connection()
        version = connection.connection.execute("PRAGMA data_version").fetchone()[0]
        # The number belongs to the connection, so it does not show changes before a reconnect.
        is_changed = version != self._data_version or connection.connection is not self._seen_connection
        self._data_version, self._seen_connection = version, connection.connection
        return bool(is_changed)

    def _wait(self, longest: float) -> None:
        seconds, until_quiet = self._next_slot.until_claim(), self._next_slot.until_quiet()
        if until_quiet > 0:
            # Then it is time to count the next jobs, and under a steady load, to tidy.
            seconds = min(seconds, until_quiet)
        self._clock.sleep(min(longest, max(seconds, 0.001)))


def _note(watch: ClaimWatch, *, is_busy: bool) -> None:
    if is_busy:
        watch.could_not_claim(BUSY)
    else:
        watch.could_claim()


def _tidy_every() -> float:
    return min(TIDY_EVERY, settings.CRONTY_LEASE_SECONDS / 3)
