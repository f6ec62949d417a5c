"""One heartbeat job, locked with the slots that wait for its pings: apply each ping to them."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from uuid import UUID

from schedules.engine.interruptions import ReasonMissed
from schedules.engine.plan import plan
from schedules.models import Execution, Heartbeat, Job, Ping
from schedules.models.jobs import why_skipped
from schedules.tasks.heartbeat import grace_of
from schedules.when import durations
from schedules.when.durations import TICK
from schedules.when.triggers import TriggerError, load_zone

Status = Execution.Status
Cause = Execution.Cause

# A start and an end further apart than this belong to different runs.
MAX_RUN_TIME = timedelta(hours=72)
# How early a ping may come for its slot, because its sender's clock is fast; at most a tenth of the time between slots.
MAX_EARLY = timedelta(seconds=60)
EARLY_PART = 10
# A client that got no answer repeats its ping, with the same run id.
REPEATED_WITHIN = timedelta(seconds=30)
_OUTSIDE = "This ping came outside the schedule."


class Signal(NamedTuple):
    """The content of one ping, and its job."""

    job_id: int
    kind: Ping.Kind
    rid: UUID | None = None
    exit_status: int | None = None
    body: str = ""
    sender: str = ""
    late_by: float = 0.0
    """How many seconds its sender held it back."""


class HeartbeatState:
    """The state of one job while a batch of pings is applied to it."""

    def __init__(
        self,
        job: Job,
        heartbeat: Heartbeat,
        live: list[Execution],
        now: datetime,
        earlier: Collection[tuple[str, UUID]] = (),
    ) -> None:
        """`earlier` are the kinds and run ids of the pings that late ones of this batch may repeat."""
        self.job, self.heartbeat, self.now = job, heartbeat, now
        self._earlier = set(earlier)
        self.grace = grace_of(job.args, job.kwargs)
        self.new: list[Execution] = []
        self.changed: dict[int, Execution] = {}
        self.ended: list[Execution] = []
        self.pings: list[tuple[Ping, Execution | None]] = []
        self.texts: list[tuple[Execution, str]] = []
        self.has_moved = False
        self._live = live
        self._is_open = False

    def receive(self, signal: Signal) -> None:
        """Apply one ping."""
        heartbeat, last = self.heartbeat, self.heartbeat.last_ping_at
        # Two pings of a batch must not get the same moment; but if a clock was set back, follow it.
        at = last + TICK if last and self.now <= last < self.now + MAX_EARLY else self.now
        row = self._apply(signal, at)
        if signal.rid:
            self._earlier.add((signal.kind, signal.rid))
        heartbeat.pings += 1
        heartbeat.last_ping_at, heartbeat.last_kind, heartbeat.last_rid = at, signal.kind, signal.rid
        if row and signal.body:
            self.texts.append((row, signal.body))
        ping = Ping(
            heartbeat=heartbeat,
            number=heartbeat.pings,
            at=at,
            kind=signal.kind,
            rid=signal.rid,
            exit_status=signal.exit_status,
            late_by=timedelta(seconds=signal.late_by) if signal.late_by else None,
            sender=signal.sender,
            body="" if row else signal.body,
        )
        self.pings.append((ping, row))

    def _apply(self, signal: Signal, at: datetime) -> Execution | None:
        """Apply a ping to its run, if any, and return that; a late one is about what ran or waited when it was sent."""
        self._open_due_slots()
        sent = at - timedelta(seconds=signal.late_by)
        is_repeated = self._is_repeated(signal, at)
        match signal.kind:
            case Ping.Kind.LOG:
                return self._running(sent) or self._awaited(sent)
            case _ if is_repeated and (signal.late_by or not self._live):
                return None
            case Ping.Kind.START:
                return self._start(signal, at, sent)
            case _:
                return self._end(signal, at, sent)

    def _is_repeated(self, signal: Signal, at: datetime) -> bool:
        if signal.late_by:
            # Its sender may have kept it because our answer was lost.
            return (signal.kind, signal.rid) in self._earlier
        heartbeat, last = self.heartbeat, self.heartbeat.last_ping_at
        last_ping = (heartbeat.last_kind, heartbeat.last_rid)
        is_same = signal.rid is not None and last_ping == (signal.kind, signal.rid)
        return is_same and last is not None and at - last <= REPEATED_WITHIN

    def _running(self, sent: datetime) -> Execution | None:
        """Return the run under way, if it had started when a ping was sent."""
        running = next((row for row in self._live if row.status == Status.RUNNING), None)
        return running if running and (running.started_at or sent) <= sent else None

    def _awaited(self, at: datetime) -> Execution | None:
        """Return the newest slot that waits for a ping."""
        waiting = [row for row in self._live if row.status == Status.QUEUED and row.scheduled_for <= at]
        return waiting[-1] if waiting else None

    def _open_due_slots(self) -> None:
        """Write the rows of slots that no cluster has claimed yet, so that a ping finds them."""
        job = self.job
        if self._is_open or job.status != Job.Status.PENDING or not job.next_run_at:
            return
        self._is_open = True
        if job.next_run_at > self.now:
            return
        rows = Execution.objects.filter(job=job, scheduled_for__gte=job.next_run_at)
        recorded = list(rows.exclude(cause=Cause.MANUAL).values_list("scheduled_for", "last_slot"))
        try:
            planned = plan(
                job,
                self.now,
                live=len(self._live),
                owner_is_active=True,
                why_missed=ReasonMissed(0, self.now),
                recorded=recorded,
                grace=self.grace,
            )
        except TriggerError:
            # The next claim pauses the job and says why.
            return
        new = [slot.row_of(job, self.now) for slot in planned.slots]
        self.new += new
        self._live += [row for row in new if row.status in Execution.LIVE]
        job.status = planned.status_after(is_busy=bool(self._live))
        self._move(planned.next_run_at, len(planned.to_run))

    def _start(self, signal: Signal, at: datetime, sent: datetime) -> Execution | None:
        running = self._running(sent)
        if signal.late_by and not running and any(row.status == Status.RUNNING for row in self._live):
            # A later run has started since then, and goes on.
            return None
        if signal.late_by and {(Ping.Kind.SUCCESS, signal.rid), (Ping.Kind.FAIL, signal.rid)} & self._earlier:
            # The ping for the end of this run arrived first.
            return None
        row = running or self._awaited(sent) or self._add(signal, sent)
        if row is None:
            return None
        if row.status != Status.RUNNING and row.cause == Cause.SCHEDULE:
            row.lateness = max(sent - row.scheduled_for, timedelta(0))
        # If several start pings come, time the run from the newest.
        row.status, row.attempt, row.started_at = Status.RUNNING, 1, sent
        row.available_at, row.lease_until = None, at + self.grace
        self.heartbeat.started_rid = signal.rid
        self._mark_changed(row)
        self._begin_interval(signal, sent)
        return row

    def _end(self, signal: Signal, at: datetime, sent: datetime) -> Execution | None:
        running, is_failure = self._running(sent), signal.kind == Ping.Kind.FAIL
        is_same_run = running is not None and signal.rid == self.heartbeat.started_rid
        # A failure, or an end without a run id, always ends the current run; another run's success does not.
        target = running if is_same_run or is_failure or signal.rid is None else None
        target = target or self._awaited(sent) or self._add(signal, sent)
        if target is None:
            return None
        started = target.started_at if target is running and is_same_run else None
        is_timed = started is not None and sent - started <= MAX_RUN_TIME
        target.attempt, target.finished_at = 1, sent
        target.started_at = started if is_timed else None
        target.available_at = target.lease_until = None
        target.status = Status.FAILED if is_failure else Status.SUCCEEDED
        if signal.exit_status is not None:
            target.result = {"exit_code": signal.exit_status}
        if is_failure:
            target.error = _failure_text(signal)
        if signal.late_by:
            target.reason = f"{target.reason} {self._late_text(signal, at)}".strip()
        self._close_others(target, sent)
        self._finish(target)
        last = self.heartbeat.last_success_at
        if not is_failure and (not signal.late_by or last is None or last < sent):
            self.heartbeat.last_success_at = sent
            self.heartbeat.last_duration = target.took
        self._begin_interval(signal, sent)
        return target

    def _close_others(self, target: Execution, at: datetime) -> None:
        """End the other waiting slots: the sender is alive, so none of them has failed."""
        for row in [row for row in self._live if row.status == Status.QUEUED and row is not target]:
            if row.scheduled_for > at:
                continue
            if row.scheduled_for < target.scheduled_for:
                came = clock_words(at, zone_of(self.job.timezone), row.scheduled_for)
                row.status = Status.MISSED
                row.reason = f"No ping of its own came; the next one came at {came}, within the grace time."
            else:
                row.status, row.reason = Status.SKIPPED, "The previous run was still running."
            row.finished_at, row.available_at = at, None
            self._finish(row)

    def _add(self, signal: Signal, sent: datetime) -> Execution | None:
        """Return a new run for a ping that no slot waits for; a paused or stopped job has none."""
        job = self.job
        if job.status in (Job.Status.PAUSED, Job.Status.CANCELLED):
            return None
        row = Execution.of(job, sent, cause=Cause.MANUAL, reason="" if signal.late_by else _OUTSIDE)
        if signal.late_by:
            # The slots up to its sending have been decided.
            pass
        elif job.status == Job.Status.PENDING and job.trigger_type == Job.TriggerType.INTERVAL:
            # On an interval, every ping is expected: the next one counts from it.
            row.cause, row.reason = Cause.SCHEDULE, ""
        elif (slot := self._slot_soon(sent)) and not why_skipped(job, slot):
            row.cause, row.scheduled_for, row.reason = Cause.SCHEDULE, slot, ""
            self._move(self._following(slot), 0)
        if row.cause == Cause.SCHEDULE:
            job.slot_count += 1
        job.run_count += 1
        self.has_moved = True
        self.new.append(row)
        return row

    def _slot_soon(self, at: datetime) -> datetime | None:
        """Return the next slot if this ping is only slightly early for it."""
        slot = self.job.next_run_at
        if self.job.status != Job.Status.PENDING or slot is None or slot - at > MAX_EARLY:
            return None
        try:
            following = self.job.trigger.next_after(slot)
        except TriggerError:
            return None
        between = following - slot if following else durations.HORIZON
        return slot if slot - at <= between / EARLY_PART else None

    def _following(self, slot: datetime) -> datetime | None:
        """Return the slot after this one, which counts as one of the job's runs."""
        job = self.job
        is_last = job.max_runs is not None and job.slot_count + 1 >= job.max_runs
        return None if is_last else job.next_slot(slot)

    def _begin_interval(self, signal: Signal, sent: datetime) -> None:
        """Start the next interval at this ping; a late ping changes no slot that has already been decided."""
        job = self.job
        if job.status != Job.Status.PENDING or job.trigger_type != Job.TriggerType.INTERVAL:
            return
        if signal.late_by and job.anchor_at and sent <= job.anchor_at:
            return
        before, job.anchor_at = job.anchor_at, sent
        following = job.next_slot(sent)
        if signal.late_by and following and following <= self.now:
            job.anchor_at = before
            return
        self._move(following, 0)

    def _move(self, following: datetime | None, runs: int) -> None:
        job = self.job
        job.next_run_at = following
        job.slot_count += runs
        job.run_count += runs
        if following is None and job.status == Job.Status.PENDING:
            job.status = Job.Status.RUNNING
        self.has_moved = True

    def _mark_changed(self, row: Execution) -> None:
        if row.pk:
            self.changed[row.pk] = row
        if row not in self._live:
            self._live.append(row)

    def _finish(self, row: Execution) -> None:
        self._mark_changed(row)
        # By identity, because rows that are not stored yet have no key to compare.
        self._live = [each for each in self._live if each is not row]
        self.ended.append(row)

    def _late_text(self, signal: Signal, at: datetime) -> str:
        sent = clock_words(at - timedelta(seconds=signal.late_by), zone_of(self.job.timezone), at)
        return (
            f"It was sent at {sent}, and arrived {durations.short(timedelta(seconds=signal.late_by))} late."
        )


def _failure_text(signal: Signal) -> str:
    reason = "The job reported a failure."
    if signal.exit_status:
        reason = f"The job ended with exit code {signal.exit_status}."
    last_lines = signal.body.strip()[-500:]
    return f"{reason}\n{last_lines}" if last_lines else reason


def clock_words(moment: datetime, zone: tzinfo, near: datetime) -> str:
    """Format a moment as a time of day, with the date if it is not that of the moment `near`."""
    local = moment.astimezone(zone)
    clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    return clock if local.date() == near.astimezone(zone).date() else f"{local:%Y-%m-%d} {clock}"


def zone_of(name: str) -> tzinfo:
    """Return the zone with this name, or UTC if there is none."""
    try:
        return load_zone(name)
    except TriggerError:
        return UTC
