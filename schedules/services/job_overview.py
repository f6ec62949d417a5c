"""The page that lists jobs, worst first: its filters and orders, for small and for large lists, and the trash."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import F

from schedules.models import Job, Profile
from schedules.models.counting import count_up_to, has_key
from schedules.models.job_texts import skeleton
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import Segment
from schedules.models.standings import ATTENTION, BROKEN, ORDER, standings_of, with_rank
from schedules.services.job_list import JobQuery
from schedules.services.job_row_details import add_details
from schedules.services.jobs_by_standing import (
    BY_NEXT_RUN,
    MAX_IN_ALARM,
    NEWEST,
    NEWEST_OF_OWNER,
    broken_first,
    count_alarming,
    segment_of,
)
from schedules.services.paging import PAGE_SIZE, ListPage, read_page
from schedules.services.people.profiles import user_called
from schedules.services.permissions import Actor

# With more jobs than this, the list has one order: the broken ones, then the newest.
LARGE = 5_000
# How many jobs a search by the beginning of a name finds in a large list.
MAX_NAMED = 500
# The order of jobs without a next run in a list sorted by next run.
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
    """Filters and order of the list; `sort` is next, last or name, with a minus to reverse it; empty is worst first."""

    standing: str = ""
    """One of STANDINGS, or ATTENTION for all that are broken."""
    owner: str = ""
    sort: str = ""

    @property
    def standings(self) -> tuple[str, ...]:
        """The requested standings; empty for all."""
        if self.standing == ATTENTION:
            return BROKEN
        return (self.standing,) if self.standing else ()

    @property
    def is_narrowed(self) -> bool:
        return self.is_filtered or bool(self.owner)

    @property
    def selects_all_pending(self) -> bool:
        return not (self.is_narrowed or self.standing)


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One page of the list; each row has its `standing` and what `add_details` sets."""

    listed: ListPage
    counts: Mapping[str, int | None]
    """How many jobs have each standing; None if they are not counted."""
    total: int | None
    """How many jobs there are, whatever their standing."""
    planned: JobQuerySet | None
    """The listed jobs, for a forecast; None if no index finds their next runs."""
    is_large: bool

    @property
    def max_counted(self) -> int:
        return MAX_IN_ALARM if self.is_large else LARGE


def read_overview(
    actor: Actor, query: OverviewQuery, now: datetime, profile: Profile, position: Mapping[str, str]
) -> Overview:
    """Read the page at a position, given by the key `before` or `after` of another page."""
    jobs = _of_owner(actor, query.owner)
    total = count_up_to(jobs.order_by())
    if total <= LARGE:
        overview = _read_small(jobs, query, now, actor.sees_all, position)
    else:
        counts = {} if query.is_narrowed else count_alarming(jobs, now, profile)
        is_filtered = query.is_narrowed or query.standing
        segments = [
            replace(segment, rows=_with_owner(segment.rows, actor.sees_all))
            for segment in _large_list(actor, jobs, query, now)
        ]
        overview = Overview(
            listed=read_page(segments, position),
            counts={name: counts.get(name) for name in ORDER},
            total=None if query.is_narrowed else total,
            planned=None if is_filtered else jobs,
            is_large=True,
        )
        standings = standings_of(overview.listed.rows, now)
        for job in overview.listed.rows:
            job.standing = standings[job.pk].name
    add_details(overview.listed.rows, actor, now)
    return overview


def matching_ids(actor: Actor, query: OverviewQuery, now: datetime, limit: int) -> list[str]:
    """Return the ids of the jobs in the list, the next to run first."""
    jobs = with_rank(query.narrow(_of_owner(actor, query.owner)), now)
    if query.standing:
        jobs = jobs.filter(rank__in=[ORDER.index(name) for name in query.standings])  # type: ignore[misc]
    return list(jobs.order_by(*BY_NEXT_RUN).values_list("public_id", flat=True)[:limit])


def read_standing(actor: Actor, job_id: str, now: datetime) -> Any:
    """Return a job with its owner, standing and row details, or None."""
    jobs = with_rank(actor.jobs().select_related("owner").called(job_id), now)
    job: Any = next(iter(jobs), None)
    if job:
        job.standing = ORDER[job.rank]
        add_details([job], actor, now)
    return job


def read_trash(actor: Actor, position: Mapping[str, str]) -> ListPage:
    """Read the page of the deleted jobs at a position, the last deleted first."""
    jobs = actor.trash().select_related("owner")
    return read_page([Segment(jobs, ("-deleted_at", "-pk"))], position)


def _of_owner(actor: Actor, owner: str) -> JobQuerySet:
    """Return all jobs that an actor sees, or those of one owner."""
    return actor.jobs().filter(owner=user_called(owner)) if owner else actor.jobs()


def _with_owner(jobs: JobQuerySet, sees_all: bool) -> JobQuerySet:
    # Only staff see whose job it is.
    return jobs.prefetch_related("owner") if sees_all else jobs


def _read_small(
    jobs: JobQuerySet, query: OverviewQuery, now: datetime, sees_all: bool, position: Mapping[str, str]
) -> Overview:
    """Read a list that may be filtered and sorted in any way, by the standings of all its jobs."""
    # The default order has an index: without one, SQLite may scan everybody's jobs.
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
    listed = ListPage(
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
    """Return the offset of a page of a small list, whose page keys are offsets."""
    before, after = position.get("before", ""), position.get("after", "")
    if before.isdecimal() and len(before) < 6:
        return max(0, int(before) - PAGE_SIZE)
    return int(after) if after.isdecimal() and len(after) < 6 else 0


def _large_list(actor: Actor, jobs: JobQuerySet, query: OverviewQuery, now: datetime) -> list[Segment]:
    """Return the segments of a large list; what has no index is looked for in a number of jobs at a time."""
    newest = NEWEST if actor.sees_all and not query.owner else NEWEST_OF_OWNER
    segments = [segment_of(jobs, now, name, newest) for name in query.standings]
    segments = segments or broken_first(jobs, now, newest)
    if not query.is_narrowed:
        return segments
    narrowed = [
        replace(each, rows=query.narrow(each.rows), walked=each.rows if each.walked is None else each.walked)
        for each in segments
    ]
    if not query.text:
        return narrowed
    # Indexes find an id, and names that begin with the text; the rest is scanned.
    keys = [job.pk for job in jobs.called(query.text)[:1]]
    # The owner is the first column of the index of names.
    if not actor.sees_all and (beginning := skeleton(query.text)):
        keys += jobs.named_like(beginning).order_by().values_list("pk", flat=True)[:MAX_NAMED]
    first = Segment(query.narrow(jobs.filter(pk__in=keys)), ("name", "-pk"))
    return [first, *(replace(each, rows=each.rows.exclude(pk__in=keys)) for each in narrowed)]
