"""Rehearse a period: what fires, what is left out and why, what collides, and what agents will spend.

Everything is read once. Then the plan of the engine is applied to copies in memory, and nothing is written.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Value

from schedules.engine import DEEPEST_CHAIN
from schedules.engine.gaps import reason_of_pause
from schedules.engine.sql.claims import DueJob
from schedules.models import Execution, Job
from schedules.models.jobs import JobQuerySet
from schedules.models.people import is_active
from schedules.result import Ok, Result, invalid
from schedules.services.job_list import JobQuery
from schedules.services.permissions import Actor
from schedules.services.rehearsal.agents import (
    Prompt,
    Spend,
    apply_limits,
    apply_stops,
    read_prompts,
    spend_of,
)
from schedules.services.rehearsal.collisions import Collisions, find_collisions
from schedules.services.rehearsal.timelines import (
    Budget,
    LeftOut,
    Past,
    Period,
    Timeline,
    timeline_after,
    timeline_of,
)
from schedules.tasks.heartbeat import HEARTBEAT, grace_of
from schedules.when.durations import TICK
from schedules.when.slot_batches import count_slots
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import After, Ending

USUAL_PERIOD = timedelta(days=7)
LONGEST_PERIOD = timedelta(days=31)
# How many jobs are rehearsed, the next to run first.
MAX_JOBS = 1_000
_COLUMNS = DueJob._fields[:-1]
# The endings of a run that goes well; jobs that follow other endings are not expected to run.
_GOOD_ENDINGS = (Ending.SUCCEEDED, Ending.ANY, Ending.DONE)


@dataclass(frozen=True, slots=True)
class Line:
    """One job in a rehearsal."""

    job_id: str
    name: str
    task: str
    count: int
    """How many runs start."""
    first: datetime | None
    last: datetime | None
    left_out: Sequence[LeftOut]
    waiting: int
    took: timedelta | None
    problem: str
    spend: Spend | None
    follows: str
    """The name of the job that it runs after, if it has no schedule of its own."""
    has_gate: bool


@dataclass(frozen=True, slots=True)
class Total:
    """What the agents of all listed jobs will spend."""

    runs: int
    tokens: int
    money: Decimal
    minutes: float
    unknown: int
    """How many jobs have no past runs to estimate from."""
    money_unknown: int
    """How many of the other jobs have runners that report no money."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    start: datetime
    end: datetime
    lines: Sequence[Line]
    collisions: Collisions
    spend: Total | None
    """None if no job of the period gives prompts to a runner."""
    is_cut: bool
    """Whether there are more jobs than are rehearsed."""
    unchecked: int
    """How many jobs run too often to check each run."""

    @property
    def count(self) -> int:
        return sum(line.count for line in self.lines)

    @property
    def left_out(self) -> int:
        return sum(each.count for line in self.lines for each in line.left_out)


def rehearse(
    actor: Actor,
    now: datetime,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    query: JobQuery | None = None,
    job: Job | None = None,
) -> Result[Rehearsal]:
    """Rehearse a period, by default the next seven days; other jobs than the requested ones count only for collisions and limits."""
    begin = max(start or now, now)
    until = end or begin + USUAL_PERIOD
    if until <= begin:
        return invalid("to", "Choose an end that is ahead, and after the beginning.")
    if until - begin > LONGEST_PERIOD + TICK:
        return invalid("to", f"Choose at most {LONGEST_PERIOD.days} days.")
    simulation = _Simulation(actor, Period(now, begin, until))
    simulation.read(query if query is not None and query.is_filtered else None, job)
    return Ok(simulation.run())


