"""The claim loop: it claims work from the ledger for the workers of its cluster.

It runs in the pusher (q2.py), which calls `next_packages` again and again:

    next_packages
    ├── Upkeep             every few seconds: heartbeat, leases of claims, dead clusters, a probe
    ├── DatabaseChanges    check whether the database has changed
    ├── NextSlot           check whether something is due; if not, sleep until shortly before it is
    ├── Capacity           limit how much to claim
    ├── engine.claim_runs  claim in one transaction
    └── packages.pack      divide the claims among the workers
"""

import logging
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db import Error, connection, connections

from schedules import engine
from schedules.engine import Claim
from schedules.worker import packages
from schedules.worker.capacity import BATCH_AHEAD, Capacity
from schedules.worker.context import Clock, ClusterContext
from schedules.worker.database_errors import reason_of
from schedules.worker.q2 import Package
from schedules.worker.upkeep import Upkeep

logger = logging.getLogger(__name__)

POLL = 0.1
PAUSE_AFTER_ERROR = 0.5
OVERDUE = timedelta(seconds=5)
# How long other clusters may take to write an outcome. Until then, a run may have ended, so the next slot does not overlap.
OTHERS_WRITE_WITHIN = timedelta(seconds=0.25)
# A claim begins this many seconds before its slot, plus `HEAD_START_PER_JOB` for each job that is due then.
HEAD_START = 0.005
HEAD_START_PER_JOB = 0.0001
# How many seconds before a slot its jobs are counted: two polls before the earliest claim.
COUNT_BEFORE = HEAD_START + BATCH_AHEAD * HEAD_START_PER_JOB + 2 * POLL
# For this many seconds after a claim, start no early claim, count or upkeep: workers are starting the claimed runs and need
# the database and the processor.
QUIET_AFTER = 0.02


