"""Standings: how a job stands, from broken to done, by one rule for pages, admin and tools."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Case, F, IntegerField, Q, Value, When

from schedules.models.jobs import LATE_AFTER, Job, JobQuerySet, has_unfinished

# Worst first, which is the order of lists. A job has the first of these standings that matches.
STANDINGS = {
    "stopped_failing": "Stopped: failing",
    "failed": "Failed",
    "failing": "Failing",
    "retrying": "Retrying",
    "late": "Late",
    "running": "Running",
    "waiting": "Waiting",
    "healthy": "Healthy",
    "new": "New",
    "paused": "Paused",
    "completed": "Done",
    "cancelled": "Stopped",
}
ORDER = tuple(STANDINGS)
BROKEN = ("stopped_failing", "failed", "failing")
_ARMED = (Job.Status.PENDING, Job.Status.RUNNING)


def is_stopped_failing() -> Q:
    """Match the jobs that were paused automatically because they kept failing."""
    return Q(
        status=Job.Status.PAUSED,
        pause_after_failures__gt=0,
        failure_streak__gte=F("pause_after_failures"),
    )


def is_retrying() -> Q:
    """Match the jobs with a run that failed and waits for its next attempt."""
    return Q(status__in=_ARMED) & has_unfinished("retrying")


def is_running() -> Q:
    """Match the jobs with a run under way, or whose last run has not ended, unless it waits for an agent."""
    last_run = Q(status=Job.Status.RUNNING) & ~has_unfinished("unclaimed")
    return Q(status__in=_ARMED) & has_unfinished("under_way") | last_run


def is_waiting() -> Q:
    """Match the jobs with a prompt that no agent has claimed."""
    return Q(status__in=_ARMED) & has_unfinished("unclaimed")


def with_rank(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    """Annotate `rank`: the place of a job's standing in ORDER."""
    Status = Job.Status  # noqa: N806
    armed = Q(status__in=_ARMED)
    conditions = {
        "stopped_failing": is_stopped_failing(),
        "failed": Q(status=Status.FAILED),
        "failing": Q(status=Status.PENDING, failure_streak__gt=0),
        "retrying": is_retrying(),
        "late": Q(status=Status.PENDING, next_run_at__lt=now - LATE_AFTER),
        # Not for a stopped job, even while its last run goes on.
        "running": is_running(),
        "waiting": is_waiting(),
        "healthy": armed & Q(last_run_at__isnull=False),
        "new": armed,
        "paused": Q(status=Status.PAUSED),
        "completed": Q(status=Status.COMPLETED),
        "cancelled": Q(status=Status.CANCELLED),
    }
    cases = [When(conditions[name], then=Value(place)) for place, name in enumerate(ORDER)]
    return jobs.annotate(rank=Case(*cases, output_field=IntegerField()))


def named(jobs: Iterable[Any]) -> list[Any]:
    """Set the `standing` of each job that is annotated with `rank`."""
    rows = list(jobs)
    for job in rows:
        job.standing = ORDER[job.rank]
    return rows
