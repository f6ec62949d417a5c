"""Reactions to failing jobs: an incident when a job starts failing, a pause when it keeps failing."""

from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import F

from schedules.engine.incidents import Kind, News, end_all, of_jobs, raise_incidents
from schedules.engine.pauses import note, pause
from schedules.models import Job
from schedules.models.jobs import PAUSED_AFTER

_STOPPED = (Job.Status.PAUSED, Job.Status.CANCELLED)


def handle_failures(failures: Mapping[int, int], now: datetime) -> None:
    """Pause the jobs that reached their limit of failures in a row, and raise incidents.

    `failures` are the new failures of each job since its last success.
    """
    paused = _pause_failing(failures, now)
    jobs = Job.objects.kept().filter(pk__in=failures).order_by("pk")
    raise_incidents(
        [
            News.of_job(Kind.FAILING, job, job.last_error)
            for job in jobs
            if job.pk not in paused and _starts_failing(job, failures[job.pk])
        ],
        now,
    )


def pause_for_good(job_id: int, reason: str, now: datetime) -> None:
    """Pause a job until somebody resumes it, and alert its owner."""
    jobs = list(Job.objects.armed().filter(pk=job_id).select_for_update(of=("self",), no_key=True))
    for job in jobs:
        pause(job, now, reason)
        note(job, "pause", now, {"reason": reason})
    _raise_paused(jobs, now)


def raise_unreadable(job_ids: Collection[int], now: datetime) -> None:
    """Raise incidents for jobs that were paused because their schedule cannot be read."""
    _raise_paused(Job.objects.kept().filter(pk__in=job_ids).order_by("pk"), now)


def _raise_paused(jobs: Collection[Job], now: datetime) -> None:
    if jobs:
        # The incident of the pause replaces that of the failures.
        end_all(of_jobs(Kind.FAILING, [job.pk for job in jobs]), now)
        raise_incidents([News.of_job(Kind.PAUSED, job, _why_paused(job)) for job in jobs], now)


def _pause_failing(failures: Mapping[int, int], now: datetime) -> set[int]:
    reached = (
        Job.objects.armed()
        .filter(pk__in=failures, pause_after_failures__gt=0, failure_streak__gte=F("pause_after_failures"))
        .select_for_update(of=("self",), no_key=True)
    )
    failing = [job for job in reached if _reaches_limit(job, failures[job.pk])]
    for job in failing:
        streak = job.failure_streak
        reason = (
            f"{PAUSED_AFTER} {streak} failures in a row."
            if streak > 1
            else f"{PAUSED_AFTER} its first failure."
        )
        pause(job, now, reason)
        note(job, "pause", now, {"reason": reason, "error": job.last_error[:500]})
    _raise_paused(failing, now)
    return {job.pk for job in failing}


def _reaches_limit(job: Job, failures: int) -> bool:
    """Return whether these failures reached the limit, or a multiple of it: a resumed job may fail as often again."""
    limit = job.pause_after_failures
    return job.failure_streak // limit > (job.failure_streak - failures) // limit


def _starts_failing(job: Job, failures: int) -> bool:
    """Return whether these are a job's first failures since a success, and it was not stopped meanwhile."""
    return job.failure_streak <= failures and job.status not in _STOPPED


def _why_paused(job: Job) -> str:
    if job.has_unreadable_schedule:
        return f"{job.pause_reason.rstrip('.')}. Edit its schedule, then resume it."
    return f"{job.pause_reason}\n{job.last_error}".strip()
