"""The list of jobs by standing, worst first, as people see it, and the counts in the title of every page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import F

from schedules.models import LATE_AFTER, Execution, Job, Profile, Token
from schedules.models.counting import CountUpTo, count_up_to, count_words, has_key
from schedules.models.executions import ExecutionQuerySet
from schedules.models.job_queries import has_unfinished
from schedules.models.job_texts import skeleton
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import Segment
from schedules.models.standings import (
    ATTENTION,
    BROKEN,
    ORDER,
    STANDINGS,
    is_failing,
    is_late,
    is_stopped_failing,
    standings_of,
    with_rank,
)
from schedules.services.job_list import JobQuery
from schedules.services.jobs.forecasts import shown_next_run
from schedules.services.paging import PAGE_SIZE, Listed, read_page
from schedules.services.people.profiles import user_called
from schedules.services.permissions import Actor

# With more jobs than this, the list has only the orders that indexes have.
LARGE = 5_000
# The most jobs that one standing of a large list counts.
MOST_COUNTED = 1_000
# The most that the title and the icon of every page count; an icon has room for two digits.
MOST_IN_ALARM = 100
MOST_NAMED = 500
BY_NEXT_RUN = ("next_run_at", "-pk")
# Where the jobs without a next run come in the order of the next run.
STOPPED = (
    Job.Status.RUNNING,
    Job.Status.PAUSED,
    Job.Status.FAILED,
    Job.Status.COMPLETED,
    Job.Status.CANCELLED,
)
_SORTS: dict[str, tuple[Any, ...]] = {
    "name": ("name", "-pk"),
    "-name": ("-name", "-pk"),
    "last": (F("last_run_at").asc(nulls_first=True), "-pk"),
    "-last": (F("last_run_at").desc(nulls_last=True), "-pk"),
    "-next": ("-next_run_at", "-pk"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewQuery(JobQuery):
    """A question to the list; `sort` is next, last or name, with a minus to turn it, or empty for worst first."""

    standing: str = ""
    """One of STANDINGS, or ATTENTION for all that are broken."""
    owner: str = ""
    sort: str = ""

    @property
    def standings(self) -> tuple[str, ...]:
        """The wanted standings; none for all."""
        if self.standing == ATTENTION:
            return BROKEN
        return (self.standing,) if self.standing else ()

    @property
    def is_narrowed(self) -> bool:
        return self.is_filtered or bool(self.owner)


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One page of the list; each row has its `standing` and what `_add_details` sets."""

    listed: Listed
    counts: Mapping[str, int | None]
    """How many jobs have each standing; None if no index finds them."""
    total: int | None
    """How many jobs there are, whatever their standing."""
    planned: JobQuerySet | None
    """The jobs of the list, for a forecast; None if no index finds their next runs."""
    is_large: bool

    @property
    def most_counted(self) -> int:
        return MOST_COUNTED if self.is_large else LARGE


def read_overview(
    actor: Actor, query: OverviewQuery, now: datetime, profile: Profile, position: Mapping[str, str]
) -> Overview:
    """Read the page of the list at a position, which is named by the keys `before` or `after` of another page."""
    jobs, runs = _of_owner(actor, query.owner)
    total = count_up_to(jobs.order_by())
    if total <= LARGE:
        overview = _read_small(jobs, query, now, actor.sees_all, position)
    else:
        counts = {} if query.is_narrowed else count_by_index(jobs, runs, now, profile)
        is_filtered = query.is_narrowed or query.standing
        segments = [
            replace(segment, rows=_with_owner(segment.rows, actor.sees_all))
            for segment in _large_list(actor, jobs, runs, query, now)
        ]
        overview = Overview(
            listed=read_page(segments, position),
            counts=counts,
            total=None if query.is_narrowed else total,
            planned=None if is_filtered else jobs,
            is_large=True,
        )
        standings = standings_of(overview.listed.rows, now)
        for job in overview.listed.rows:
            job.standing = standings[job.pk].name
    _add_details(overview.listed.rows, actor, now)
    return overview


def matching_ids(actor: Actor, query: OverviewQuery, now: datetime, most: int) -> list[str]:
    """Return the ids of the jobs in the list, the next to run first."""
    jobs = with_rank(query.narrow(_of_owner(actor, query.owner)[0]), now)
    if query.standing:
        jobs = jobs.filter(rank__in=[ORDER.index(name) for name in query.standings])  # type: ignore[misc]
    return list(jobs.order_by(*BY_NEXT_RUN).values_list("public_id", flat=True)[:most])


def read_standing(actor: Actor, job_id: str, now: datetime) -> Any:
    """Return a job with its owner and what a row of the list has, or None."""
    jobs = with_rank(actor.jobs().select_related("owner").called(job_id), now)
    job: Any = next(iter(jobs), None)
    if job:
        job.standing = ORDER[job.rank]
        _add_details([job], actor, now)
    return job


def read_trash(actor: Actor, position: Mapping[str, str]) -> Listed:
    """Read the page of the deleted jobs at a position, the last deleted first."""
    jobs = actor.trash().select_related("owner")
    return read_page([Segment(jobs, ("-deleted_at", "-pk"))], position)


