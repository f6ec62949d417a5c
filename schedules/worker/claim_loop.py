"""The claim loop: looks for work in the ledger, and claims it for the workers of its cluster.

It runs in django-q2's pusher. One look after the other:

    next_packages
    ├── Upkeep     every few seconds: heartbeat, leases of claims, dead clusters, a probe
    ├── NextSlot   is something due? If not, sleep until shortly before it is
    ├── Capacity   how much may be claimed?
    ├── engine     claim_runs: one transaction
    └── packages   divide the claims among the workers
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import Error, connection, connections

from schedules import engine
from schedules.engine import Claim
from schedules.worker import packages
from schedules.worker.capacity import Capacity
from schedules.worker.claim_watch import ClaimWatches
from schedules.worker.context import ClusterContext
from schedules.worker.database_changes import DatabaseChanges
from schedules.worker.database_errors import description_of, reason_of
from schedules.worker.next_slot import NextSlot
from schedules.worker.q2 import Package
from schedules.worker.upkeep import Upkeep

logger = logging.getLogger(__name__)

POLL = 0.1
PAUSE_AFTER_ERROR = 0.5
OVERDUE = timedelta(seconds=5)
# How long other clusters take to write the outcome of a run that has ended; until then, the next slot is not an overlap.
OTHERS_WRITE_WITHIN = timedelta(seconds=0.25)


class ClaimLoop:
    """What one cluster knows about its next claim."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._clock = context.clock
        self._next_slot = NextSlot(context.clock)
        self._watches = ClaimWatches(context.clock)
        self._capacity = Capacity(context)
        self._changes = DatabaseChanges()
        self.upkeep = Upkeep(context, self._next_slot, self._watches)
        # A probe that was packed and not returned yet.
        self._probes: list[Package] = []
        self._must_look_ahead = True
        self._has_found = False
        self._is_claim_blocked = False

    def next_packages(self) -> list[Package] | None:
        """Return packages of claimed executions, or None after a short wait."""
        if self._has_found:
            # Another thread of this process sends what was found: do not look for more before it has begun.
            self._clock.let_others_run()
        self._watches.all.begin()
        self._has_found = False
        try:
            found = self._look()
            self._has_found = bool(found)
            return found
        except Error as error:
            # The pusher must survive a database that is away.
            if engine.is_lock_timeout(error):
                self._context.report_blocked()
            self._watches.all.could_not_claim(description_of(error))
            logger.warning("The database cannot be used (%s); trying again", reason_of(error))
        except Exception:
            logger.exception("Could not look for work; trying again")
        connections.close_all()
        self._clock.sleep(PAUSE_AFTER_ERROR)
        # If only claims fail, workers must show that they are alive, or the leader would restart them.
        return self._take_probes() or None

    def _look(self) -> list[Package] | None:
        self._context.pulse()
        if self._context.is_stopping:
            self._clock.sleep(POLL)
            return None
        connection.close_if_unusable_or_obsolete()
        self._capacity.plain.release_if_stalled(self._context)
        if self.upkeep.is_due(is_slot_known=not self._must_look_ahead):
            self._probes = [self.upkeep.run(is_claim_blocked=self._is_claim_blocked)]
        elif not self._may_have_work():
            self._watches.all.could_claim()
            self._wait()
            return None
        claimed = self._claim_packages()
        if not self._must_look_ahead:
            self._is_claim_blocked = False
        found = [*self._take_probes(), *claimed]
        if not found:
            # There is work, but no room for it.
            self._clock.sleep(POLL / 4)
        return found or None

    def _take_probes(self) -> list[Package]:
        probes, self._probes = self._probes, []
        return probes

    # When to claim

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
            # Ignore what waits for a permit: it cannot be claimed now.
            at = engine.wake_up_at(now, exclude_tasks=waiting)
        self._next_slot.expect(at)
        # Long overdue although the last claim had room for it: another session has locked it.
        self._is_claim_blocked = at is not None and at < now - OVERDUE

    def _wait(self) -> None:
        seconds, until_quiet = self._next_slot.until_claim(), self._next_slot.until_quiet()
        if until_quiet > 0:
            # Then it is time to count the next jobs, and under a steady load, for upkeep.
            seconds = min(seconds, until_quiet)
        self._clock.sleep(min(POLL, max(seconds, 0.001)))

    # What to claim

    def _claim_packages(self) -> list[Package]:
        """Claim as much as there is room for, and pack it; note which lanes were full."""
        room = self._capacity.room(self.upkeep.heartbeat.clusters, is_ahead=self._next_slot.is_ahead())
        waiting = self._capacity.plain.names_to_exclude(self._context) if room else []
        found: list[Package] = []
        claims: list[Claim] = []
        if room:
            claims = self._claim_all_lanes(room, waiting)
            self._note_claims(claims, room)
            found += packages.pack(claims, self._clock.now())
            # Look ahead at the next call, so that these packages are not delayed.
            self._must_look_ahead = len(claims) < room
        self._watches.all.note(is_busy=not room or len(claims) == room)
        self._watches.plain.note(is_busy=bool(waiting))
        self._watches.commands.note(is_busy=self._capacity.commands.is_crowded)
        return found

    def _claim_all_lanes(self, room: int, waiting: list[str]) -> list[Claim]:
        claims = self._claim(room, exclude_tasks=[*waiting, *self._capacity.commands.names()])
        try:
            claims = self._within_lane(claims + self._claim_commands())
        except Error as error:
            # What is claimed already must not wait until its leases expire.
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
                interruptions=self._watches.interruptions(),
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
            # Only their own workers know what they are about to write.
            moments.append(now - OTHERS_WRITE_WITHIN)
        return min((moment for moment in moments if moment), default=None)

    def _claim_commands(self) -> list[Claim]:
        """Claim the commands that there is room for, if they are claimed separately."""
        commands = self._capacity.commands
        if not commands.is_crowded or not (room := commands.room(self._context.cluster_id)):
            return []
        names = commands.names()
        claims = self._claim(room, only_tasks=names) if names else []
        commands.is_crowded = len(claims) == room
        return claims

    def _within_lane(self, claims: list[Claim]) -> list[Claim]:
        """Return the claims without the commands for which there is no room, and release those."""
        admitted, surplus = self._capacity.commands.admit(self._context.cluster_id, claims)
        if surplus:
            ids = [claim.execution_id for claim in surplus]
            with self._context.turns.take_for_claim_loop():
                engine.release_claims(self._context.cluster_id, ids, self._clock.now())
        return admitted
