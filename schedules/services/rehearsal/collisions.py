"""Collisions in a rehearsal: minutes in which many runs start, and runs that wait because their lane is full."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from django.conf import settings

from schedules.models import Cluster
from schedules.services.rehearsal.agents import Prompt
from schedules.services.rehearsal.timelines import Period, Timeline
from schedules.tasks import registry
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.tasks.registry import Lane
from schedules.when.slot_batches import Batch

# A minute with this many starts is crowded; at most MAX_CROWDS of them are listed, with at most MAX_NAMES names each.
MANY_STARTS = 10
MAX_CROWDS = 5
MAX_NAMES = 5
# How many starts are counted, and how many runs of a lane are simulated to their end.
MAX_COUNTED = 1_000_000
MAX_FOLLOWED = 50_000
_MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Shape: TypeAlias = range | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Crowd:
    """A minute in which many runs start."""

    at: datetime
    starts: int
    names: Sequence[str]
    """The names of the first jobs."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Runs that wait because their lane is full, assuming that they take as long as before."""

    lane: str
    capacity: int
    waiting: int
    """How many runs wait."""
    at: datetime
    """The start of the run that waits longest."""
    longest: timedelta


@dataclass(frozen=True, slots=True)
class Collisions:
    crowds: Sequence[Crowd]
    crowded_minutes: int
    queues: Sequence[Queue]
    is_cut: bool
    """Whether there were too many starts to count all."""


def find_collisions(
    timelines: Sequence[Timeline], prompts: Mapping[int, Prompt], period: Period
) -> Collisions:
    """Find the crowded minutes and the queues of these jobs."""
    starting = [timeline for timeline in timelines if timeline.starts and timeline.job.task != HEARTBEAT]
    counts, is_cut = _per_minute(starting, period.start, period.end)
    crowded = [(count, -minute) for minute, count in enumerate(counts) if count >= MANY_STARTS]
    first = _minute_of(period.start)
    crowds = []
    for count, minute in heapq.nlargest(MAX_CROWDS, crowded):
        at = _EPOCH + (first - minute) * _MINUTE
        crowds.append(Crowd(at, count, _names_at(starting, at)))
    queues, has_more = _queues(starting, prompts, period.now)
    return Collisions(sorted(crowds, key=lambda crowd: crowd.at), len(crowded), queues, is_cut or has_more)


def _minute_of(moment: datetime) -> int:
    return (moment - _EPOCH) // _MINUTE


def _per_minute(timelines: Iterable[Timeline], start: datetime, end: datetime) -> tuple[list[int], bool]:
    """Count the starts of each minute; jobs with the same times are counted together."""
    shared: Counter[tuple[int, _Shape]] = Counter()
    for timeline in timelines:
        for batch in timeline.starts:
            shared[_shape(batch)] += 1
    first = _minute_of(start)
    counts = [0] * (_minute_of(end) - first + 1)
    remaining = MAX_COUNTED
    for (origin, seconds), times in shared.items():
        remaining -= len(seconds)
        if remaining < 0:
            return counts, True
        offset = origin - 60 * first
        if offset < 0:
            # A missed run that is made up for starts now, whenever it was due.
            counts[0] += times
            continue
        for second in seconds:
            counts[(offset + second) // 60] += times
    return counts, False


def _shape(batch: Batch) -> tuple[int, _Shape]:
    """Return a key that is equal for batches whose runs start in the same minutes."""
    seconds = batch.seconds if isinstance(batch.seconds, range | tuple) else tuple(batch.seconds)
    origin = int((batch.origin - _EPOCH).total_seconds())
    if isinstance(seconds, range) and seconds.step % 60 == 0:
        origin -= origin % 60
    return origin, seconds


def _names_at(timelines: Iterable[Timeline], minute: datetime) -> list[str]:
    names: dict[str, None] = {}
    end = minute + _MINUTE
    for timeline in timelines:
        if any(
            batch.first < end and batch.last >= minute and batch.between(minute, end)
            for batch in timeline.starts
        ):
            names[timeline.job.name] = None
            if len(names) == MAX_NAMES:
                break
    return list(names)


def _queues(
    timelines: Sequence[Timeline], prompts: Mapping[int, Prompt], now: datetime
) -> tuple[list[Queue], bool]:
    """Simulate the runs of each lane with a limited capacity."""
    lanes: dict[tuple[str, int], list[Timeline]] = defaultdict(list)
    clusters = max(1, Cluster.objects.fresh(now).count())
    for timeline in timelines:
        if timeline.past.took and (lane := _lane_of(timeline, prompts, clusters)):
            lanes[lane].append(timeline)
    queues, is_cut = [], False
    for (name, capacity), group in sorted(lanes.items(), key=lambda item: item[0]):
        if sum(timeline.count for timeline in group) > MAX_FOLLOWED:
            is_cut = True
        elif queue := _queue(name, capacity, group):
            queues.append(queue)
    return queues, is_cut


def _lane_of(timeline: Timeline, prompts: Mapping[int, Prompt], clusters: int) -> tuple[str, int] | None:
    """Return the label and the capacity of the lane of a job, or None if it has no limit."""
    if prompt := prompts.get(timeline.job.pk):
        return (f"The runner {prompt.choice.name}", prompt.runner.at_once) if prompt.runner else None
    task = registry.get(timeline.job.task)
    if task is None or task.lane is Lane.COROUTINE:
        return None
    if task.lane is Lane.COMMAND:
        return "Commands", settings.CRONTY_COMMANDS_AT_ONCE * clusters
    return "Functions", settings.CRONTY_WORKERS * clusters


def _queue(name: str, capacity: int, timelines: Sequence[Timeline]) -> Queue | None:
    ends: list[datetime] = []
    waiting, longest, worst = 0, timedelta(0), None
    for at, took in sorted(_runs(timelines)):
        while ends and ends[0] <= at:
            heapq.heappop(ends)
        begin = at
        if len(ends) >= capacity:
            # It starts when the first of the others ends.
            begin = heapq.heappop(ends)
            waiting += 1
            if begin - at > longest:
                longest, worst = begin - at, at
        heapq.heappush(ends, begin + took)
    return Queue(name, capacity, waiting, worst, longest) if worst else None


def _runs(timelines: Iterable[Timeline]) -> Iterator[tuple[datetime, timedelta]]:
    for timeline in timelines:
        took = timeline.past.took or timedelta(0)
        yield from ((at, took) for at in timeline.moments())