def _of_owner(actor: Actor, owner: str) -> tuple[JobQuerySet, ExecutionQuerySet]:
    """Return all jobs and runs that an actor sees, or those of one owner."""
    jobs, runs = actor.jobs(), actor.executions()
    if not owner:
        return jobs, runs
    user = user_called(owner)
    return jobs.filter(owner=user), runs.filter(owner=user)


def _with_owner(jobs: JobQuerySet, sees_all: bool) -> JobQuerySet:
    # Only staff see whose job it is.
    return jobs.prefetch_related("owner") if sees_all else jobs


def _read_small(
    jobs: JobQuerySet, query: OverviewQuery, now: datetime, sees_all: bool, position: Mapping[str, str]
) -> Overview:
    """Read a list that may be filtered and sorted in any way, by the standings of all its jobs."""
    # In the order of an index by default, without which SQLite may look through the jobs of everybody.
    order = _SORTS.get(query.sort, BY_NEXT_RUN)
    rows: list[Any] = list(
        with_rank(query.narrow(jobs), now).order_by(*order).values_list("pk", "rank", "status")  # type: ignore[misc]
    )
    if query.sort.removeprefix("-") == "next":
        places = {status: place for place, status in enumerate((Job.Status.PENDING, *STOPPED))}
        rows.sort(key=lambda row: places[row[2]])
    elif query.sort not in _SORTS:
        rows.sort(key=lambda row: (row[1], row[2] != Job.Status.PENDING))
    standings = {pk: ORDER[rank] for pk, rank, _ in rows}
    counts = Counter(standings.values())
    keys = [pk for pk, standing in standings.items() if not query.standing or standing in query.standings]
    start = _start_of_page(position)
    end = start + PAGE_SIZE
    by_key = _with_owner(jobs, sees_all).in_bulk(keys[start:end])
    listed = Listed(
        [by_key[pk] for pk in keys[start:end] if pk in by_key],
        before=str(start) if 0 < start < len(keys) else "",
        after=str(end) if end < len(keys) else "",
    )
    for job in listed.rows:
        job.standing = standings[job.pk]
    is_filtered = query.is_narrowed or query.standing
    return Overview(
        listed=listed,
        counts={name: counts[name] for name in ORDER},
        total=len(rows),
        planned=jobs.filter(has_key(keys)) if is_filtered else jobs,
        is_large=False,
    )


def _start_of_page(position: Mapping[str, str]) -> int:
    """Return the number of jobs before a page of a small list, whose keys are such numbers."""
    before, after = position.get("before", ""), position.get("after", "")
    if before.isdecimal() and len(before) < 6:
        return max(0, int(before) - PAGE_SIZE)
    return int(after) if after.isdecimal() and len(after) < 6 else 0


def _large_list(
    actor: Actor, jobs: JobQuerySet, runs: ExecutionQuerySet, query: OverviewQuery, now: datetime
) -> list[Segment]:
    """Return a list in the orders that indexes have."""
    if query.standing:
        segments = [part for name in query.standings for part in segments_of(jobs, now, name, runs)]
    elif query.sort in ("next", "-next"):
        segments = _next_first(jobs, _SORTS.get(query.sort, BY_NEXT_RUN))
    else:
        segments = worst_first(jobs, now)
    if not query.is_narrowed:
        return segments
    narrowed = [
        replace(each, rows=query.narrow(each.rows), walked=each.rows if each.walked is None else each.walked)
        for each in segments
    ]
    if not query.text:
        return narrowed
    # Indexes find an id, and names that begin with the text; the rest is looked through.
    keys = [job.pk for job in jobs.called(query.text)[:1]]
    # The index of names begins with the owner.
    if not actor.sees_all and (beginning := skeleton(query.text)):
        keys += jobs.named_like(beginning).order_by().values_list("pk", flat=True)[:MOST_NAMED]
    first = Segment(query.narrow(jobs.filter(pk__in=keys)), ("name", "-pk"))
    return [first, *(replace(each, rows=each.rows.exclude(pk__in=keys)) for each in narrowed)]


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
            return [Segment(_late(jobs, now).exclude(has_unfinished("retrying")), BY_NEXT_RUN)]
        case "healthy" | "new":
            calm = _calm(jobs, now)
            quiet = calm.exclude(has_unfinished("under_way")).exclude(has_unfinished("waiting_for_somebody"))
            rows = quiet.filter(last_run_at__isnull=name == "new")
            return [Segment(rows, BY_NEXT_RUN, walked=calm)]
        case "retrying" | "running" | "waiting":
            return _unfinished(jobs, now, name, runs)
    return [Segment(jobs.stopped(name))]


