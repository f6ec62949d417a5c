"""Standings: how a job stands, from broken to done, by one rule for pages, admin and tools."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, F, IntegerField, Q, Value, When

from schedules.models.executions import Execution
from schedules.models.job_queries import LATE_AFTER, has_unfinished
from schedules.models.jobs import Job, JobQuerySet

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
    """Match the jobs that were paused automatically: they kept failing, or their schedule cannot be read."""
    return Q(
        Q(pause_after_failures__gt=0, failure_streak__gte=F("pause_after_failures"))
        | Q(has_unreadable_schedule=True),
        status=Job.Status.PAUSED,
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
    armed = Q(status__in=_ARMED)
    conditions = {
        "stopped_failing": is_stopped_failing(),
        "failed": Q(status=Job.Status.FAILED),
        "failing": Q(status=Job.Status.PENDING, failure_streak__gt=0),
        "retrying": is_retrying(),
        "late": Q(status=Job.Status.PENDING, next_run_at__lt=now - LATE_AFTER),
        # Not for a stopped job, even while its last run goes on.
        "running": is_running(),
        "waiting": is_waiting(),
        "healthy": armed & Q(last_run_at__isnull=False),
        "new": armed,
        "paused": Q(status=Job.Status.PAUSED),
        "completed": Q(status=Job.Status.COMPLETED),
        "cancelled": Q(status=Job.Status.CANCELLED),
    }
    cases = [When(conditions[name], then=Value(place)) for place, name in enumerate(ORDER)]
    return jobs.annotate(rank=Case(*cases, output_field=IntegerField()))


class Standing(NamedTuple):
    """How a job stands: a key of STANDINGS, and whether a run is under way."""

    name: str
    is_running: bool

    @property
    def rank(self) -> int:
        return ORDER.index(self.name)


def standings_of(jobs: Sequence[Any], now: datetime) -> dict[int, Standing]:
    """Return how jobs, or rows of their columns, stand, by their keys; for a few, this is faster than `with_rank`.

    The same rule for values already read; a test compares the two.
    """
    unfinished: dict[int, list[Any]] = defaultdict(list)
    # By `job__pk`: for `job`, every key would be converted one by one, as if it might be a model.
    for run in _unfinished_runs().filter(job__pk__in=[job.pk for job in jobs]):
        unfinished[run.job_id].append(run)
    return {job.pk: _standing_of(job, unfinished.get(job.pk, ()), now) for job in jobs}


@functools.cache
def _unfinished_runs() -> Any:
    """Return the query of which only the jobs differ: to build all of it takes longer than to run it."""
    runs = Execution.objects.live().order_by()
    # Distinct, because one job may have thousands of prompts that wait.
    return runs.values_list("job_id", "status", "attempt", "lease_until", named=True).distinct()


def _standing_of(job: Any, unfinished: Sequence[Any], now: datetime) -> Standing:
    has_retry = has_unclaimed = has_run_under_way = False
    for run in unfinished:
        if run.status == "queued":
            has_retry = has_retry or run.attempt > 0
        elif run.status == "waiting" and run.lease_until is None:
            has_unclaimed = True
        else:
            has_run_under_way = True
    has_run_under_way = has_run_under_way or has_retry
    if job.status == Job.Status.PAUSED and (
        0 < job.pause_after_failures <= job.failure_streak or job.has_unreadable_schedule
    ):
        name = "stopped_failing"
    elif job.status not in _ARMED:
        # Failed, paused, completed and cancelled jobs stand as their status says.
        name = job.status
    elif job.status == Job.Status.PENDING and job.failure_streak > 0:
        name = "failing"
    elif has_retry:
        name = "retrying"
    elif job.status == Job.Status.PENDING and job.next_run_at < now - LATE_AFTER:
        name = "late"
    elif has_run_under_way or (job.status == Job.Status.RUNNING and not has_unclaimed):
        name = "running"
    elif has_unclaimed:
        name = "waiting"
    else:
        name = "new" if job.last_run_at is None else "healthy"
    return Standing(name, has_run_under_way)


def named(jobs: Iterable[Any]) -> list[Any]:
    """Set the `standing` of each job that is annotated with `rank`."""
    rows = list(jobs)
    for job in rows:
        job.standing = ORDER[job.rank]
    return rows
