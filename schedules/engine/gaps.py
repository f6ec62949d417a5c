"""Slots that will not run because a job was changed: they still get their row."""

from datetime import datetime

from django.db.models import F, Q
from django.db.models.functions import Greatest

from schedules.engine.outcomes import Outcome, remember
from schedules.engine.overlap import release_next
from schedules.engine.plan import Slot, gap_slot, remaining
from schedules.models import Execution, Job
from schedules.when.triggers import TriggerError

Status = Execution.Status


def account_for(job: Job, since: datetime | None, now: datetime, reason: str) -> None:
    """Write one skipped row for the slots in [since, now] that a change took away."""
    if since is None or since > now:
        return
    until = min(now, job.ends_at) if job.ends_at else now
    try:
        slot = gap_slot(job, since, until, Status.SKIPPED, reason)
    except TriggerError:
        return
    if slot:
        pieces = remaining(job, slot, _known(job, since, until))
        Execution.objects.bulk_create([row_of(job, piece, now) for piece in pieces], ignore_conflicts=True)


def _known(job: Job, since: datetime, until: datetime) -> list[tuple[datetime, datetime | None]]:
    """The rows that account for slots in [since, until] already."""
    rows = Execution.objects.filter(
        Q(scheduled_for__gte=since) | Q(last_slot__gte=since), job=job, scheduled_for__lte=until
    ).exclude(cause=Execution.Cause.MANUAL)
    return list(rows.values_list("scheduled_for", "last_slot"))


def take_back_ahead(job: Job, now: datetime) -> None:
    """Take back what the ledger says of slots still to come: a clock that was ahead wrote them off.

    Only of those that did not run: what ran stays, and its slot is not run again.
    """
    _take_back_queued(job, now)
    unrun = Execution.objects.filter(job=job, status__in=[Status.MISSED, Status.SKIPPED])
    unrun.filter(scheduled_for__gt=now).delete()
    for row in unrun.filter(last_slot__gt=now).only("pk", "scheduled_for", "status"):
        kept = _cut(job, row, now)
        unrun.filter(pk=row.pk).update(last_slot=kept and kept.last, slots=kept.count if kept else 1)


def _take_back_queued(job: Job, now: datetime) -> None:
    """Take runs out of the line that would wait in it for their moment, and hold up all that is due before."""
    queued = (
        Execution.objects.live()
        .filter(job=job, status=Status.QUEUED, attempt=0, scheduled_for__gt=now)
        .exclude(cause=Execution.Cause.MANUAL)
    )
    taken = list(queued.select_for_update().values_list("pk", flat=True))
    if taken:
        Execution.objects.filter(pk__in=taken).delete()
        counts = {name: Greatest(F(name) - len(taken), 0) for name in ("slot_count", "run_count")}
        Job.objects.filter(pk=job.pk).update(**counts)
        release_next([job.pk])


def _cut(job: Job, row: Execution, now: datetime) -> Slot | None:
    """What is left of a gap until now; None where only its first slot is known for sure."""
    try:
        return gap_slot(job, row.scheduled_for, now, Status(row.status), "")
    except TriggerError:
        return None


def withdraw(job: Job, now: datetime, done: str, *, also_manual: bool = False) -> None:
    """Take back what has not begun from a job that was stopped; `done` says how.

    A run between attempts ends as failed. What runs, and a prompt that an agent holds, is left to finish.
    """
    rows = Execution.objects.live().filter(job=job)
    if not also_manual:
        rows = rows.exclude(cause=Execution.Cause.MANUAL)
    unstarted = rows.filter(status__in=[Status.QUEUED, Status.CLAIMED])
    ended = {"finished_at": now, "lease_until": None, "available_at": None}
    words = f"The job was {done} before "
    unstarted.filter(attempt=0).update(status=Status.CANCELLED, reason=f"{words}it could run.", **ended)
    rows.unheld(now).update(status=Status.CANCELLED, reason=f"{words}an agent took this prompt.", **ended)
    failed = [
        Outcome(pk, attempt, job.pk, Status.FAILED, now, error=error)
        for pk, attempt, error in unstarted.select_for_update().values_list("pk", "attempt", "error")
    ]
    if failed:
        Execution.objects.filter(pk__in=[outcome.execution_id for outcome in failed]).update(
            status=Status.FAILED, reason=f"{words}the next attempt.", **ended
        )
        remember(failed)
    release_next([job.pk])


def row_of(job: Job, slot: Slot, now: datetime) -> Execution:
    """The ledger row of a slot that is not claimed at once."""
    return Execution(
        job=job,
        owner_id=job.owner_id,
        job_name=job.name,
        task=job.task,
        scheduled_for=slot.at,
        cause=slot.cause,
        status=slot.status,
        reason=slot.reason,
        last_slot=slot.last,
        slots=slot.count,
        error=slot.error,
        finished_at=now if slot.status in Execution.FINAL else None,
    )
