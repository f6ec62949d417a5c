"""Standings: the states of jobs on the pages, for rows, filters, counts and order."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, F, IntegerField, Q, Value, When

from schedules.models import LATE_AFTER, Execution, Job
from schedules.models.jobs import JobQuerySet, is_running

# Runs whose status changes within seconds; a run that waits for an agent may wait for hours.
MOVING = (Execution.Status.QUEUED, *Execution.HELD)
# With more jobs than this, the list is read one standing at a time, in the order of an index.
LARGE = 5_000
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
SORTS: dict[str, list[Any]] = {
    "": ["rank", F("next_run_at").asc(nulls_last=True), "-pk"],
    "name": ["name", "-pk"],
    "-name": ["-name", "-pk"],
    "next": [F("next_run_at").asc(nulls_last=True), "-pk"],
    "-next": [F("next_run_at").desc(nulls_last=True), "-pk"],
    "last": [F("last_run_at").asc(nulls_first=True), "-pk"],
    "-last": [F("last_run_at").desc(nulls_last=True), "-pk"],
}


def with_rank(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    """Annotate `rank`: the position of a job's standing in STANDINGS."""
    Status = Job.Status  # noqa: N806
    armed = Q(status__in=[Status.PENDING, Status.RUNNING])
    conditions = {
        "late": Q(status=Status.PENDING, next_run_at__lt=now - LATE_AFTER),
        "failing": armed & Q(failure_streak__gt=0),
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
    """Count jobs by standing, in one query."""
    rows = ranked.order_by().values_list("rank").annotate(count=Count("pk"))  # type: ignore[misc]
    counts = dict(rows)
    return {name: counts.get(place, 0) for place, name in enumerate(STANDINGS)}


def standing_as(ranked: JobQuerySet, name: str) -> JobQuerySet:
    return ranked.filter(rank=STANDINGS.index(name))  # type: ignore[misc]


class WorstFirst:
    """All jobs, worst first; a page can be sliced without sorting the rest."""

    def __init__(self, ranked: JobQuerySet, counts: dict[str, int]) -> None:
        self.ranked = ranked
        self.counts = counts

    def __getitem__(self, wanted: slice) -> list[Job]:
        if sum(self.counts.values()) <= LARGE:
            return list(self.ranked.order_by(*SORTS[""])[wanted])
        rows: list[Job] = []
        skip, size = wanted.start, wanted.stop - wanted.start
        for name, count in self.counts.items():
            if skip < count and len(rows) < size:
                ordered = standing_as(self.ranked, name).order_by(*SORTS["next"])
                rows += ordered[skip : skip + size - len(rows)]
            skip = max(0, skip - count)
        return rows


def named(jobs: Iterable[Job]) -> list[Job]:
    """Set the `standing` of each job that is annotated with `rank`."""
    rows = list(jobs)
    for job in rows:
        job.standing = STANDINGS[job.rank]  # type: ignore[attr-defined]
    return rows