class ClaimLoop:
    """The claim loop of one cluster: decides when to claim and how much, and packs the claims."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._clock = context.clock
        self._next_slot = NextSlot(context.clock)
        self._capacity = Capacity(context)
        self._changes = DatabaseChanges()
        self.upkeep = Upkeep(context)
        # A probe that was created but not returned by `next_packages` yet.
        self._probes: list[Package] = []
        self._must_look_ahead = True
        self._is_claim_blocked = False

    def next_packages(self) -> list[Package]:
        """Return packages of claimed executions, or none after a short wait."""
        try:
            return self._step()
        except Error as error:
            # The pusher must survive an outage of the database.
            if engine.is_lock_timeout(error):
                self._context.report_blocked()
            self.upkeep.heartbeat.has_failed = True
            logger.warning("The database cannot be used (%s); trying again", reason_of(error))
        except Exception:
            logger.exception("Could not look for work; trying again")
        connections.close_all()
        self._clock.sleep(PAUSE_AFTER_ERROR)
        # If only claims fail, the probes must go on, or the leader would restart the workers.
        return self._take_probes()

    def _step(self) -> list[Package]:
        self._context.pulse()
        if self._context.is_stopping:
            self._clock.sleep(POLL)
            return []
        connection.close_if_unusable_or_obsolete()
        self._capacity.plain.release_if_stalled()
        if self._is_upkeep_due():
            self._probes = [self.upkeep.run(is_claim_blocked=self._is_claim_blocked)]
        elif not self._may_have_work():
            self._wait()
            return []
        claimed = self._claim_packages()
        if not self._must_look_ahead:
            self._is_claim_blocked = False
        ready = [*self._take_probes(), *claimed]
        ready += self.upkeep.take_watch_ping(is_claim_blocked=self._is_claim_blocked)
        if not ready:
            # There is work, but no room for it.
            self._clock.sleep(POLL / 4)
        return ready

    def _take_probes(self) -> list[Package]:
        probes, self._probes = self._probes, []
        return probes

    def _is_upkeep_due(self) -> bool:
        """Return whether upkeep is due; runs that start now, or are due before it would end, go first."""
        is_slot_close = not self._must_look_ahead and self._next_slot.until_claim() < self.upkeep.last_took
        return self.upkeep.is_due(is_inconvenient=is_slot_close or self._next_slot.until_quiet() > 0)

    def _may_have_work(self) -> bool:
        """Return whether a claim could find anything, without a query if the database allows that."""
        may_have_changed = self._changes.may_have_happened()
        if self._must_look_ahead or (may_have_changed and self._next_slot.until_claim() > 0):
            self._look_ahead()
        self._next_slot.count_jobs()
        return self._next_slot.until_claim() <= 0

    def _look_ahead(self) -> None:
        self._must_look_ahead = False
        now = self._clock.now()
        at = engine.wake_up_at(now)
        if at and at <= now and (waiting := self._capacity.waiting_tasks()):
            # Ignore tasks whose lanes are full: they cannot be claimed now.
            at = engine.wake_up_at(now, exclude_tasks=waiting)
        self._next_slot.expect(at)
        # Something is long overdue although the last claim had room for it, so another session has locked it.
        self._is_claim_blocked = at is not None and at < now - OVERDUE

    def _wait(self) -> None:
        seconds, until_quiet = self._next_slot.until_claim(), self._next_slot.until_quiet()
        if until_quiet > 0:
            # Wake up to count the next jobs and, under a steady load, for upkeep.
            seconds = min(seconds, until_quiet)
        self._clock.sleep(min(POLL, max(seconds, 0.001)))

    def _claim_packages(self) -> list[Package]:
        """Claim what there is room for, and pack it."""
        room = self._capacity.room(self.upkeep.heartbeat.clusters, is_ahead=self._next_slot.is_ahead())
        if not room:
            return []
        claims = self._claim_all_lanes(room)
        self._note_claims(claims, room)
        # Look ahead in the next call, so that these packages are not delayed.
        self._must_look_ahead = len(claims) < room
        return [*packages.pack(claims)]

    def _claim_all_lanes(self, room: int) -> list[Claim]:
        lanes = self._capacity
        claims = self._claim(room, exclude_tasks=[*lanes.plain.names_to_exclude(), *lanes.commands.names()])
        try:
            claims = self._release_surplus(claims + self._claim_commands())
        except Error as error:
            # Return the claims made so far; otherwise, their runs would wait until the leases expire.
            logger.warning("Commands cannot be claimed (%s); trying again", reason_of(error))
            connections.close_all()
        return claims

    def _note_claims(self, claims: list[Claim], room: int) -> None:
        self.upkeep.heartbeat.claimed += len(claims)
        if claims:
            self._next_slot.note_claim()
        self._capacity.add(claims)
        if self._capacity.is_exhausted_by(claims, room):
            self._context.report_burst()

    def _claim(self, limit: int, **tasks: Sequence[str]) -> list[Claim]:
        with self._context.turns.take_for_claim_loop():
            now, is_ahead = self._clock.now(), self._next_slot.is_ahead()
            return engine.claim_runs(
                self._context.cluster_id,
                self._next_slot.at if is_ahead else now,
                limit,
                **tasks,
                interruptions=self.upkeep.heartbeat.interruptions(now),
                unwritten_since=self._unwritten_since(now, is_ahead=is_ahead),
                before_commit=self._next_slot.sleep_until_due if is_ahead else None,
            )

    def _unwritten_since(self, now: datetime, *, is_ahead: bool) -> datetime | None:
        """Return the earliest finish time whose outcome may not be written yet, or None if all are written."""
        moments = [self._context.unwritten_since]
        if is_ahead:
            # A run that ends before the slot is written after this claim.
            moments.append(now)
        if self.upkeep.heartbeat.clusters > 1:
            # Workers of other clusters may be about to write outcomes that this one does not know of.
            moments.append(now - OTHERS_WRITE_WITHIN)
        return min((moment for moment in moments if moment), default=None)

    def _claim_commands(self) -> list[Claim]:
        """Claim the commands that there is room for, if they are claimed separately."""
        commands = self._capacity.commands
        if not commands.is_crowded or not (room := commands.room()):
            return []
        names = commands.names()
        claims = self._claim(room, only_tasks=names) if names else []
        commands.is_crowded = len(claims) == room
        return claims

    def _release_surplus(self, claims: list[Claim]) -> list[Claim]:
        """Release the commands for which there is no room, and return the other claims."""
        admitted, surplus = self._capacity.commands.admit(claims)
        if surplus:
            ids = [claim.execution_id for claim in surplus]
            with self._context.turns.take_for_claim_loop():
                engine.release_claims(self._context.cluster_id, ids, self._clock.now())
        return admitted


class NextSlot:
    """When something is due next, and how early its claim begins.

    A claim begins before its slot and is committed at the slot, so that it delays nothing. Until then its jobs are
    locked: a change to them is committed either before the claim reads them or after the slot.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Before the first look, something is due.
        self._at = 0.0
        self._jobs = 0
        self._claimed_at = 0.0

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self._at, UTC)

    def expect(self, at: datetime | None) -> None:
        """Set when something is due next; None means never."""
        timestamp = at.timestamp() if at else math.inf
        if timestamp != self._at:
            self._at, self._jobs = timestamp, 0

    def count_jobs(self) -> None:
        """Count the due jobs shortly before the slot, unless workers are starting runs or it is too late for a head start."""
        if self.until_quiet() <= 0 and QUIET_AFTER < self.until_due() < COUNT_BEFORE:
            self._jobs = engine.count_due(self.at, BATCH_AHEAD)

    def note_claim(self) -> None:
        """Note that runs were claimed, so that workers are starting them now."""
        self._claimed_at = self._clock.monotonic()

    def until_due(self) -> float:
        """Return in how many seconds something is due."""
        return self._at - self._clock.now().timestamp()

    def until_claim(self) -> float:
        """Return in how many seconds to begin the next claim."""
        until_due = self.until_due()
        return min(until_due, max(until_due - self._head_start, self.until_quiet()))

    def until_quiet(self) -> float:
        """Return in how many seconds workers will have had time to start the runs of the last claim."""
        return self._claimed_at + QUIET_AFTER - self._clock.monotonic()

    def is_ahead(self) -> bool:
        """Return whether a claim that begins now can be committed at the slot."""
        return 0 < self.until_due() <= self._head_start

    def sleep_until_due(self) -> None:
        # No longer than the head start: somebody may set the clock back.
        self._clock.sleep(min(max(self.until_due(), 0), self._head_start))

    @property
    def _head_start(self) -> float:
        return HEAD_START + self._jobs * HEAD_START_PER_JOB


class DatabaseChanges:
    """Detects whether other connections have changed the database; on SQLite, without a query."""

    def __init__(self) -> None:
        self._version = -1
        self._connection: object = None

    def may_have_happened(self) -> bool:
        """Return whether others may have changed the database since the last call."""
        if connection.vendor != "sqlite":
            return True
        connection.ensure_connection()
        version = connection.connection.execute("PRAGMA data_version").fetchone()[0]
        # The number belongs to the connection, so it does not show changes before a reconnect.
        is_changed = version != self._version or connection.connection is not self._connection
        self._version, self._connection = version, connection.connection
        return bool(is_changed)
