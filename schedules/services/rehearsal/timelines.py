"""The timeline of one job in a rehearsal: which slots start, and which the engine would leave out, and why."""

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

# How many slots one rehearsal decides one by one; beyond that, they are counted without checking overlaps.
MAX_DECIDED = 50_000
NOT_ACTIVE = "The owner's account is not active."
NO_WORKER_THEN = "No worker claimed it in time."
_ONE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Period:
    """The period of a rehearsal, which starts now or later; its end is excluded."""

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
    """What is known from past runs: how long a run takes, and when those under way are expected to end."""

    took: timedelta | None = None
    ends: Sequence[datetime] = ()


class Budget:
    """How many slots may still be decided one by one."""

    def __init__(self, slots: int = MAX_DECIDED) -> None:
        self._remaining = slots

    def allows(self, slots: int) -> bool:
        if slots > self._remaining:
            return False
        self._remaining -= slots
        return True


@dataclass(slots=True)
class Timeline:
    """What a rehearsal says of one job."""

    job: DueJob
    past: Past
    starts: list[Batch] = field(default_factory=list)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    waiting: int = 0
    """How many of the starts wait for the previous run to end."""
    problem: str = ""
    """Why its runs would fail, or why it cannot be planned."""
    is_unchecked: bool = False
    """Whether there were too many slots to check for overlaps."""
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
        """Leave out all starts for one reason."""
        for batch in self.starts:
            self.leave_out(reason, batch.first, batch.last, len(batch))
        self.starts = []


def timeline_of(
    job: DueJob, period: Period, past: Past, budget: Budget, grace: timedelta | None = None
) -> Timeline:
    """Rehearse a job with a next run; `grace` is that of a heartbeat, whose slots wait for pings."""
    timeline = Timeline(job, past)
    try:
        later = _claim_overdue(timeline, period, grace) if job.next_run_at <= period.now else job
        if later is not None:
            _plan_ahead(timeline, later, period, budget, has_overlaps=grace is None)
    except TriggerError as error:
        timeline.problem = unreadable(error)
    return timeline


def timeline_after(
    job: DueJob, upstream: Timeline, delay: timedelta, period: Period, past: Past, budget: Budget
) -> Timeline:
    """Rehearse a job that starts a delay after each run of another job ends."""
    timeline = Timeline(job, past, follows=upstream.job)
    if not job.owner_is_active:
        return timeline
    shift = delay + (upstream.past.took or timedelta(0))
    later = (Batch(batch.origin + shift, batch.seconds).split(period.end)[0] for batch in upstream.starts)
    starts = [batch for batch in later if batch]
    if not budget.allows(sum(map(len, starts))):
        timeline.starts, timeline.is_unchecked = starts, True
        return timeline
    for moment in (moment for batch in starts for moment in batch.moments()):
        if reason := why_skipped(job, moment):
            timeline.leave_out(reason, moment)
        else:
            timeline.starts.append(Batch(moment))
    if _may_overlap(job, past, timeline.starts):
        timeline.starts = _without_overlaps(timeline, job, timeline.starts, budget)
    return timeline


def _claim_overdue(timeline: Timeline, period: Period, grace: timedelta | None) -> DueJob | None:
    """Plan the slots that are already due, as the next claim will; return the job after that, or None if it is done."""
    job = timeline.job
    claimed = plan(
        job,
        period.now,
        live=len(timeline.past.ends),
        owner_is_active=job.owner_is_active,
        why_missed=lambda slot: NO_WORKER_THEN,
        grace=grace,
    )
    if period.start == period.now:
        for slot in claimed.slots:
            if slot.status in Execution.LIVE:
                timeline.starts.append(Batch(slot.at))
                timeline.waiting += slot.status == Status.QUEUED and grace is None
            else:
                timeline.leave_out(slot.reason, slot.at, slot.last, slot.count)
    if claimed.next_run_at is None:
        return None
    started = len(claimed.to_run)
    if started and timeline.past.took and grace is None:
        ends = list(timeline.past.ends)
        for _ in range(started):
            ends.append(max([period.now, *ends]) + timeline.past.took)
        timeline.past = Past(timeline.past.took, ends)
    return job._replace(next_run_at=claimed.next_run_at, slot_count=job.slot_count + started)


