"""Ledger rows of slots, and gap rows that stand for several slots that did not run."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from schedules.engine.due import PlannedJob
from schedules.models import Execution, Job
from schedules.when.triggers import TriggerError

# The slots of a cron expression are counted one by one, so the count needs a limit; those of an interval are computed.
COUNTED_SLOTS = 10_000
MOST_SLOTS = 2**31 - 2
TICK = timedelta(microseconds=1)

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
            finished_at=now if self.status in Execution.FINAL else None,
        )


def gap_from(job: PlannedJob, first: datetime, last: datetime, status: Execution.Status, reason: str) -> Slot:
    """Build one row for the slots from the first to the last."""
    if first == last:
        return Slot(first, status, reason=reason)
    limit = COUNTED_SLOTS if job.trigger_type == Job.TriggerType.CRON else MOST_SLOTS
    count = 1 + job.trigger.count_between(first, last, limit)
    return Slot(first, status, reason=reason, last=last, count=count)


def gap_between(
    job: PlannedJob, since: datetime, until: datetime, status: Execution.Status, reason: str
) -> Slot | None:
    """Build one row for the slots in [since, until], or return None if there are none."""
    newest = job.trigger.latest_at_or_before(until, since)
    if newest is None:
        return None
    oldest = job.trigger.next_after(since - TICK)
    return gap_from(job, oldest or newest, newest, status, reason)


def remaining(job: PlannedJob, slot: Slot, known: Collection[tuple[datetime, datetime | None]]) -> list[Slot]:
    """Remove slots that already have a row from a slot or a gap; `known` are the first and last slots of those rows."""
    if not known:
        return [slot]
    spans = sorted((first, last or first) for first, last in known)
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
    if since is None or since > now:
        return
    until = min(now, job.ends_at) if job.ends_at else now
    try:
        slot = gap_between(job, since, until, Status.SKIPPED, reason)
    except TriggerError:
        return
    if slot:
        pieces = remaining(job, slot, _known(job, since, until))
        Execution.objects.bulk_create([piece.row_of(job, now) for piece in pieces], ignore_conflicts=True)


def _known(job: Job, since: datetime, until: datetime) -> list[tuple[datetime, datetime | None]]:
    """Return the first and last slots of existing rows within [since, until]."""
    rows = Execution.objects.filter(
        Q(scheduled_for__gte=since) | Q(last_slot__gte=since), job=job, scheduled_for__lte=until
    ).exclude(cause=Cause.MANUAL)
    return list(rows.values_list("scheduled_for", "last_slot"))