def _unfinished(jobs: JobQuerySet, now: datetime, name: str, runs: ExecutionQuerySet | None) -> list[Segment]:
    """Return the jobs with unfinished runs in two parts: those that are planned again, and those in their last run."""
    retrying, under_way, waiting = map(has_unfinished, ("retrying", "under_way", "waiting_for_somebody"))
    last_runs = jobs.stopped(Job.Status.RUNNING)
    match name:
        case "retrying":
            calm = jobs.filter(status=Job.Status.PENDING, failure_streak=0)
            planned, ending = _with_runs(calm, runs, "retrying"), last_runs.filter(retrying)
        case "running":
            planned = _with_runs(_calm(jobs, now), runs, "under_way").exclude(retrying)
            ending = last_runs.exclude(retrying).exclude(waiting & ~under_way)
        case _:
            planned = _with_runs(_calm(jobs, now), runs, "waiting_for_somebody").exclude(under_way)
            ending = last_runs.filter(waiting).exclude(under_way)
    return [Segment(planned, BY_NEXT_RUN), Segment(ending)]


def worst_first(jobs: JobQuerySet, now: datetime) -> list[Segment]:
    """Return all jobs, worst first, without separating those that run as planned by their standing."""
    planned = (jobs.filter(is_failing()), _late(jobs, now), _calm(jobs, now))
    return [
        Segment(_stopped_failing(jobs)),
        Segment(jobs.stopped(Job.Status.FAILED)),
        *(Segment(rows, BY_NEXT_RUN) for rows in planned),
        Segment(jobs.stopped(Job.Status.RUNNING)),
        *segments_of(jobs, now, "paused"),
        Segment(jobs.stopped(Job.Status.COMPLETED)),
        Segment(jobs.stopped(Job.Status.CANCELLED)),
    ]


def _next_first(jobs: JobQuerySet, order: tuple[str, ...]) -> list[Segment]:
    """Return all jobs by their next run; those without one come last."""
    planned = jobs.filter(status=Job.Status.PENDING, next_run_at__isnull=False)
    return [Segment(planned, order), *(Segment(jobs.stopped(status)) for status in STOPPED)]


def _late(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    return jobs.filter(is_late(now), failure_streak=0)


def _calm(jobs: JobQuerySet, now: datetime) -> JobQuerySet:
    return jobs.filter(status=Job.Status.PENDING, next_run_at__gte=now - LATE_AFTER, failure_streak=0)


def _with_runs(jobs: JobQuerySet, runs: ExecutionQuerySet | None, which: str) -> JobQuerySet:
    """Return the jobs of the unfinished runs that a method of ExecutionQuerySet finds."""
    if runs is None:
        return jobs.filter(has_unfinished(which))
    # Keys instead of a subquery, for which SQLite would look through all jobs.
    keys = getattr(runs, which)().filter(job__isnull=False).order_by().values_list("job", flat=True)
    return jobs.filter(pk__in=list(keys[: MOST_COUNTED + 1]))


def _stopped_failing(jobs: JobQuerySet) -> JobQuerySet:
    return jobs.filter(is_stopped_failing()).order_by("-pk")


def count_by_index(
    jobs: JobQuerySet, runs: ExecutionQuerySet, now: datetime, profile: Profile
) -> dict[str, int | None]:
    """Count the jobs of each standing up to a limit; None for a standing that no index finds."""
    names = [name for name in STANDINGS if name not in ("healthy", "new")]
    counts = _count({name: segments_of(jobs, now, name, runs) for name in names}, MOST_COUNTED, profile)
    return {name: counts.get(name) for name in STANDINGS}


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


def read_alarm(actor: Actor, now: datetime, profile: Profile) -> Alarm:
    """Count the broken and late jobs up to a limit."""
    jobs = actor.jobs()
    segments = {name: segments_of(jobs, now, name) for name in (*BROKEN, "late")}
    return alarm_of(_count(segments, MOST_IN_ALARM, profile))


def alarm_of(counts: Mapping[str, int | None]) -> Alarm:
    broken, late = sum(counts.get(name) or 0 for name in BROKEN), counts.get("late") or 0
    words = {"failing": broken, "late": late}
    return Alarm(
        ", ".join(f"{count_words(count, MOST_IN_ALARM)} {word}" for word, count in words.items() if count),
        min(broken + late, MOST_IN_ALARM),
    )


def _add_details(jobs: Sequence[Any], actor: Actor, now: datetime) -> None:
    """Add what is shown beside the standing of each job.

    `retry` is the run that waits for its next attempt, `asking` the key of the run that waits for a person's answer,
    `shown_next_run` the next run that is not skipped.
    """
    retried = [job.pk for job in jobs if job.standing in ("failing", "retrying")]
    retries = {}
    if retried:
        columns = ("job_id", "attempt", "available_at", "error", "reason")
        rows = Execution.objects.retrying().filter(job__in=retried).order_by("pk")
        retries = {row.job_id: row for row in rows.values_list(*columns, named=True)[: len(retried) * 2]}
    waiting = [job.pk for job in jobs if job.standing == "waiting"]
    asking = (
        dict(Execution.objects.asking().filter(job__in=waiting).values_list("job", "pk")) if waiting else {}
    )
    has_agent = len(asking) < len(waiting) and Token.objects.usable(now).filter(owner=actor.user.pk).exists()
    for job in jobs:
        job.retry = retries.get(job.pk)
        job.asking = asking.get(job.pk)
        job.waits_for = "for your answer" if job.asking else "for an agent" if has_agent else "for you"
        job.shown_next_run = shown_next_run(job)
