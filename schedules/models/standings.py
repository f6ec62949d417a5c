"""Standings: how a job is doing, from broken to done, by one rule for pages, admin and tools."""

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, F, IntegerField, Q, Value, When

from schedules.models.executions import Execution, is_for_somebody
from schedules.models.job_queries import LATE_AFTER, has_unfinished
from schedules.models.jobs import Job, JobQuerySet

# Worst first, as in lists. A job has the first of these standings that matches.
STANDINGS = {
    "stopped_failing": "Auto-paused",
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
# The filter that matches all of `BROKEN`.
ATTENTION = "attention"
_ARMED = (Job.Status.PENDING, Job.Status.RUNNING)


class _Facts(NamedTuple):
    """The facts behind a standing: conditions of a query, or booleans for one job."""

    has_status: Callable[..., Any]
    gave_up: Any
    """It kept failing, or its schedule cannot be read."""
    has_failed: Any
    is_overdue: Any
    has_run: Any
    has_retry: Any
    """A run failed and waits for its next attempt."""
    has_run_under_way: Any
    waits_for_somebody: Any
    """A prompt waits for an agent to claim it, or a run asks a person."""
    waits_for_nobody: Any


def _conditions(job: _Facts) -> dict[str, Any]:
    """Return the condition of each standing; the first true one wins."""
    armed = job.has_status(*_ARMED)
    pending, in_last_run = job.has_status(Job.Status.PENDING), job.has_status(Job.Status.RUNNING)
    return {
        "stopped_failing": job.has_status(Job.Status.PAUSED) & job.gave_up,
        "failed": job.has_status(Job.Status.FAILED),
        "failing": pending & job.has_failed,
        "retrying": armed & job.has_retry,
        "late": pending & job.is_overdue,
        # Neither a stopped job, even while its last run goes on, nor a last run that waits for somebody.
        "running": armed & job.has_run_under_way | in_last_run & job.waits_for_nobody,
        "waiting": armed & job.waits_for_somebody,
        "healthy": armed & job.has_run,
        "new": armed,
        "paused": job.has_status(Job.Status.PAUSED),
        "completed": job.has_status(Job.Status.COMPLETED),
        "cancelled": job.has_status(Job.Status.CANCELLED),
    }


def is_stopped_failing() -> Q:
    """Match the jobs that were paused automatically: they kept failing, or their schedule cannot be read."""
    return Q(_gave_up(), status=Job.Status.PAUSED)


def is_failing() -> Q:
    return Q(status=Job.Status.PENDING, failure_streak__gt=0)


def is_late(now: datetime) -> Q:
    """Match pending jobs that are overdue, including failing ones."""
    return Q(status=Job.Status.PENDING, next_run_at__lt=now - LATE_AFTER)


def _gave_up() -> Q:
    return Q(pause_after_failures__gt=0, failure_streak__gte=F("pause_after_failures")) | Q(
        has_unreadable_schedule=True
    )


def with_rank(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    """Annotate `rank`: the position of a job's standing in ORDER."""
    waiting = has_unfinished("waiting_for_somebody")
    facts = _Facts(
        has_status=lambda *statuses: Q(status__in=statuses),
        gave_up=_gave_up(),
        has_failed=Q(failure_streak__gt=0),
        is_overdue=Q(next_run_at__lt=now - LATE_AFTER),
        has_run=Q(last_run_at__isnull=False),
        has_retry=has_unfinished("retrying"),
        has_run_under_way=has_unfinished("under_way"),
        waits_for_somebody=waiting,
        waits_for_nobody=~waiting,
    )
    cases = [When(condition, then=Value(ORDER.index(name))) for name, condition in _conditions(facts).items()]
    return jobs.annotate(rank=Case(*cases, output_field=IntegerField()))


class Standing(NamedTuple):
    """How a job is doing: a key of STANDINGS, and whether a run is under way."""

    name: str
    is_running: bool

    @property
    def rank(self) -> int:
        return ORDER.index(self.name)


def standings_of(jobs: Sequence[Any], now: datetime) -> dict[int, Standing]:
    """Return the standings of jobs, or of rows with their columns, by key; for a few, faster than `with_rank`."""
    unfinished: dict[int, list[Any]] = defaultdict(list)
    # Not `job__in`, for which Django would convert the keys one by one, in case they are models.
    for run in _unfinished_runs().filter(job__pk__in=[job.pk for job in jobs]):
        unfinished[run.job_id].append(run)
    return {job.pk: _standing_of(job, unfinished.get(job.pk, ()), now) for job in jobs}


@functools.cache
def _unfinished_runs() -> Any:
    """Return a cached query, to which callers add the jobs; building it takes longer than running it."""
    runs = Execution.objects.live().order_by()
    # Distinct, because one job may have thousands of waiting prompts.
    return runs.values_list("job_id", "status", "attempt", "reason", "lease_until", named=True).distinct()


def _standing_of(job: Any, unfinished: Sequence[Any], now: datetime) -> Standing:
    has_retry = waits_for_somebody = has_run_under_way = False
    for run in unfinished:
        if is_for_somebody(run):
            waits_for_somebody = True
        elif run.status == "queued":
            has_retry = has_retry or run.attempt > 0
        else:
            has_run_under_way = True
    has_run_under_way = has_run_under_way or has_retry
    facts = _Facts(
        has_status=lambda *statuses: job.status in statuses,
        gave_up=0 < job.pause_after_failures <= job.failure_streak or job.has_unreadable_schedule,
        has_failed=job.failure_streak > 0,
        is_overdue=job.next_run_at is not None and job.next_run_at < now - LATE_AFTER,
        has_run=job.last_run_at is not None,
        has_retry=has_retry,
        has_run_under_way=has_run_under_way,
        waits_for_somebody=waits_for_somebody,
        waits_for_nobody=not waits_for_somebody,
    )
    name = next(name for name, is_true in _conditions(facts).items() if is_true)
    return Standing(name, has_run_under_way)
