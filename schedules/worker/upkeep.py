"""What a claim loop does every few seconds besides claiming.

It reads the clock of the database, writes a heartbeat, renews the leases of claims, rescues the runs of dead clusters,
and sends a probe through the queue and a worker.
"""

from datetime import datetime

from django.conf import settings
from django.db import Error, connection, connections

from schedules import engine
from schedules.engine.interruptions import Interruption
from schedules.models import Cluster
from schedules.worker import packages
from schedules.worker.claim_watch import ClaimWatches
from schedules.worker.context import Clock, ClusterContext
from schedules.worker.next_slot import NextSlot
from schedules.worker.q2 import Package

# How often claims are renewed, in seconds; more often if the lease is short.
UPKEEP_EVERY = 3.0


class Upkeep:
    """The upkeep of one cluster: when it is due, and its steps."""

    def __init__(self, context: ClusterContext, next_slot: NextSlot, watches: ClaimWatches) -> None:
        self._context = context
        self._clock = context.clock
        self._next_slot = next_slot
        self.heartbeat = Heartbeat(context, watches)
        self._sweeps = SweepGate(context.clock, context.sweep_at)
        # On the monotonic clock, and in seconds.
        self._due_at = 0.0
        self._last_took = 0.0

    def is_due(self, *, is_slot_known: bool) -> bool:
        """Return whether it is time: runs that start now, or are due before its end, go first, but not again and again."""
        if self._clock.is_host_set():
            return True
        overdue = self._clock.monotonic() - self._due_at
        is_slot_close = is_slot_known and self._next_slot.until_claim() < self._last_took
        is_in_the_way = is_slot_close or self._next_slot.until_quiet() > 0
        return overdue > (upkeep_every() / 2 if is_in_the_way else 0)

    def run(self, *, is_claim_blocked: bool) -> Package:
        """Do everything that is due, and return a probe to be sent."""
        # Before the steps below: if one of them fails, claims must go on until the next attempt.
        begin = self._clock.monotonic()
        self._due_at = begin + upkeep_every()
        self._clock.measure()
        now = self._clock.now()
        self.heartbeat.write(now, is_claim_blocked=is_claim_blocked)
        self._context.pulse()
        with self._context.turns.take_for_claim_loop():
            engine.renew_claims(self._context.cluster_id, now, self._context.plain_line.execution_ids())
        self._context.pulse()
        # Also without a sweep: the clock may have been ahead for a few seconds only.
        engine.recover_from_clock_rollback(now)
        self._context.pulse()
        if self._sweeps.may_sweep(now):
            with self._context.turns.take_for_claim_loop():
                engine.sweep(now)
            self._context.pulse()
        self._last_took = self._clock.monotonic() - begin
        return packages.probe(now)

    def acknowledge(self, ack_id: str) -> None:
        """Record that a probe has passed through the pusher, a worker and the monitor, which calls this."""
        sent_at = packages.probe_sent_at(ack_id)
        if sent_at is None:
            return
        try:
            connection.close_if_unusable_or_obsolete()
            self._context.probe_returned()
            with self._context.turns.take_for_claim_loop():
                engine.probe_returned(self._context.cluster_id, sent_at)
        except Error:
            connections.close_all()


class Heartbeat:
    """The heartbeat of one cluster: what the database knows about it, and what it learns about the others."""

    def __init__(self, context: ClusterContext, watches: ClaimWatches) -> None:
        self.claimed = 0
        """How many executions were claimed since the last heartbeat."""
        self.clusters = 1
        """How many clusters shared the work at the last heartbeat."""
        self._context = context
        self._watches = watches
        self._recorded: list[Interruption] = []
        self._blocked_since: datetime | None = None

    def write(self, now: datetime, *, is_claim_blocked: bool) -> None:
        """Write it, with what has changed since the last one, and count the clusters that are alive."""
        interruptions = self._watches.interruptions()
        is_new = interruptions != self._recorded
        with self._context.turns.take_for_claim_loop():
            engine.beat(
                self._context.cluster_id,
                now,
                claimed=self.claimed,
                blocked_since=self._find_blocked_since(now, is_claim_blocked=is_claim_blocked),
                interruptions=interruptions if is_new else None,
            )
        self.claimed, self._recorded = 0, interruptions
        self.clusters = max(1, Cluster.objects.fresh(now).count())

    def _find_blocked_since(self, now: datetime, *, is_claim_blocked: bool) -> datetime | None:
        """Return since when locks have kept runs from being claimed, started or settled, or None."""
        if not (self._context.is_blocked or is_claim_blocked):
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        return self._blocked_since


class SweepGate:
    """Decides whether expired leases can be trusted: not after a clock jump, or a time when nobody could renew them."""

    def __init__(self, clock: Clock, opens_at: float) -> None:
        self._clock = clock
        self._opens_at = opens_at
        # Both of the last call, on the monotonic clock; the offset is that of the wall clock from it.
        self._asked_at = 0.0
        self._offset: float | None = None

    def may_sweep(self, now: datetime) -> bool:
        tick, lease = self._clock.monotonic(), settings.CRONTY_LEASE_SECONDS
        offset = now.timestamp() - tick
        has_jumped = self._offset is not None and abs(offset - self._offset) > lease / 3
        was_away = self._asked_at > 0 and tick - self._asked_at > max(2 * upkeep_every(), lease * 2 / 3)
        if has_jumped or was_away:
            self._opens_at = max(self._opens_at, tick + lease)
        self._offset, self._asked_at = offset, tick
        return tick >= self._opens_at


def upkeep_every() -> float:
    return min(UPKEEP_EVERY, settings.CRONTY_LEASE_SECONDS / 3)