class _Simulation:
    """The timelines of all jobs in a period; the database is read once."""

    def __init__(self, actor: Actor, period: Period) -> None:
        self._actor, self._period = actor, period
        self._budget = Budget()
        self._timelines: list[Timeline] = []
        self._prompts: dict[int, Prompt] = {}
        self._listed: set[int] | None = None
        self._is_cut = False

    def read(self, query: JobQuery | None, job: Job | None) -> None:
        """Read the jobs and their past, and plan each job on its own."""
        jobs = self._actor.jobs()
        rows = self._armed(jobs)
        self._is_cut = len(rows) > MAX_JOBS
        rows = rows[:MAX_JOBS]
        if query is not None or job is not None:
            requested = jobs.filter(pk=job.pk) if job else jobs
            requested = query.narrow(requested) if query else requested
            self._listed = set(requested.order_by("next_run_at").values_list("pk", flat=True)[:MAX_JOBS])
            if self._is_cut:
                existing_ids = {row.pk for row in rows}
                rows += [row for row in self._armed(requested) if row.pk not in existing_ids]
        paused = self._resumed(jobs)
        timelines = self._plan([*rows, *(row for row, _ in paused)])
        for timeline, (row, reason) in zip(timelines[len(rows) :], paused, strict=True):
            _leave_out_pause(timeline, row, reason, self._period.start)
        self._timelines += timelines
        self._add_followers(jobs)

    def run(self) -> Rehearsal:
        """Apply stops and limits, find collisions, and describe the period."""
        period = self._period
        apply_stops(self._timelines, self._prompts)
        apply_limits(self._timelines, self._prompts, period, self._budget)
        collisions = find_collisions(self._timelines, self._prompts, period)
        shown = [timeline for timeline in self._timelines if self._is_shown(timeline)]
        shown.sort(key=lambda timeline: (timeline.first or period.end, timeline.job.pk))
        lines = [_line(timeline, self._prompts.get(timeline.job.pk)) for timeline in shown]
        unchecked = sum(timeline.is_unchecked for timeline in shown)
        return Rehearsal(period.start, period.end, lines, collisions, _total(lines), self._is_cut, unchecked)

    def _armed(self, jobs: JobQuerySet) -> list[DueJob]:
        return read_due_jobs(jobs.armed().filter(next_run_at__lt=self._period.end).order_by("next_run_at"))

    def _resumed(self, jobs: JobQuerySet) -> list[tuple[DueJob, str]]:
        """Read the jobs whose pause ends within the period, in their state after it, and why they are paused."""
        period = self._period
        paused = jobs.filter(
            status=Job.Status.PAUSED, paused_until__isnull=False, paused_until__lt=period.end
        ).order_by("paused_until")[:MAX_JOBS]
        resumed = []
        for job in paused:
            with suppress(TriggerError):
                if slot := job.next_slot(max(job.paused_until or period.now, period.now)):
                    values = [getattr(job, name) for name in _COLUMNS]
                    row = DueJob._make([*values, True])._replace(next_run_at=slot)
                    resumed.append((row, reason_of_pause(job)))
        return resumed

    def _plan(self, rows: Sequence[DueJob]) -> list[Timeline]:
        tasks = [row.pk for row in rows if row.task in ("prompt", HEARTBEAT)]
        arguments = _arguments_of(tasks)
        self._prompts |= read_prompts(list(arguments.values()), self._period.now)
        past = self._past(rows)
        timelines = []
        for row in rows:
            grace = None
            if row.task == HEARTBEAT:
                grace = grace_of(arguments[row.pk].args, arguments[row.pk].kwargs)
            timelines.append(timeline_of(row, self._period, past[row.pk], self._budget, grace))
        return timelines

    def _past(self, rows: Sequence[DueJob]) -> dict[int, Past]:
        """Return how long the runs of each job take, and when those under way are expected to end."""
        keys = [row.pk for row in rows]
        took = dict(Job.objects.filter(pk__in=keys).values_list("pk", "last_duration"))
        for key, prompt in self._prompts.items():
            took[key] = prompt.typical.took or took.get(key)
        past = {key: Past(took.get(key)) for key in keys}
        live = Execution.objects.live().filter(job__in=keys).exclude(cause=Execution.Cause.REMINDER)
        started: dict[int, list[datetime | None]] = defaultdict(list)
        for job_id, began in live.order_by("pk").values_list("job", "started_at"):
            started[job_id or 0].append(began)
        for key, moments in started.items():
            past[key].ends = _ends(moments, past[key].took, self._period.now)
        return past

    def _add_followers(self, jobs: JobQuerySet) -> None:
        """Add the jobs that run after others, level by level, as if all runs succeeded."""
        level = {timeline.job.pk: timeline for timeline in self._timelines if timeline.starts}
        for _ in range(DEEPEST_CHAIN):
            rows = _followers_of(jobs, list(level))
            self._is_cut |= len(rows) > MAX_JOBS
            rows = rows[:MAX_JOBS]
            if not rows:
                return
            followers = [row for row, _ in rows]
            self._prompts |= read_prompts(
                list(_arguments_of([row.pk for row in followers if row.task == "prompt"]).values()),
                self._period.now,
            )
            past = self._past(followers)
            below = {}
            for row, upstream_id in rows:
                upstream = level[upstream_id]
                with suppress(TriggerError):
                    trigger = row.trigger
                    if isinstance(trigger, After) and trigger.when in _GOOD_ENDINGS:
                        own = past[row.pk], self._budget
                        below[row.pk] = timeline_after(row, upstream, trigger.delay, self._period, *own)
            self._timelines += below.values()
            level = below

    def _is_shown(self, timeline: Timeline) -> bool:
        if self._listed is not None and timeline.job.pk not in self._listed:
            return False
        return bool(timeline.starts or timeline.left_out or timeline.problem)


