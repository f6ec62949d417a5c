"""Ledger rows of slots, and gap rows that stand for several slots that did not run."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from django.db.models import F, Q

from schedules.engine.sql.claims import DueJob
from schedules.models import Execution, Job
from schedules.when.durations import TICK
from schedules.when.triggers import TriggerError

# Slots of a cron expression are counted one by one, so the count needs a limit; those of an interval are computed.
COUNTED_SLOTS = 10_000
MAX_SLOTS = 2**31 - 2
# The prefix of the reason of a slot within a pause; the rest is the text of whoever paused the job.
PAUSED = "Paused: "

# Planning takes the row of a claim, or a job that a person or an agent changes.
PlannedJob: TypeAlias = Job | DueJob
# The first slot of a row, and the last one if it is a gap.
Span: TypeAlias = tuple[datetime, datetime | None]

Status = Execution.Status
Cause = Execution.Cause


@dataclass(frozen=True, slots=True)
class Slot:
    """A ledger row to write: one slot, or a gap of several."""

    at: datetime
    status: Execution.Status
    cause: Execution.Cause = Cause.SCHEDULE
    reason: str = ""
    last: datetime | None = None
    count: int = 1
    error: str = ""
    until: datetime | None = None
    """When the wait for the ping of a heartbeat ends, or when quiet hours end."""

    def row_of(self, job: PlannedJob, now: datetime) -> Execution:
        return Execution.of(
            job,
            self.at,
            cause=self.cause,
            status=self.status,
            reason=self.reason,
            last_slot=self.last,
            slots=self.count,
            error=self.error,
            available_at=self.until,
            finished_at=now if self.status in Execution.FINAL else None,
        )


def gap_from(job: PlannedJob, first: datetime, last: datetime, status: Execution.Status, reason: str) -> Slot:
    """Build one row for all slots from the first to the last."""
    if first == last:
        return Slot(first, status, reason=reason)
    limit = COUNTED_SLOTS if job.trigger_type == Job.TriggerType.CRON else MAX_SLOTS
    count = 1 + job.trigger.count_between(first, last, limit)
    return Slot(first, status, reason=reason, last=last, count=count)


def gap_between(
    job: PlannedJob, since: datetime, until: datetime, status: Execution.Status, reason: str
) -> Slot | None:
    """Build one row for the slots in [since, until], or return None if there are none."""
    newest = job.trigger.latest_at_or_before(until, since)
    if newest is None:
        # A slot that was stored as `next_run_at` counts even if the trigger does not include it.
        is_stored = since == job.next_run_at and since <= until
        return Slot(since, status, reason=reason) if is_stored else None
    oldest = job.trigger.next_after(since - TICK)
    return gap_from(job, oldest or newest, newest, status, reason)


def unrecorded(job: PlannedJob, slot: Slot, recorded: Collection[Span]) -> list[Slot]:
    """Return the parts of a slot or gap that have no row yet; `recorded` are the spans of existing rows."""
    if not recorded:
        return [slot]
    spans = sorted((first, last or first) for first, last in recorded)
    if slot.last is None:
        return [] if any(first <= slot.at <= last for first, last in spans) else [slot]
    pieces, since = [], slot.at
    for first, last in spans:
        pieces.append(gap_between(job, since, min(first - TICK, slot.last), slot.status, slot.reason))
        since = max(since, last + TICK)
    pieces.append(gap_between(job, since, slot.last, slot.status, slot.reason))
    return [piece for piece in pieces if piece]


def account_for(job: Job, since: datetime | None, now: datetime, reason: str) -> None:
    """Write one skipped row for the slots in [since, now], which will not run because the job was changed."""
    if since is None or not (slot := _gap_until(now, job, since, reason)):
        return
    pieces = unrecorded(job, slot, _recorded_spans(job, since, slot.last or slot.at))
    Execution.objects.bulk_create([piece.row_of(job, now) for piece in pieces], ignore_conflicts=True)


def account_for_pause(job: Job, now: datetime) -> None:
    """Write one skipped row for the slots since a job was paused; those until then are already accounted for."""
    if job.paused_at:
        account_for(job, job.paused_at + TICK, now, reason_of_pause(job))


def account_for_pauses(jobs: Iterable[Job], now: datetime) -> None:
    """Do the same for several paused jobs at once, before their resumed state is written."""
    account_for_each(jobs, "paused_at", now, reason_of_pause)


def reason_of_pause(job: Job) -> str:
    """Return the reason of a slot within a pause."""
    return f"{PAUSED}{job.pause_reason or 'no reason given'}"


def account_for_each(jobs: Iterable[Job], column: str, now: datetime, reason: Callable[[Job], str]) -> None:
    """Account for the slots of several jobs at once, each since the moment that this column still has."""
    gaps = []
    for job in jobs:
        since: datetime | None = getattr(job, column)
        if since and column == "paused_at":
            since += TICK
        if since and (slot := _gap_until(now, job, since, reason(job))):
            gaps.append((job, slot))
    if not gaps:
        return
    is_since_then = Q(scheduled_for__gte=F(f"job__{column}")) | Q(last_slot__gte=F(f"job__{column}"))
    rows = Execution.objects.filter(is_since_then, job__in=[job for job, _ in gaps], scheduled_for__lte=now)
    recorded = defaultdict(list)
    for job_id, first, last in rows.exclude(cause__in=Execution.UNPLANNED).values_list(
        "job_id", "scheduled_for", "last_slot"
    ):
        recorded[job_id].append((first, last))
    pieces = [
        piece.row_of(job, now) for job, slot in gaps for piece in unrecorded(job, slot, recorded[job.pk])
    ]
    Execution.objects.bulk_create(pieces, ignore_conflicts=True)


def _gap_until(now: datetime, job: Job, since: datetime, reason: str) -> Slot | None:
    if since > now:
        return None
    try:
        return gap_between(job, since, min(now, job.ends_at) if job.ends_at else now, Status.SKIPPED, reason)
    except TriggerError:
        return None


def _recorded_spans(job: Job, since: datetime, until: datetime) -> list[Span]:
    """Return the spans of existing rows within [since, until]."""
    rows = Execution.objects.filter(
        Q(scheduled_for__gte=since) | Q(last_slot__gte=since), job=job, scheduled_for__lte=until
    ).exclude(cause__in=Execution.UNPLANNED)
    return list(rows.values_list("scheduled_for", "last_slot"))
