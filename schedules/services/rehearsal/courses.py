"""The course of one job in a rehearsal: which slots start, and which are left out and why, as the engine would decide."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

from schedules.engine.gaps import Slot
from schedules.engine.plan import apply_overlap, plan
from schedules.engine.sql.claims import DueJob
from schedules.engine.too_late import catch_up_window, start_limit, why_never_started
from schedules.models import Execution, Job
from schedules.models.jobs import skips_of, why_skipped
from schedules.when.durations import TICK
from schedules.when.forecast import PendingJob, runs_ahead
from schedules.when.skips import Skips
from schedules.when.slot_batches import Batch
from schedules.when.triggers import TriggerError, unreadable

Status = Execution.Status
Cause = Execution.Cause

# How many slots one rehearsal decides one by one; the others are counted without a look at overlaps.
MAX_DECIDED = 50_000
NOT_ACTIVE = "The owner's account is not active."
NO_WORKER_THEN = "No worker claimed it in time."
_ONE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Period:
    """What is rehearsed: from a moment that is now or later, up to but not including the end."""

    now: datetime
    start: datetime
    end: datetime


@dataclass(slots=True)
class LeftOut:
    """The slots of one job that do not run for the same reason."""

    reason: str
    first: datetime
    last: datetime
    count: int = 1

    def add(self, first: datetime, last: datetime, count: int) -> None:
        self.first, self.last = min(self.first, first), max(self.last, last)
        self.count += count


@dataclass(slots=True)
class Past:
    """What a job's past tells: how long its runs take, and when those under way are expected to end."""

    took: timedelta | None = None
    ends: Sequence[datetime] = ()


class Budget:
    """How many slots may still be decided one by one."""

    def __init__(self, slots: int = MAX_DECIDED) -> None:
        self._left = slots

    def allows(self, slots: int) -> bool:
        if slots > self._left:
            return False
        self._left -= slots
        return True


@dataclass(slots=True)
class Course:
    """What a rehearsal says of one job."""

    job: DueJob
    past: Past
    starts: list[Batch] = field(default_factory=list)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    waiting: int = 0
    """How many of the starts wait for the run before."""
    problem: str = ""
    """Why its runs would fail, or why it cannot be planned."""
    is_unchecked: bool = False
    """Whether there were too many slots to look for overlaps."""
    follows: DueJob | None = None

    @property
    def count(self) -> int:
        return sum(map(len, self.starts))

    @property
    def first(self) -> datetime | None:
        """The first slot, whether it starts or is left out."""
        moments = [batch.first for batch in self.starts[:1]]
        return min([*moments, *(each.first for each in self.left_out.values())], default=None)

    def moments(self) -> Iterator[datetime]:
        return (moment for batch in self.starts for moment in batch.moments())

    def leave_out(self, reason: str, first: datetime, last: datetime | None = None, count: int = 1) -> None:
        if reason in self.left_out:
            self.left_out[reason].add(first, last or first, count)
        else:
            self.left_out[reason] = LeftOut(reason, first, last or first, count)

    def leave_out_all(self, reason: str) -> None:
        """Take back all starts for one reason."""
        for batch in self.starts:
            self.leave_out(reason, batch.first, batch.last, len(batch))
        self.starts = []


def course_of(
    job: DueJob, period: Period, past: Past, budget: Budget, grace: timedelta | None = None
) -> Course:
    """Rehearse a job with a next run; `grace` is that of a heartbeat, whose slots wait for pings."""
    course = Course(job, past)
    try:
        later = _claim_overdue(course, period, grace) if job.next_run_at <= period.now else job
        if later is not None:
            _plan_ahead(course, later, period, budget, has_overlaps=grace is None)
    except TriggerError as error:
        course.problem = unreadable(error)
    return course