def _plan_ahead(
    timeline: Timeline, job: DueJob, period: Period, budget: Budget, *, has_overlaps: bool
) -> None:
    """Add what lies ahead of a job whose next run is not due yet."""
    runs_left = None if job.max_runs is None else job.max_runs - job.slot_count
    pending = PendingJob(job.trigger, job.next_run_at, job.ends_at, runs_left, skips_of(job))
    starts = list(_ahead(pending, period))
    if not job.owner_is_active:
        ahead = Timeline(
            job, timeline.past, list(_ahead(replace(pending, skips=None, runs_left=None), period))
        )
        for batch in ahead.starts:
            timeline.leave_out(NOT_ACTIVE, batch.first, batch.last, len(batch))
        return
    if pending.skips:
        _add_skipped(timeline, pending, starts, period, budget)
    if has_overlaps and _may_overlap(job, timeline.past, starts):
        # A slot that is skipped because of an overlap does not count towards the limit of runs.
        unlimited = starts if runs_left is None else list(_ahead(replace(pending, runs_left=None), period))
        total = sum(map(len, starts))
        max_starts = total if sum(map(len, unlimited)) > total else None
        starts = _without_overlaps(timeline, job, unlimited, budget, max_starts)
    timeline.starts += starts


def _ahead(pending: PendingJob, period: Period) -> Iterator[Batch]:
    return filter(None, runs_ahead(pending, period.now, period.end, start=period.start))


def _add_skipped(
    timeline: Timeline, pending: PendingJob, starts: Sequence[Batch], period: Period, budget: Budget
) -> None:
    """Add the slots that skipped days, skipped slots and calendars leave out, with their reasons."""
    assert pending.skips
    end = period.end
    if pending.runs_left is not None and sum(map(len, starts)) >= pending.runs_left:
        # The job ends with its last run.
        end = starts[-1].last if starts else period.start
    every = list(_ahead(replace(pending, skips=None, runs_left=None), replace(period, end=end)))
    if not budget.allows(sum(map(len, every))):
        timeline.is_unchecked = True
        return
    started = {moment for batch in starts for moment in batch.moments()}
    skipped = [moment for batch in every for moment in batch.moments() if moment not in started]
    for first, last, count, reason in _by_reason(pending.skips, skipped):
        timeline.leave_out(reason, first, last, count)


def _by_reason(skips: Skips, skipped: Sequence[datetime]) -> Iterator[tuple[datetime, datetime, int, str]]:
    """Yield the skipped slots in groups; those in one closed time share a reason, which is looked up once."""
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
    timeline: Timeline, job: DueJob, starts: Sequence[Batch], budget: Budget, max_starts: int | None = None
) -> list[Batch]:
    """Decide on every slot as a claim would, assuming that runs take as long as before; start at most `max_starts`."""
    if not budget.allows(sum(map(len, starts))):
        timeline.is_unchecked = True
        return list(starts)
    queue = _SequentialRuns(timeline, job)
    for batch in starts:
        for second, at in zip(batch.seconds, batch.moments(), strict=True):
            queue.advance(at)
            if queue.count == max_starts:
                break
            queue.add(at, (batch.origin, second))
    seconds: dict[datetime, list[int]] = defaultdict(list)
    for origin, second in queue.started:
        seconds[origin].append(second)
    return [Batch(origin, places) for origin, places in seconds.items()]


class _SequentialRuns:
    """The runs of one job, one at a time; others may wait for the one under way."""

    def __init__(self, timeline: Timeline, job: DueJob) -> None:
        self._timeline, self._job = timeline, job
        self._took = timeline.past.took or TICK
        self._under_way = deque(sorted(timeline.past.ends))
        self._waiting: deque[datetime] = deque()
        self._started: dict[datetime, tuple[datetime, int]] = {}
        self._window = catch_up_window()

    @property
    def started(self) -> Iterable[tuple[datetime, int]]:
        """The slots that start, each as the origin of its batch and the seconds from there."""
        return self._started.values()

    @property
    def count(self) -> int:
        return len(self._started)

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
            self._timeline.leave_out(slot.reason, at)
            return
        self._started[at] = place
        if slot.status == Status.QUEUED:
            self._timeline.waiting += 1
            self._waiting.append(at)
        else:
            self._under_way.append(at + self._took)

    def _start_next(self, now: datetime) -> None:
        slot = self._waiting.popleft()
        if now - slot <= self._window:
            self._under_way.append(now + self._took)
            return
        self._timeline.waiting -= 1
        del self._started[slot]
        limit = start_limit(self._job, Cause.SCHEDULE)
        self._timeline.leave_out(why_never_started(limit), slot)
