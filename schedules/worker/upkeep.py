"""The regular duties of the claim loop besides claiming, every few seconds.

It reads the database's clock, writes a heartbeat, renews the leases of claims, rescues the runs of dead clusters, and
sends a probe through the queue and a worker.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from django.conf import settings

from schedules import engine
from schedules.engine.interruptions import DATABASE, NO_CLUSTER, Interruption
from schedules.models import Cluster
from schedules.worker import packages
from schedules.worker.context import Clock, ClusterContext
from schedules.worker.q2 import Package

# How often claims are renewed, in seconds; more often if the lease is short.
UPKEEP_EVERY = 3.0
# How many interruptions a cluster remembers.
MAX_INTERRUPTIONS = 20
# How often to check for late runs and other incidents, in seconds.
WATCH_EVERY = 15.0


class Upkeep:
    """The upkeep of one cluster: when it is due, and its steps."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._clock = context.clock
        self.heartbeat = Heartbeat(context)
        self._sweeps = SweepGate(context.clock, context.sweep_at)
        # On the monotonic clock.
        self._due_at = 0.0
        self._watch_ping_at = 0.0
        self._has_noted_start = False
        self._watch_at = 0.0
        self.last_took = 0.0
        """How many seconds the last upkeep took."""

    def is_due(self, *, is_inconvenient: bool) -> bool:
        """Return whether upkeep is due; at an inconvenient moment, it is put off a little, but not repeatedly."""
        if self._clock.is_host_set():
            return True
        overdue = self._clock.monotonic() - self._due_at
        return overdue > (upkeep_every() / 2 if is_inconvenient else 0)

    def run(self, *, is_claim_blocked: bool) -> Package:
        """Do everything that is due, and return a probe to be sent."""
        # Plan the next upkeep first: if a step below fails, claims must go on until then.
        begin = self._clock.monotonic()
        self._due_at = begin + upkeep_every()
        self._clock.measure()
        now = self._clock.now()
        self._note_outage(now)
        self.heartbeat.write(now, is_claim_blocked=is_claim_blocked)
        self._context.pulse()
        for step in self._steps(begin, now):
            with self._context.turns.take_for_claim_loop():
                step()
            self._context.pulse()
        self.last_took = self._clock.monotonic() - begin
        return packages.new_probe(now)

    def _steps(self, begin: float, now: datetime) -> Iterator[Callable[[], object]]:
        """Yield what is due; each step is bounded, and the next one waits until workers have written."""
        cluster_id = self._context.cluster_id
        if not self._has_noted_start:
            yield lambda: engine.note_machine_start(cluster_id, now)
            self._has_noted_start = True
        yield lambda: engine.renew_claims(cluster_id, now, self._context.plain_line.execution_ids())
        # Even without a sweep: the clock may have been ahead for only a few seconds.
        yield lambda: engine.recover_from_clock_rollback(now)
        yield lambda: engine.send_reminders(now)
        if begin >= self._watch_at:
            self._watch_at = begin + WATCH_EVERY
            yield lambda: engine.close_approvals(now)
            yield lambda: engine.watch_incidents(now)
        yield lambda: engine.send_alerts(now)
        if self._sweeps.may_sweep(now):
            yield lambda: engine.sweep(now)

    def take_watch_ping(self, *, is_claim_blocked: bool) -> list[Package]:
        """Return a ping to the outside watch once a minute, after a successful claim."""
        tick = self._clock.monotonic()
        if not settings.CRONTY_HEARTBEAT_URL or tick < self._watch_ping_at:
            return []
        if is_claim_blocked or self._context.is_blocked:
            return []
        # The database makes sure that only one of several clusters pings in a minute.
        self._watch_ping_at = tick + seconds_until_next_minute(self._clock.now())
        return [packages.new_watch_ping()]

    def _note_outage(self, now: datetime) -> None:
        """Raise incidents for an outage; before the first claim after it, because afterwards nothing is due any more."""
        silent_since = self.heartbeat.written_at if self._has_noted_start else None
        if silent_since is None or now - silent_since >= engine.OUTAGE:
            engine.note_outage(self._context.cluster_id, silent_since, now)
            # What is due now is not late: the first claim has yet to start it.
            self._watch_at = self._clock.monotonic() + WATCH_EVERY


class Heartbeat:
    """The heartbeat of one cluster: what it reports to the database, and what it learns about the others."""

    def __init__(self, context: ClusterContext) -> None:
        self.claimed = 0
        """How many executions were claimed since the last heartbeat."""
        self.has_failed = False
        """Whether the database has refused a step of the claim loop since the last heartbeat."""
        self.clusters = 1
        """How many clusters shared the work at the last heartbeat."""
        self._context = context
        self.written_at = context.clock.now()
        self._interruptions: list[Interruption] = []
        self._blocked_since: datetime | None = None

    def write(self, now: datetime, *, is_claim_blocked: bool) -> None:
        """Write a heartbeat with the changes since the last one, and count the clusters that are alive."""
        interruptions = self.interruptions(now)
        is_new = interruptions != self._interruptions
        with self._context.turns.take_for_claim_loop():
            engine.beat(
                self._context.cluster_id,
                now,
                claimed=self.claimed,
                blocked_since=self._find_blocked_since(now, is_claim_blocked=is_claim_blocked),
                interruptions=interruptions if is_new else None,
            )
        self.claimed, self.has_failed = 0, False
        self.written_at, self._interruptions = now, interruptions
        self.clusters = max(1, Cluster.objects.fresh(now).count())

    def interruptions(self, now: datetime) -> list[Interruption]:
        """Return the recent periods in which this cluster could not claim, including the current one."""
        if self.has_failed:
            reason = DATABASE
        elif now - self.written_at > timedelta(seconds=2 * upkeep_every()):
            # The host was asleep, the process was stopped, or the clock was set forward.
            reason = NO_CLUSTER
        else:
            return self._interruptions
        if self._interruptions:
            *earlier, last = self._interruptions
            if last.reason == reason and last.until == self.written_at:
                return [*earlier, last._replace(until=now)]
        return [*self._interruptions, Interruption(self.written_at, now, reason)][-MAX_INTERRUPTIONS:]

    def _find_blocked_since(self, now: datetime, *, is_claim_blocked: bool) -> datetime | None:
        """Return when locks began to keep runs from being claimed, started or settled, or None."""
        if not (self._context.is_blocked or is_claim_blocked):
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        return self._blocked_since


class SweepGate:
    """Decides whether expired leases can be trusted: not after a clock jump, or while nobody could renew them."""

    def __init__(self, clock: Clock, opens_at: float) -> None:
        self._clock = clock
        self._opens_at = opens_at
        # From the last call: its time on the monotonic clock, and the offset of the wall clock from that.
        self._last_call_at = 0.0
        self._offset: float | None = None

    def may_sweep(self, now: datetime) -> bool:
        tick, lease = self._clock.monotonic(), settings.CRONTY_LEASE_SECONDS
        offset = now.timestamp() - tick
        has_jumped = self._offset is not None and abs(offset - self._offset) > lease / 3
        was_away = self._last_call_at > 0 and tick - self._last_call_at > max(
            2 * upkeep_every(), lease * 2 / 3
        )
        if has_jumped or was_away:
            self._opens_at = max(self._opens_at, tick + lease)
        self._offset, self._last_call_at = offset, tick
        return tick >= self._opens_at


def seconds_until_next_minute(now: datetime) -> float:
    return 60 - now.timestamp() % 60


def upkeep_every() -> float:
    return min(UPKEEP_EVERY, settings.CRONTY_LEASE_SECONDS / 3)