def course_after(
    job: DueJob, upstream: Course, delay: timedelta, period: Period, past: Past, budget: Budget
) -> Course:
    """Rehearse a job that is started by the ends of the runs of another one, so long after them."""
    course = Course(job, past, follows=upstream.job)
    if not job.owner_is_active:
        return course
    shift = delay + (upstream.past.took or timedelta(0))
    later = (Batch(batch.origin + shift, batch.seconds).split(period.end)[0] for batch in upstream.starts)
    starts = [batch for batch in later if batch]
    if not budget.allows(sum(map(len, starts))):
        course.starts, course.is_unchecked = starts, True
        return course
    for moment in (moment for batch in starts for moment in batch.moments()):
        if reason := why_skipped(job, moment):
            course.leave_out(reason, moment)
        else:
            course.starts.append(Batch(moment))
    if _may_overlap(job, past, course.starts):
        course.starts = _without_overlaps(course, job, course.starts, budget)
    return course


def _claim_overdue(course: Course, period: Period, grace: timedelta | None) -> DueJob | None:
    """Plan what is due already as the next claim will; return the job after it, or None if it has no more slots."""
    job = course.job
    claimed = plan(
        job,
        period.now,
        live=len(course.past.ends),
        owner_is_active=job.owner_is_active,
        why_missed=lambda slot: NO_WORKER_THEN,
        grace=grace,
    )
    if period.start == period.now:
        for slot in claimed.slots:
            if slot.status in Execution.LIVE:
                course.starts.append(Batch(slot.at))
                course.waiting += slot.status == Status.QUEUED and grace is None
            else:
                course.leave_out(slot.reason, slot.at, slot.last, slot.count)
    if claimed.next_run_at is None:
        return None
    started = len(claimed.to_run)
    if started and course.past.took and grace is None:
        ends = list(course.past.ends)
        for _ in range(started):
            ends.append(max([period.now, *ends]) + course.past.took)
        course.past = Past(course.past.took, ends)
    return job._replace(next_run_at=claimed.next_run_at, slot_count=job.slot_count + started)


def _plan_ahead(course: Course, job: DueJob, period: Period, budget: Budget, *, has_overlaps: bool) -> None:
    """Add what lies ahead of a job whose next run is not due yet."""
    left = None if job.max_runs is None else job.max_runs - job.slot_count
    armed = PendingJob(job.trigger, job.next_run_at, job.ends_at, left, skips_of(job))
    starts = list(_ahead(armed, period))
    if not job.owner_is_active:
        ahead = Course(job, course.past, list(_ahead(replace(armed, skips=None, runs_left=None), period)))
        for batch in ahead.starts:
            course.leave_out(NOT_ACTIVE, batch.first, batch.last, len(batch))
        return
    if armed.skips:
        _add_skipped(course, armed, starts, period, budget)
    if has_overlaps and _may_overlap(job, course.past, starts):
        # A slot that is skipped for an overlap does not count as one of the runs that are left.
        unlimited = list(_ahead(replace(armed, runs_left=None), period)) if left is not None else starts
        total = sum(map(len, starts))
        most = total if sum(map(len, unlimited)) > total else None
        starts = _without_overlaps(course, job, unlimited, budget, most)
    course.starts += starts


def _ahead(armed: PendingJob, period: Period) -> Iterator[Batch]:
    return filter(None, runs_ahead(armed, period.now, period.end, start=period.start))


def _add_skipped(
    course: Course, armed: PendingJob, starts: Sequence[Batch], period: Period, budget: Budget
) -> None:
    """Add the slots that skipped days, skipped slots and calendars leave out, with their reasons."""
    assert armed.skips
    end = period.end
    if armed.runs_left is not None and sum(map(len, starts)) >= armed.runs_left:
        # The job ends with its last run.
        end = starts[-1].last if starts else period.start
    every = list(_ahead(replace(armed, skips=None, runs_left=None), replace(period, end=end)))
    if not budget.allows(sum(map(len, every))):
        course.is_unchecked = True
        return
    kept = {moment for batch in starts for moment in batch.moments()}
    skipped = [moment for batch in every for moment in batch.moments() if moment not in kept]
    for first, last, count, reason in _by_reason(armed.skips, skipped):
        course.leave_out(reason, first, last, count)


