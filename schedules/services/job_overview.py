"""The page that lists jobs, worst first: its filters and orders, the alarm in every page's title, and the trash."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import F

from schedules.models import Job, Profile
from schedules.models.counting import SCANNED, CountUpTo, count_up_to, count_words, has_key
from schedules.models.job_queries import has_unfinished
from schedules.models.job_texts import skeleton
from schedules.models.jobs import JobQuerySet
from schedules.models.standings import (
    ATTENTION,
    BROKEN,
    ORDER,
    is_failing,
    is_late,
    is_stopped_failing,
    with_rank,
)
from schedules.services.job_list import JobQuery
from schedules.services.job_row_details import add_details
from schedules.services.paging import PAGE_SIZE, ListPage, read_page
from schedules.services.people.profiles import user_called
from schedules.services.permissions import Actor

# With more jobs than this, only the first are listed: those that need attention, then the next to run.
LARGE = 5_000
FIRST = 1_000
# How many jobs a search by the beginning of a name finds beyond those that are looked through.
MAX_NAMED = 500
# How many jobs the title and icon of every page count; an icon has room for two digits.
MAX_IN_ALARM = 100
_BY_NEXT_RUN = ("next_run_at", "-pk")
# The order of jobs without a next run in a list sorted by next run.
STOPPED = (
    Job.Status.RUNNING,
    Job.Status.PAUSED,
    Job.Status.FAILED,
    Job.Status.COMPLETED,
    Job.Status.CANCELLED,
)
# The standings of jobs that have stopped, which an index finds by their status.
_STATUSES = {
    "failed": Job.Status.FAILED,
    "paused": Job.Status.PAUSED,
    "completed": Job.Status.COMPLETED,
    "cancelled": Job.Status.CANCELLED,
}
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
    max_counted: int
    """Where these counts stop."""
    total: int | None
    """How many jobs there are, whatever their standing; None if not all were looked through."""
    planned: JobQuerySet
    """The listed jobs, for a forecast."""
    cut_at: int | None
    """How many jobs the list has or were looked through, if there are more."""


class _Ranked(NamedTuple):
    """The jobs that match a query, in the order of the list."""

    jobs: JobQuerySet
    """All that the actor sees."""
    total: int
    rows: list[tuple[int, int, str]]
    """Key, rank and status of each match; of few jobs, whatever their standing."""
    cut_at: int | None

    @property
    def is_large(self) -> bool:
        return self.total > LARGE

    def keys(self, query: OverviewQuery) -> list[int]:
        """Return the matches with a standing of the query."""
        return [pk for pk, rank, _ in self.rows if not query.standing or ORDER[rank] in query.standings]


def read_overview(
    actor: Actor, query: OverviewQuery, now: datetime, profile: Profile, position: Mapping[str, str]
) -> Overview:
    """Read the page at a position, given by the offset `before` or `after` of another page."""
    ranked = _rank(actor, query, now)
    jobs, keys = ranked.jobs, ranked.keys(query)
    # The order changes all the time, so that a page has no key.
    start = _offset_of(position)
    end = start + PAGE_SIZE
    # Only staff see whose job it is.
    by_key = (jobs.prefetch_related("owner") if actor.sees_all else jobs).in_bulk(keys[start:end])
    standings = {pk: ORDER[rank] for pk, rank, _ in ranked.rows}
    listed = ListPage(
        [by_key[pk] for pk in keys[start:end] if pk in by_key],
        before=str(start) if 0 < start < len(keys) else "",
        after=str(end) if end < len(keys) else "",
    )
    for job in listed.rows:
        job.standing = standings[job.pk]
    add_details(listed.rows, actor, now)
    total: int | None = len(ranked.rows)
    counts: Mapping[str, int | None] = dict.fromkeys(ORDER, 0) | Counter(standings.values())
    if ranked.is_large:
        total = None if query.is_narrowed else ranked.total
        alarming = {} if query.is_narrowed else count_alarming(jobs, now, profile)
        counts = {name: alarming.get(name) for name in ORDER}
    return Overview(
        listed=listed,
        counts=counts,
        max_counted=MAX_IN_ALARM if ranked.is_large else LARGE,
        total=total,
        planned=jobs.filter(has_key(keys)) if query.is_narrowed or query.standing else jobs,
        cut_at=ranked.cut_at,
    )


def matching_ids(actor: Actor, query: OverviewQuery, now: datetime, limit: int) -> list[str]:
    """Return the ids of the first jobs in the list."""
    ranked = _rank(actor, query, now)
    keys = ranked.keys(query)[:limit]
    ids = dict(ranked.jobs.filter(has_key(keys)).order_by().values_list("pk", "public_id"))
    return [ids[pk] for pk in keys if pk in ids]


def _rank(actor: Actor, query: OverviewQuery, now: datetime) -> _Ranked:
    jobs = actor.jobs().filter(owner=user_called(query.owner)) if query.owner else actor.jobs()
    total, matches, cut_at = count_up_to(jobs.order_by()), jobs, None
    if total > LARGE:
        matches, cut_at = _first(actor, jobs, query, now)
    # The default order has an index: without one, SQLite may scan everybody's jobs.
    ordered = with_rank(query.narrow(matches), now).order_by(*_SORTS.get(query.sort, _BY_NEXT_RUN))
    rows = list(ordered.values_list("pk", "rank", "status"))  # type: ignore[misc]
    if query.sort.removeprefix("-") == "next":
        places = {status: place for place, status in enumerate((Job.Status.PENDING, *STOPPED))}
        rows.sort(key=lambda row: places[row[2]])
    elif query.sort not in _SORTS:
        rows.sort(key=lambda row: (row[1], row[2] != Job.Status.PENDING))
    return _Ranked(jobs, total, rows, cut_at)


def _first(
    actor: Actor, jobs: JobQuerySet, query: OverviewQuery, now: datetime
) -> tuple[JobQuerySet, int | None]:
    """Return the jobs of a long list that are listed or looked through, and how many, if there are more.

    An index finds each part of them: those that are broken, late or under way, the next to run, and the newest others.
    """
    # To look through a job takes less time than to list it.
    most = SCANNED if query.is_narrowed else FIRST
    if query.standing in _STATUSES:
        parts = [jobs.stopped(_STATUSES[query.standing])]
    else:
        parts = [*_alarming(jobs, now).values(), jobs.filter(has_unfinished("live")).order_by()]
        if query.standing in ("", "healthy", "new"):
            parts += [jobs.listed(Job.Status.PENDING), *map(jobs.stopped, _STATUSES.values())]
    keys: dict[int, None] = {}
    for part in parts:
        if len(keys) < most:
            # One job may be in several parts.
            keys |= dict.fromkeys(part.values_list("pk", flat=True)[:most])
    cut_at = most if len(keys) >= most else None
    keys = dict.fromkeys(list(keys)[:most])
    if query.text:
        keys |= dict.fromkeys(job.pk for job in jobs.called(query.text)[:1])
        # The owner is the first column of the index of names.
        if not actor.sees_all and (beginning := skeleton(query.text)):
            named = jobs.named_like(beginning).order_by().values_list("pk", flat=True)
            keys |= dict.fromkeys(named[:MAX_NAMED])
    return jobs.filter(has_key(keys)), cut_at


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
    return read_page(actor.trash().select_related("owner"), position, order=("-deleted_at", "-pk"))


def _offset_of(position: Mapping[str, str]) -> int:
    before, after = position.get("before", ""), position.get("after", "")
    if before.isdecimal() and len(before) < 6:
        return max(0, int(before) - PAGE_SIZE)
    return int(after) if after.isdecimal() and len(after) < 6 else 0


class Alarm(NamedTuple):
    """What the title and the icon of every page warn of."""

    text: str
    """Such as "3 failing, 1 late"; empty if all is well."""
    jobs: int
    """How many, up to MAX_IN_ALARM."""


def _alarming(jobs: JobQuerySet, now: datetime) -> dict[str, JobQuerySet]:
    """Return the broken and late jobs by standing, each in the order of an index."""
    late = jobs.filter(is_late(now), failure_streak=0).exclude(has_unfinished("retrying"))
    return {
        "stopped_failing": jobs.filter(is_stopped_failing()).order_by("-pk"),
        "failed": jobs.stopped(Job.Status.FAILED),
        "failing": jobs.filter(is_failing()).order_by(*_BY_NEXT_RUN),
        "late": late.order_by(*_BY_NEXT_RUN),
    }


def count_alarming(jobs: JobQuerySet, now: datetime, profile: Profile) -> dict[str, int]:
    """Count the broken and late jobs up to a limit, in one query that reads only indexes."""
    parts = _alarming(jobs, now)
    # The profile is the single row that the counts are attached to.
    counts = (CountUpTo(part, MAX_IN_ALARM) for part in parts.values())
    [row] = Profile.objects.filter(pk=profile.pk).values_list(*counts)
    return dict(zip(parts, row, strict=True))


def read_alarm(actor: Actor, now: datetime, profile: Profile) -> Alarm:
    return alarm_of(count_alarming(actor.jobs(), now, profile))


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
