"""Jobs by standing: the queries that find and count the jobs of each standing, and the alarm in every page's title."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from schedules.models import LATE_AFTER, Job, Profile
from schedules.models.counting import CountUpTo, count_words
from schedules.models.executions import ExecutionQuerySet
from schedules.models.job_queries import has_unfinished
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import Segment
from schedules.models.standings import BROKEN, STANDINGS, is_failing, is_late, is_stopped_failing
from schedules.services.permissions import Actor

# How many jobs of one standing are counted in a large list.
MAX_COUNTED = 1_000
# How many jobs the title and icon of every page count; an icon has room for two digits.
MAX_IN_ALARM = 100
BY_NEXT_RUN = ("next_run_at", "-pk")


def segments_of(
    jobs: JobQuerySet, now: datetime, name: str, runs: ExecutionQuerySet | None = None
) -> list[Segment]:
    """Return the jobs of one standing, the next to run first; for a large list, also pass the runs of its jobs."""
    match name:
        case "stopped_failing":
            return [Segment(_stopped_failing(jobs))]
        case "paused":
            return [Segment(jobs.stopped(Job.Status.PAUSED).exclude(is_stopped_failing()))]
        case "failing":
            return [Segment(jobs.filter(is_failing()), BY_NEXT_RUN)]
        case "late":
            return [Segment(_late_jobs(jobs, now).exclude(has_unfinished("retrying")), BY_NEXT_RUN)]
        case "healthy" | "new":
            on_schedule = _on_schedule(jobs, now)
            idle = on_schedule.exclude(has_unfinished("under_way"))
            idle = idle.exclude(has_unfinished("waiting_for_somebody"))
            rows = idle.filter(last_run_at__isnull=name == "new")
            return [Segment(rows, BY_NEXT_RUN, walked=on_schedule)]
        case "retrying" | "running" | "waiting":
            return _unfinished(jobs, now, name, runs)
    return [Segment(jobs.stopped(name))]


def _unfinished(jobs: JobQuerySet, now: datetime, name: str, runs: ExecutionQuerySet | None) -> list[Segment]:
    """Return the jobs with unfinished runs in two segments: those with a next run, and those in their last run."""
    retrying, under_way, waiting = map(has_unfinished, ("retrying", "under_way", "waiting_for_somebody"))
    last_runs = jobs.stopped(Job.Status.RUNNING)
    match name:
        case "retrying":
            pending = jobs.filter(status=Job.Status.PENDING, failure_streak=0)
            planned, ending = _with_runs(pending, runs, "retrying"), last_runs.filter(retrying)
        case "running":
            planned = _with_runs(_on_schedule(jobs, now), runs, "under_way").exclude(retrying)
            ending = last_runs.exclude(retrying).exclude(waiting & ~under_way)
        case _:
            planned = _with_runs(_on_schedule(jobs, now), runs, "waiting_for_somebody").exclude(under_way)
            ending = last_runs.filter(waiting).exclude(under_way)
    return [Segment(planned, BY_NEXT_RUN), Segment(ending)]


def worst_first(jobs: JobQuerySet, now: datetime) -> list[Segment]:
    """Return all jobs, worst first; those that run on schedule are one segment, whatever their standing."""
    planned = (jobs.filter(is_failing()), _late_jobs(jobs, now), _on_schedule(jobs, now))
    return [
        Segment(_stopped_failing(jobs)),
        Segment(jobs.stopped(Job.Status.FAILED)),
        *(Segment(rows, BY_NEXT_RUN) for rows in planned),
        Segment(jobs.stopped(Job.Status.RUNNING)),
        *segments_of(jobs, now, "paused"),
        Segment(jobs.stopped(Job.Status.COMPLETED)),
        Segment(jobs.stopped(Job.Status.CANCELLED)),
    ]


def _late_jobs(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    return jobs.filter(is_late(now), failure_streak=0)


def _on_schedule(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    return jobs.filter(status=Job.Status.PENDING, next_run_at__gte=now - LATE_AFTER, failure_streak=0)


def _with_runs(jobs: JobQuerySet, runs: ExecutionQuerySet | None, which: str) -> JobQuerySet:
    """Return the jobs with unfinished runs, as found by the ExecutionQuerySet method named `which`."""
    if runs is None:
        return jobs.filter(has_unfinished(which))
    # Keys, not a subquery: with one, SQLite would scan all jobs.
    keys = getattr(runs, which)().filter(job__isnull=False).order_by().values_list("job", flat=True)
    return jobs.filter(pk__in=list(keys[: MAX_COUNTED + 1]))


def _stopped_failing(jobs: JobQuerySet) -> JobQuerySet:
    return jobs.filter(is_stopped_failing()).order_by("-pk")


def count_by_index(
    jobs: JobQuerySet, runs: ExecutionQuerySet, now: datetime, profile: Profile
) -> dict[str, int | None]:
    """Count the jobs of each standing up to a limit; None for a standing that no index finds."""
    names = [name for name in STANDINGS if name not in ("healthy", "new")]
    counts = _count_segments(
        {name: segments_of(jobs, now, name, runs) for name in names}, MAX_COUNTED, profile
    )
    return {name: counts.get(name) for name in STANDINGS}


def _count_segments(
    segments: Mapping[str, Sequence[Segment]], limit: int, profile: Profile
) -> dict[str, int]:
    """Count the jobs in each list of segments, up to a limit per segment, in one query that reads only indexes."""
    parts = [(name, part) for name, listed in segments.items() for part in listed]
    counted = [CountUpTo(part.rows.order_by(*part.order), limit) for _, part in parts]
    # The profile is the single row that the counts are attached to.
    [row] = Profile.objects.filter(pk=profile.pk).values_list(*counted)
    counts = dict.fromkeys(segments, 0)
    for (name, _), count in zip(parts, row, strict=True):
        counts[name] += count
    return counts


class Alarm(NamedTuple):
    """What the title and the icon of every page warn of."""

    text: str
    """Such as "3 failing, 1 late"; empty if all is well."""
    jobs: int
    """How many, up to MAX_IN_ALARM."""


def read_alarm(actor: Actor, now: datetime, profile: Profile) -> Alarm:
    """Count the broken and late jobs up to a limit."""
    jobs = actor.jobs()
    segments = {name: segments_of(jobs, now, name) for name in (*BROKEN, "late")}
    return alarm_of(_count_segments(segments, MAX_IN_ALARM, profile))


def alarm_of(counts: Mapping[str, int | None]) -> Alarm:
    """Return the alarm for these numbers of jobs by standing."""
    broken, late = sum(counts.get(name) or 0 for name in BROKEN), counts.get("late") or 0
    by_label = {"failing": broken, "late": late}
    return Alarm(
        ", ".join(
            f"{count_words(count, MAX_IN_ALARM)} {label}" for label, count in by_label.items() if count
        ),
        min(broken + late, MAX_IN_ALARM),
    )