def _by_reason(skips: Skips, skipped: Sequence[datetime]) -> Iterator[tuple[datetime, datetime, int, str]]:
    """Yield the skipped slots in groups; those of one closed time have one reason, which is looked up once."""
    place = 0
    while place < len(skipped):
        first = skipped[place]
        until, begin = skips.last_moment(first), place
        while place < len(skipped) and (skipped[place] <= until or place == begin):
            place += 1
        yield first, skipped[place - 1], place - begin, skips.reason(first)


def _may_overlap(job: DueJob, past: Past, starts: Sequence[Batch]) -> bool:
    if job.overlap == Job.Overlap.ALLOW or job.trigger_type == Job.TriggerType.ONCE or not starts:
        return False
    if past.ends and max(past.ends) > starts[0].first:
        return True
    return bool(past.took) and _shortest_gap(starts, past.took or timedelta(0)) < (past.took or timedelta(0))


def _shortest_gap(starts: Sequence[Batch], enough: timedelta) -> timedelta:
    """Return the shortest time between two starts, or any that is shorter than `enough`."""
    shortest = timedelta.max
    for earlier, later in pairwise(starts):
        shortest = min(shortest, later.first - earlier.last)
    seen: set[int] = set()
    for batch in starts:
        if shortest < enough:
            break
        # The batches of several days share their seconds.
        if len(batch) > 1 and id(batch.seconds) not in seen:
            seen.add(id(batch.seconds))
            shortest = min(shortest, _closest(batch.seconds) * _ONE)
    return shortest


def _closest(seconds: Sequence[int]) -> int:
    if isinstance(seconds, range):
        return seconds.step
    return min(later - earlier for earlier, later in pairwise(seconds))


def _without_overlaps(
    course: Course, job: DueJob, starts: Sequence[Batch], budget: Budget, most: int | None = None
) -> list[Batch]:
    """Decide on every slot as a claim would, if runs take as long as before; at most so many are started."""
    if not budget.allows(sum(map(len, starts))):
        course.is_unchecked = True
        return list(starts)
    line = _RunsInLine(course, job)
    for batch in starts:
        for second, at in zip(batch.seconds, batch.moments(), strict=True):
            line.advance(at)
            if line.count == most:
                break
            line.add(at, (batch.origin, second))
    seconds: dict[datetime, list[int]] = defaultdict(list)
    for origin, second in line.kept:
        seconds[origin].append(second)
    return [Batch(origin, places) for origin, places in seconds.items()]


class _RunsInLine:
    """The runs of one job that do not overlap: one is under way, and others may wait for it."""

    def __init__(self, course: Course, job: DueJob) -> None:
        self._course, self._job = course, job
        self._took = course.past.took or TICK
        self._under_way = deque(sorted(course.past.ends))
        self._waiting: deque[datetime] = deque()
        self._kept: dict[datetime, tuple[datetime, int]] = {}
        self._window = catch_up_window()

    @property
    def kept(self) -> Iterable[tuple[datetime, int]]:
        """The slots that start, as the places that they were given with."""
        return self._kept.values()

    @property
    def count(self) -> int:
        return len(self._kept)

    def advance(self, now: datetime) -> None:
        """End the runs that are over by now, and start those that waited for them."""
        while self._under_way and self._under_way[0] <= now:
            ended_at = self._under_way.popleft()
            while self._waiting and not self._under_way:
                self._start_next(ended_at)

    def add(self, at: datetime, place: tuple[datetime, int]) -> None:
        live = len(self._under_way) + len(self._waiting)
        [slot] = apply_overlap(self._job, [Slot(at, Status.CLAIMED)], live, at)
        if slot.status == Status.SKIPPED:
            self._course.leave_out(slot.reason, at)
            return
        self._kept[at] = place
        if slot.status == Status.QUEUED:
            self._course.waiting += 1
            self._waiting.append(at)
        else:
            self._under_way.append(at + self._took)

    def _start_next(self, now: datetime) -> None:
        slot = self._waiting.popleft()
        if now - slot <= self._window:
            self._under_way.append(now + self._took)
            return
        self._course.waiting -= 1
        del self._kept[slot]
        limit = start_limit(self._job, Cause.SCHEDULE)
        self._course.leave_out(why_never_started(limit), slot)
