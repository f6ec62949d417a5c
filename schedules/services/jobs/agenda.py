"""The agenda: the jobs that run in a period, one line per job, however often it runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schedules.models import Job
from schedules.models.jobs import JobQuerySet, skips_of, trigger_of_job
from schedules.services.job_list import JobQuery
from schedules.services.jobs.chains import expected_after
from schedules.services.jobs.forecasts import UPCOMING_COLUMNS, resumed_rows
from schedules.services.permissions import Actor
from schedules.when.durations import TICK
from schedules.when.forecast import PendingJob, runs_ahead
from schedules.when.slot_batches import Batch
from schedules.when.triggers import TriggerError

MAX_LINES = 100
# How many jobs are scanned for a period that begins later, the next to run first.
MAX_JOBS = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """The runs of one job in a period."""

    job: Any
    first: datetime
    last: datetime
    count: int
    starts: Sequence[Batch]


@dataclass(frozen=True, slots=True)
class Agenda:
    """The jobs that run in a period, by their first run in it."""

    lines: Sequence[Line]
    is_cut: bool
    """Whether more jobs may run in the period."""

    @property
    def count(self) -> int:
        return sum(line.count for line in self.lines)


def read_agenda(
    actor: Actor,
    query: JobQuery,
    now: datetime,
    *,
    since: datetime | None = None,
    until: datetime,
    most: int = MAX_LINES,
) -> Agenda:
    """Return the first matching jobs that run from now, or from a later moment, up to the end of a period."""
    start = max(since or now, now)
    # If the period begins now, the first lines are the next runs of the first jobs.
    limit = most if start == now else MAX_JOBS
    soonest = actor.jobs().armed().filter(next_run_at__lte=until).order_by("next_run_at")
    rows = list(_matching(soonest, query).values_list(*UPCOMING_COLUMNS, named=True)[: limit + 1])
    resumed = resumed_rows(query.narrow(actor.jobs()), now, until, limit)
    lines = [line for row in (*rows[:limit], *resumed) if (line := _line(row, now, start, until))]
    if query.is_filtered:
        lines += _matching_followers(actor, query, lines, now, start, until, most)
    else:
        lines += _expected_lines(actor.jobs(), lines, until, most)
    lines.sort(key=lambda line: line.first)
    return Agenda(lines[:most], is_cut=len(rows) > limit or len(lines) > most)


def _matching_followers(
    actor: Actor,
    query: JobQuery,
    lines: Sequence[Line],
    now: datetime,
    start: datetime,
    until: datetime,
    most: int,
) -> list[Line]:
    """Return the lines of matching jobs that are expected to run after others, which need not match."""
    jobs = actor.jobs()
    followers = query.narrow(jobs).filter(status=Job.Status.PENDING, follows__isnull=False)
    matching = dict(followers.values_list("pk", "follows")[:MAX_JOBS])
    above = set[int]()
    level = {key for key in matching.values() if key}
    while level - above:
        above |= level
        level = {key for key in jobs.filter(pk__in=level).values_list("follows", flat=True) if key}
    others = jobs.filter(pk__in=above - {line.job.pk for line in lines})
    soonest = others.armed().filter(next_run_at__lte=until).order_by("next_run_at")
    rows = [
        *soonest.values_list(*UPCOMING_COLUMNS, named=True)[:MAX_JOBS],
        *resumed_rows(others, now, until, MAX_JOBS),
    ]
    first_lines = [*lines, *(line for row in rows if (line := _line(row, now, start, until)))]
    chain = jobs.filter(pk__in=above | set(matching))
    return [line for line in _expected_lines(chain, first_lines, until, most) if line.job.pk in matching]


def _expected_lines(jobs: JobQuerySet, lines: Sequence[Line], until: datetime, most: int) -> list[Line]:
    """Return the lines of jobs that are expected to run after others on the agenda."""
    of_job = {line.job.pk: line for line in lines}
    rows = []
    for first, row in expected_after(jobs, [(line.first, line.job) for line in lines], until, most):
        before = of_job[row.follows_id]
        shift = first - before.first
        starts = [Batch(batch.origin + shift, batch.seconds) for batch in before.starts]
        of_job[row.pk] = Line(row, first, min(before.last + shift, until), before.count, starts)
        rows.append(of_job[row.pk])
    return rows


def _matching(jobs: JobQuerySet, query: JobQuery) -> JobQuerySet:
    return query.applied_to(jobs, {}).order_by("next_run_at") if query.is_filtered else jobs


def _line(row: Any, now: datetime, start: datetime, until: datetime) -> Line | None:
    runs = list(_runs(row, now, start, until))
    if not runs:
        return None
    return Line(row, runs[0].first, runs[-1].last, sum(map(len, runs)), runs)


def _runs(row: Any, now: datetime, start: datetime, until: datetime) -> Iterator[Batch]:
    if row.trigger_type == Job.TriggerType.ONCE:
        if start <= row.next_run_at or start == now:
            yield Batch(row.next_run_at)
        return
    try:
        trigger, skips = trigger_of_job(row), skips_of(row)
    except TriggerError:
        # The engine reports this error when the job is due.
        if start <= row.next_run_at:
            yield Batch(row.next_run_at)
        return
    if row.next_run_at < now == start:
        if not (skips and skips.reason(row.next_run_at)):
            # The forecast counts an overdue run but does not yield it; here it replaces a slot at this moment.
            yield Batch(row.next_run_at)
        start += TICK
    left = None if row.max_runs is None else row.max_runs - row.slot_count
    armed = PendingJob(trigger, row.next_run_at, row.ends_at, left, skips)
    yield from runs_ahead(armed, now, until + TICK, start=start)