def _leave_out_pause(timeline: Timeline, row: DueJob, reason: str, start: datetime) -> None:
    """Leave out the slots within a pause, as the engine does when the pause ends."""
    first = row.trigger.next_after(start - TICK)
    if first is not None and first < row.next_run_at:
        last = row.trigger.latest_at_or_before(row.next_run_at - TICK, first)
        timeline.leave_out(reason, first, last, count_slots(row.trigger, first, row.next_run_at))


def read_due_jobs(jobs: JobQuerySet) -> list[DueJob]:
    """Read jobs in the form in which a claim reads due ones, at most one more than are rehearsed."""
    rows = jobs.annotate(owner_is_active=is_active("owner__") or Value(True)).values_list(
        *_COLUMNS, "owner_is_active"
    )
    return [DueJob._make(row) for row in rows[: MAX_JOBS + 1]]


def _arguments_of(keys: Collection[int]) -> dict[int, Any]:
    """Return the rows of jobs with their task and arguments, by key."""
    if not keys:
        return {}
    columns = ("pk", "owner_id", "task", "args", "kwargs")
    rows = Job.objects.filter(pk__in=keys).values_list(*columns, named=True)
    return {row.pk: row for row in rows}


def _followers_of(jobs: JobQuerySet, keys: Collection[int]) -> list[tuple[DueJob, int]]:
    if not keys:
        return []
    rows = jobs.armed().filter(follows__in=keys).order_by("pk")
    columns = (*_COLUMNS, "owner_is_active", "follows_id")
    annotated = rows.annotate(owner_is_active=is_active("owner__") or Value(True)).values_list(*columns)
    return [(DueJob._make(row[:-1]), row[-1]) for row in annotated[: MAX_JOBS + 1]]


def _ends(started: Iterable[datetime | None], took: timedelta | None, now: datetime) -> list[datetime]:
    """Return when unfinished runs are expected to end; those that wait begin after the others."""
    usual = took or timedelta(0)
    ends: list[datetime] = []
    for began in started:
        ends.append(max(began + usual, now) if began else max([now, *ends]) + usual)
    return ends


def _line(timeline: Timeline, prompt: Prompt | None) -> Line:
    job = timeline.job
    return Line(
        job.public_id,
        job.name,
        job.task,
        timeline.count,
        min((batch.first for batch in timeline.starts), default=None),
        max((batch.last for batch in timeline.starts), default=None),
        sorted(timeline.left_out.values(), key=lambda each: each.first),
        timeline.waiting,
        timeline.past.took,
        timeline.problem,
        spend_of(timeline, prompt) if prompt and prompt.runner else None,
        timeline.follows.name if timeline.follows else "",
        bool(prompt and prompt.has_gate),
    )


def _total(lines: Sequence[Line]) -> Total | None:
    spends = [line.spend for line in lines if line.spend and line.spend.runs]
    if not spends:
        return None
    estimated = [spend for spend in spends if spend.minutes is not None]
    return Total(
        sum(spend.runs for spend in spends),
        sum(spend.tokens or 0 for spend in estimated),
        sum((spend.money or Decimal(0) for spend in estimated), Decimal(0)),
        sum(spend.minutes or 0 for spend in estimated),
        len(spends) - len(estimated),
        sum(spend.money is None for spend in estimated),
    )
