"""Standings: the states of jobs on the pages, for rows, filters, counts and order."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from django.db.models import Case, IntegerField, Q, Value, When

from schedules.models import LATE_AFTER, Execution, Job
from schedules.models.counting import count_up_to
from schedules.models.executions import ExecutionQuerySet
from schedules.models.jobs import JobQuerySet, is_running
from schedules.models.keysets import Segment

# Runs whose status changes within seconds; a run that waits for an agent may wait for hours.
MOVING = (Execution.Status.QUEUED, *Execution.HELD)
# Worst first, which is the order of the list and of the chips. A job has the first of these standings that matches.
STANDINGS = (
    "late",
    "failing",
    "running",
    "healthy",
    "new",
    "paused",
    "failed",
    "completed",
    "cancelled",
)
# The states of jobs without a next run; the last run of a running one is under way.
STOPPED = ("running", "paused", "failed", "completed", "cancelled")
# The most jobs that a chip of a long list counts.
MOST_COUNTED = 1_000
BY_NEXT_RUN = ("next_run_at", "-pk")


def with_rank(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    """Annotate `rank`: the position of a job's standing in STANDINGS."""
    Status = Job.Status  # noqa: N806
    armed = Q(status__in=[Status.PENDING, Status.RUNNING])
    conditions = {
        "late": Q(status=Status.PENDING, next_run_at__lt=now - LATE_AFTER),
        "failing": Q(status=Status.PENDING, failure_streak__gt=0),
        # Not for a stopped job, even while its last run goes on.
        "running": is_running(),
        "healthy": armed & Q(last_run_at__isnull=False),
        "new": armed,
        "paused": Q(status=Status.PAUSED),
        "failed": Q(status=Status.FAILED),
        "completed": Q(status=Status.COMPLETED),
        "cancelled": Q(status=Status.CANCELLED),
    }
    cases = [When(conditions[name], then=Value(place)) for place, name in enumerate(STANDINGS)]
    return jobs.annotate(rank=Case(*cases, output_field=IntegerField()))


def count_by_standing(ranked: JobQuerySet) -> dict[str, int]:
    """Count jobs by standing, for lists that are not long."""
    # Not in the database: without the order of an index, SQLite may look through the jobs of everybody.
    counts = Counter(ranked.order_by(*BY_NEXT_RUN).values_list("rank", flat=True))  # type: ignore[misc]
    return {name: counts[place] for place, name in enumerate(STANDINGS)}


def standing_as(ranked: JobQuerySet, name: str) -> JobQuerySet:
    return ranked.filter(rank=STANDINGS.index(name))  # type: ignore[misc]


def segments_of(
    jobs: JobQuerySet, now: datetime, name: str, runs: ExecutionQuerySet | None = None
) -> list[Segment]:
    """Return the jobs of one standing, the next to run first; for a long list, also pass the runs of its jobs."""
    late, failing, calm = _planned(jobs, now)
    match name:
        case "late":
            return [Segment(late, BY_NEXT_RUN)]
        case "failing":
            return [Segment(failing, BY_NEXT_RUN)]
        case "running":
            return [Segment(_under_way(calm, runs), BY_NEXT_RUN), _stopped(jobs, name)]
        case "healthy" | "new":
            quiet = calm.filter(~is_running(), last_run_at__isnull=name == "new")
            return [Segment(quiet, BY_NEXT_RUN, walked=calm)]
    return [_stopped(jobs, name)]


def worst_first(jobs: JobQuerySet, now: datetime) -> list[Segment]:
    """Return all jobs, worst first, without separating those that run as planned by their standing."""
    planned = [Segment(rows, BY_NEXT_RUN) for rows in _planned(jobs, now)]
    return [*planned, *_all_stopped(jobs)]


def next_first(jobs: JobQuerySet, *, is_reversed: bool = False) -> list[Segment]:
    """Return all jobs by their next run; those without one come last."""
    planned = jobs.filter(status=Job.Status.PENDING, next_run_at__isnull=False)
    order = ("-next_run_at", "-pk") if is_reversed else BY_NEXT_RUN
    return [Segment(planned, order), *_all_stopped(jobs)]


def sorted_by(jobs: JobQuerySet, sort: str) -> list[Segment] | None:
    """Return all jobs in an order that no index has, for short lists; None if there is no such order."""
    column = sort.removeprefix("-")
    if column == "name":
        return [Segment(jobs, (sort, "-pk"))]
    if column != "last":
        return None
    ran = Segment(jobs.filter(last_run_at__isnull=False), (sort.replace("last", "last_run_at"), "-pk"))
    never = Segment(jobs.filter(last_run_at=None))
    return [ran, never] if sort.startswith("-") else [never, ran]


def count_by_index(jobs: JobQuerySet, runs: ExecutionQuerySet, now: datetime) -> dict[str, int | None]:
    """Count the jobs of each standing up to a limit; None for a standing that no index finds."""
    return {
        name: None
        if name in ("healthy", "new")
        else sum(_count(segment) for segment in segments_of(jobs, now, name, runs))
        for name in STANDINGS
    }


def _planned(jobs: JobQuerySet, now: datetime) -> tuple[JobQuerySet, JobQuerySet, JobQuerySet]:
    """Return the pending jobs in three parts: late, failing, and the others."""
    pending, late = jobs.filter(status=Job.Status.PENDING), now - LATE_AFTER
    on_time = pending.filter(next_run_at__gte=late)
    return (
        pending.filter(next_run_at__lt=late),
        on_time.filter(failure_streak__gt=0),
        on_time.filter(failure_streak=0),
    )


def _under_way(calm: JobQuerySet, runs: ExecutionQuerySet | None) -> JobQuerySet:
    if runs is None:
        return calm.filter(is_running())
    # Keys instead of a subquery, for which SQLite would look through all jobs.
    keys = runs.under_way().filter(job__isnull=False).order_by().values_list("job", flat=True)
    return calm.filter(pk__in=list(keys[: MOST_COUNTED + 1]))


def _all_stopped(jobs: JobQuerySet) -> list[Segment]:
    return [_stopped(jobs, name) for name in STOPPED]


def _stopped(jobs: JobQuerySet, status: str) -> Segment:
    return Segment(jobs.stopped(status))


def _count(segment: Segment) -> int:
    return count_up_to(segment.rows.order_by(*segment.order), MOST_COUNTED)


def named(jobs: Iterable[Job]) -> list[Job]:
    """Set the `standing` of each job that is annotated with `rank`."""
    rows = list(jobs)
    for job in rows:
        job.standing = STANDINGS[job.rank]  # type: ignore[attr-defined]
    return rows
