"""Overlap policy for runs that another job or a trigger address started; `plan.py` applies it to slots."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db.models import Q

from schedules.engine.plan import HELD_RUNS
from schedules.models import Execution, Job
from schedules.models.executions import HELD_UNTIL

Status = Execution.Status
Cause = Execution.Cause


def _obeys_overlap(row: Execution, job: Job) -> bool:
    # Runs that quiet hours have held are ready at the same moment.
    is_new = row.attempt == 0 and row.claimed_at is None and not row.reason.startswith(HELD_UNTIL)
    return is_new and row.cause in (Cause.AFTER, Cause.TRIGGER) and job.overlap != Job.Overlap.ALLOW


def busy_jobs(rows: Sequence[Execution], jobs: Mapping[int, Job]) -> set[int]:
    """Return the jobs whose new runs would overlap with one under way; nearly always, this costs no query."""
    job_ids = [
        job.pk for row in rows if (job := jobs.get(row.job_id or 0)) is not None and _obeys_overlap(row, job)
    ]
    if not job_ids:
        return set()
    is_retried = Q(status=Status.QUEUED, attempt__gt=0)
    live = Execution.objects.live().filter(
        Q(status__in=(*Execution.HELD, Status.WAITING)) | is_retried, job__in=job_ids
    )
    return {job_id or 0 for job_id in live.exclude(cause=Cause.REMINDER).values_list("job_id", flat=True)}


def must_wait(row: Execution, job: Job, busy: set[int]) -> bool:
    """Return whether a run would overlap with another one; if not, its job is busy for the runs after it."""
    if not _obeys_overlap(row, job):
        return False
    if job.pk in busy:
        return True
    busy.add(job.pk)
    return False


def put_in_line(overlapping: Sequence[tuple[Execution, Job]], now: datetime) -> None:
    """Skip runs that would overlap with another one, or let them wait, as their jobs say."""
    for row, job in overlapping:
        rows = Execution.objects.filter(pk=row.pk)
        waiting = Execution.objects.live().filter(job=job, status=Status.QUEUED, available_at=None)
        if job.overlap == Job.Overlap.QUEUE and waiting.count() < HELD_RUNS:
            rows.update(available_at=None, reason="Waiting for the previous run.")
            continue
        reason = "The previous run was still running."
        if job.overlap == Job.Overlap.QUEUE:
            reason = f"{HELD_RUNS} runs were already waiting."
        rows.update(status=Status.SKIPPED, finished_at=now, available_at=None, reason=reason)
