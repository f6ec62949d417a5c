"""Standings on the pages: the list of jobs in parts that indexes find, counts, and what is shown beside a standing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from schedules.models import LATE_AFTER, Execution, Job, Profile, Token
from schedules.models.counting import CountUpTo, count_words
from schedules.models.executions import ExecutionQuerySet
from schedules.models.job_queries import has_unfinished
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import Segment
from schedules.models.standings import (
    BROKEN,
    ORDER,
    STANDINGS,
    is_stopped_failing,
    named,
    standings_of,
    with_rank,
)
from schedules.services.jobs.forecasts import shown_next_run

__all__ = ["STANDINGS", "named", "with_rank"]

# Runs whose status changes within seconds; a run that waits for an agent may wait for hours.
MOVING = (Execution.Status.QUEUED, *Execution.HELD)
# The standings with the status of the job, which has no next run.
ENDED = ("failed", "completed", "cancelled")
# How many segments a standing has, if more than one: planned jobs, and those whose last run is not finished.
PARTS = {"retrying": 2, "running": 2, "waiting": 2}
# The most jobs that a chip of a long list counts.
MOST_COUNTED = 1_000
# The most that the title and the icon of every page count; an icon has room for two digits.
MOST_IN_ALARM = 100
BY_NEXT_RUN = ("next_run_at", "-pk")


def read_standings(ranked: JobQuerySet) -> dict[int, str]:
    """Return the standing of each job by its key, for lists that are not long."""
    # In the order of an index, without which SQLite may look through the jobs of everybody.
    rows: Any = ranked.order_by(*BY_NEXT_RUN).values_list("pk", "rank")  # type: ignore[misc]
    return {pk: ORDER[rank] for pk, rank in rows}


def count_by_standing(found: Mapping[int, str]) -> dict[str, int]:
    counts = Counter(found.values())
    return {name: counts[name] for name in ORDER}


def standing_as(ranked: JobQuerySet, name: str) -> JobQuerySet:
    return ranked.filter(rank=ORDER.index(name))  # type: ignore[misc]


def segments_of(
    jobs: JobQuerySet, now: datetime, name: str, runs: ExecutionQuerySet | None = None
) -> list[Segment]:
    """Return the jobs of one standing, the next to run first; for a long list, also pass the runs of its jobs."""
    match name:
        case "stopped_failing":
            return [Segment(_stopped_failing(jobs))]
        case "paused":
            return [Segment(jobs.stopped(Job.Status.PAUSED).exclude(is_stopped_failing()))]
        case "failing":
            return [Segment(_failing(jobs), BY_NEXT_RUN)]
        case "late":
            return [Segment(_late(jobs, now).exclude(has_unfinished("retrying")), BY_NEXT_RUN)]
        case "healthy" | "new":
            calm = _calm(jobs, now)
            quiet = calm.exclude(has_unfinished("under_way")).exclude(has_unfinished("unclaimed"))
            found = quiet.filter(last_run_at__isnull=name == "new")
            return [Segment(found, BY_NEXT_RUN, walked=calm)]
        case "retrying" | "running" | "waiting":
            return _unfinished(jobs, now, name, runs)
    return [_stopped(jobs, name)]


def _unfinished(jobs: JobQuerySet, now: datetime, name: str, runs: ExecutionQuerySet | None) -> list[Segment]:
    """Return the jobs with unfinished runs in two parts: those that are planned again, and those in their last run."""
    retrying, under_way, unclaimed = map(has_unfinished, ("retrying", "under_way", "unclaimed"))
    last_runs = jobs.stopped(Job.Status.RUNNING)
    match name:
        case "retrying":
            found = jobs.filter(status=Job.Status.PENDING, failure_streak=0)
            planned, ending = _with_runs(found, runs, "retrying"), last_runs.filter(retrying)
        case "running":
            planned = _with_runs(_calm(jobs, now), runs, "under_way").exclude(retrying)
            ending = last_runs.exclude(retrying).exclude(unclaimed & ~under_way)
        case _:
            planned = _with_runs(_calm(jobs, now), runs, "unclaimed").exclude(under_way)
            ending = last_runs.filter(unclaimed).exclude(under_way)
    return [Segment(planned, BY_NEXT_RUN), Segment(ending)]


def worst_first(jobs: JobQuerySet, now: datetime) -> list[Segment]:
    """Return all jobs, worst first, without separating those that run as planned by their standing."""
    planned = (_failing(jobs), _late(jobs, now), _calm(jobs, now))
    return [
        Segment(_stopped_failing(jobs)),
        _stopped(jobs, Job.Status.FAILED),
        *(Segment(rows, BY_NEXT_RUN) for rows in planned),
        _stopped(jobs, Job.Status.RUNNING),
        *segments_of(jobs, now, "paused"),
        _stopped(jobs, Job.Status.COMPLETED),
        _stopped(jobs, Job.Status.CANCELLED),
    ]


def next_first(jobs: JobQuerySet, *, is_reversed: bool = False) -> list[Segment]:
    """Return all jobs by their next run; those without one come last."""
    planned = jobs.filter(status=Job.Status.PENDING, next_run_at__isnull=False)
    order = ("-next_run_at", "-pk") if is_reversed else BY_NEXT_RUN
    stopped = ("running", "paused", "failed", "completed", "cancelled")
    return [Segment(planned, order), *(_stopped(jobs, status) for status in stopped)]


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


def count_by_index(
    jobs: JobQuerySet, runs: ExecutionQuerySet, now: datetime, profile: Profile
) -> dict[str, int | None]:
    """Count the jobs of each standing up to a limit; None for a standing that no index finds."""
    found = {name: segments_of(jobs, now, name, runs) for name in ORDER if name not in ("healthy", "new")}
    counts = _count(found, MOST_COUNTED, profile)
    return {name: counts.get(name) for name in ORDER}


def count_alarms(jobs: JobQuerySet, now: datetime, profile: Profile) -> dict[str, int]:
    """Count the broken and late jobs up to a limit."""
    found = {name: segments_of(jobs, now, name) for name in (*BROKEN, "late")}
    return _count(found, MOST_IN_ALARM, profile)


def _count(segments: Mapping[str, Sequence[Segment]], most: int, profile: Profile) -> dict[str, int]:
    """Count each list up to a limit, all in one query that reads only their indexes; it asks for one row, the profile."""
    parts = [(name, part) for name, listed in segments.items() for part in listed]
    counted = [CountUpTo(part.rows.order_by(*part.order), most) for _, part in parts]
    [row] = Profile.objects.filter(pk=profile.pk).values_list(*counted)
    counts = dict.fromkeys(segments, 0)
    for (name, _), count in zip(parts, row, strict=True):
        counts[name] += count
    return counts


class Alarm(NamedTuple):
    """What the title and the icon of every page warn of."""

    words: str
    """Such as "3 failing, 1 late", or an empty text."""
    jobs: int
    """How many, up to MOST_IN_ALARM."""


def alarm_of(counts: Mapping[str, int | None]) -> Alarm:
    broken, late = sum(counts.get(name) or 0 for name in BROKEN), counts.get("late") or 0
    words = {"failing": broken, "late": late}
    return Alarm(
        ", ".join(f"{count_words(count, MOST_IN_ALARM)} {word}" for word, count in words.items() if count),
        min(broken + late, MOST_IN_ALARM),
    )


def _failing(jobs: JobQuerySet) -> JobQuerySet:
    """Return the pending jobs that are failing; the others are late or calm."""
    return jobs.filter(status=Job.Status.PENDING, failure_streak__gt=0)


def _late(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    return jobs.filter(status=Job.Status.PENDING, next_run_at__lt=now - LATE_AFTER, failure_streak=0)


def _calm(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    return jobs.filter(status=Job.Status.PENDING, next_run_at__gte=now - LATE_AFTER, failure_streak=0)


def _with_runs(jobs: JobQuerySet, runs: ExecutionQuerySet | None, which: str) -> JobQuerySet:
    """Return the jobs of the unfinished runs that a method of ExecutionQuerySet finds."""
    if runs is None:
        return jobs.filter(has_unfinished(which))
    # Keys instead of a subquery, for which SQLite would look through all jobs.
    found = getattr(runs, which)().filter(job__isnull=False).order_by().values_list("job", flat=True)
    return jobs.filter(pk__in=list(found[: MOST_COUNTED + 1]))


def _stopped_failing(jobs: JobQuerySet) -> JobQuerySet:
    return jobs.filter(is_stopped_failing()).order_by("-pk")


def _stopped(jobs: JobQuerySet, status: str) -> Segment:
    return Segment(jobs.stopped(status))


def name_standings(jobs: Sequence[Any], known: Mapping[int, str], user_id: int, now: datetime) -> None:
    """Set the standing and the details of each job."""
    unknown = [job for job in jobs if job.pk not in known]
    found = standings_of(unknown, now) if unknown else {}
    for job in jobs:
        job.standing = known.get(job.pk) or found[job.pk].name
    add_details(jobs, user_id, now)


def add_details(jobs: Sequence[Any], user_id: int, now: datetime) -> None:
    """Add what is shown beside the standing of each job.

    `retry` is the run that waits for its next attempt, `shown_next_run` the next run that is not skipped.
    """
    retried = [job.pk for job in jobs if job.standing in ("failing", "retrying")]
    retries = {}
    if retried:
        columns = ("job_id", "attempt", "available_at", "error", "reason")
        rows = Execution.objects.retrying().filter(job__in=retried).order_by("pk")
        retries = {row.job_id: row for row in rows.values_list(*columns, named=True)[: len(retried) * 2]}
    has_agent = None
    for job in jobs:
        job.retry = retries.get(job.pk)
        if job.standing == "waiting" and has_agent is None:
            has_agent = Token.objects.usable(now).filter(owner=user_id).exists()
        job.waits_for = "for an agent" if has_agent else "for you"
        job.shown_next_run = shown_next_run(job)
