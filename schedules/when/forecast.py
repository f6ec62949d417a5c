"""Forecasts: when and how often a schedule fires in a period of time.

Runs are counted a day at a time, because an every-minute job has 43,200 runs in a month. The result is the same as
with repeated calls of `next_after`, also on days when clocks change.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from schedules.when import cron
from schedules.when.calendars import FARTHEST_MOVE, Closed
from schedules.when.durations import TICK
from schedules.when.event_times import AtEvents
from schedules.when.moves import JobTrigger, Moved
from schedules.when.skips import Skips
from schedules.when.spread import Spread
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once
from schedules.when.unplanned import Unplanned
from schedules.when.zones import clock_changes, offset_at

# A job with a limited number of runs is counted from its next run on, and only this far ahead.
COUNTED_AHEAD = timedelta(days=400)
# Clocks have never been set back by more than a day, so older changes cannot repeat a wall time.
_LONGEST_REPEAT = timedelta(days=2)
# The slots of longer periods are not kept in memory.
_SHARED = timedelta(days=40)
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive runs of one job: an origin and the seconds from there to each run, in ascending order."""

    origin: datetime
    seconds: Sequence[int] = (0,)

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def first(self) -> datetime:
        return self.origin + timedelta(seconds=self.seconds[0])

    @property
    def last(self) -> datetime:
        return self.origin + timedelta(seconds=self.seconds[-1])

    def moments(self) -> Iterator[datetime]:
        return (self.origin + timedelta(seconds=seconds) for seconds in self.seconds)

    def split(self, moment: datetime) -> tuple["Batch", "Batch"]:
        """Return the runs before a moment and the runs from it on."""
        # Rounded up: the moment may have a fraction of a second.
        place = bisect_left(self.seconds, -((self.origin - moment) // _SECOND))
        return Batch(self.origin, self.seconds[:place]), Batch(self.origin, self.seconds[place:])

    def between(self, start: datetime, end: datetime) -> "Batch":
        """Return the runs from start on and before end."""
        low, high = (-((self.origin - moment) // _SECOND) for moment in (start, end))
        if low <= self.seconds[0] and self.seconds[-1] < high:
            return self
        places = slice(bisect_left(self.seconds, low), bisect_left(self.seconds, high))
        return Batch(self.origin, self.seconds[places])


@dataclass(frozen=True, slots=True)
class Armed:
    """The data of a pending job that a forecast needs."""

    trigger: JobTrigger
    next_run_at: datetime
    ends_at: datetime | None = None
    runs_left: int | None = None
    skips: Skips | None = None


def runs_ahead(job: Armed, now: datetime, end: datetime, *, start: datetime | None = None) -> Iterator[Batch]:
    """Yield a job's runs from now, or from a later start, up to but not including the end.

    An overdue one-time job runs now. An overdue run of a repeating job is not shown, but counts as one of its runs.
    """
    start = max(start or now, now)
    first = job.next_run_at
    if isinstance(job.trigger, Once):
        first = max(first, now)
    if job.ends_at is not None and job.ends_at < end:
        end = job.ends_at + TICK
    if job.runs_left is None:
        yield from _without(job.skips, _from_next_run(job.trigger, first, start, end))
        return
    end = min(end, max(first, now) + COUNTED_AHEAD)
    left = job.runs_left - _count_before(job, first, now, min(start, end))
    for batch in _without(job.skips, _from_next_run(job.trigger, first, start, end)):
        if left <= 0:
            return
        yield batch if len(batch) <= left else Batch(batch.origin, batch.seconds[:left])
        left -= len(batch)


def _count_before(job: Armed, first: datetime, now: datetime, start: datetime) -> int:
    """Count the runs before a later start, an overdue one included; those that are skipped do not count."""
    if job.skips is None:
        return (first < now) + _count_from_next_run(job.trigger, first, now, start)
    is_overdue = first < now and not job.skips.reason(first)
    return is_overdue + sum(map(len, _without(job.skips, _from_next_run(job.trigger, first, now, start))))


def _without(skips: Skips | None, batches: Iterable[Batch]) -> Iterable[Batch]:
    """Remove the runs that a job skips."""
    if skips is None:
        return batches
    if skips.closed:
        batches = _open_parts(skips.closed, batches)
    if skips.entries:
        batches = (_kept(batch, skips) for batch in batches)
    return filter(None, batches)


def _open_parts(closed: Closed, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Cut closed spans out of batches, which is much faster than checking each run."""
    for batch in batches:
        rest = batch
        for span in closed.between(batch.first, batch.last):
            before, rest = rest.split(span.start)
            if before:
                yield before
            rest = rest.split(span.end)[1]
            if not rest:
                break
        if rest:
            yield rest


def _kept(batch: Batch, skips: Skips) -> Batch:
    moments = zip(batch.seconds, batch.moments(), strict=True)
    return Batch(batch.origin, [seconds for seconds, moment in moments if not skips.is_entered(moment)])


def _from_next_run(trigger: JobTrigger, first: datetime, start: datetime, end: datetime) -> Iterator[Batch]:
    """Yield the next run and the slots after it, between two moments."""
    # The engine uses the stored next run, even if the trigger would not produce it today.
    if start <= first < end:
        yield Batch(first)
    later = max(start, first + TICK)
    if isinstance(trigger, Cron) and end - start <= _SHARED:
        yield from filter(None, (batch.between(later, end) for batch in _cron_batches(trigger, start, end)))
    else:
        yield from slots(trigger, later, end)


def _count_from_next_run(trigger: JobTrigger, first: datetime, start: datetime, end: datetime) -> int:
    """Count what `_from_next_run` yields."""
    return (start <= first < end) + count_slots(trigger, max(start, first + TICK), end)


@lru_cache(maxsize=1024)
def _cron_batches(trigger: Cron, start: datetime, end: datetime) -> tuple[Batch, ...]:
    """Return the slots of a cron trigger, which jobs with the same schedule share."""
    return tuple(slots(trigger, start, end))


def slots(trigger: JobTrigger, start: datetime, end: datetime) -> Iterator[Batch]:
    """Yield the slots of a trigger from start on and before end."""
    if start >= end:
        return
    match trigger:
        case Cron(expression=expression, timezone=timezone):
            yield from _cron_slots(expression, timezone, start.astimezone(UTC), end.astimezone(UTC))
        case Interval(seconds=every):
            first = trigger.next_after(start - TICK)
            count = count_slots(trigger, start, end)
            if first is not None and count:
                yield Batch(first, range(0, count * int(every), int(every)))
        case CalendarInterval():
            slot = trigger.next_after(start - TICK)
            while slot is not None and slot < end:
                yield Batch(slot)
                slot = trigger.next_after(slot)
        case Once(run_at=run_at):
            if start <= run_at < end:
                yield Batch(run_at)
        case AtEvents():
            yield from map(Batch, trigger.between(start, end))
        case Unplanned():
            return
        case Spread(base=base, shift=shift):
            for batch in slots(base, start - shift, end - shift):
                yield Batch(batch.origin + shift, batch.seconds)
        case Moved(base=base):
            near = slots(base, start - FARTHEST_MOVE - _LONGEST_REPEAT, end + FARTHEST_MOVE + _LONGEST_REPEAT)
            moved = trigger.of(moment for batch in near for moment in batch.moments())
            yield from (Batch(moment) for moment in moved if start <= moment < end)


def count_slots(trigger: JobTrigger, start: datetime, end: datetime) -> int:
    """Count the slots of a trigger from start on and before end, without going through them."""
    if start >= end:
        return 0
    match trigger:
        case Cron(expression=expression, timezone=timezone):
            fields = " ".join(cron.split(expression))
            return sum(
                1 if offset is None else _count_matches(fields, offset, since, until)
                for offset, since, until in _periods(
                    expression, timezone, start.astimezone(UTC), end.astimezone(UTC)
                )
            )
        case Interval() | CalendarInterval():
            return trigger.count_between(start - TICK, end - TICK, (end - start) // _SECOND + 1)
        case Once(run_at=run_at):
            return int(start <= run_at < end)
        case AtEvents():
            return len(trigger.between(start, end))
        case Unplanned():
            return 0
        case Spread(base=base, shift=shift):
            return count_slots(base, start - shift, end - shift)
        case Moved():
            return sum(map(len, slots(trigger, start, end)))


def runs_per_minute(trigger: JobTrigger) -> float:
    """Return the average runs per minute on a day on which the trigger fires; 0 for a single run."""
    match trigger:
        case Cron(expression=expression):
            minute, hour = cron.split(expression)[:2]
            return len(_seconds_of_day(minute, hour)) / (24 * 60)
        case Interval(seconds=every):
            return 60 / every
        case CalendarInterval() | AtEvents():
            return 1 / (24 * 60)
        case Once() | Unplanned():
            return 0.0
        case Spread(base=base) | Moved(base=base):
            return runs_per_minute(base)


def _cron_slots(expression: str, timezone: str, start: datetime, end: datetime) -> Iterator[Batch]:
    """Yield the runs of a cron expression."""
    fields = " ".join(cron.split(expression))
    for offset, since, until in _periods(expression, timezone, start, end):
        if offset is None:
            yield Batch(since)
        else:
            yield from _matches(fields, offset, since, until)


def _periods(
    expression: str, timezone: str, start: datetime, end: datetime
) -> Iterator[tuple[timedelta | None, datetime, datetime]]:
    """Yield the periods of constant offset in which wall times are matched; without an offset, one run at the start.

    A wildcard schedule runs whenever the wall time matches. A fixed time runs when clocks first show it; if they skip
    it, it runs once when the gap ends.
    """
    zone, fields = ZoneInfo(timezone), cron.split(expression)
    is_fixed, joined = cron.is_fixed(fields), " ".join(fields)
    since = start - _LONGEST_REPEAT
    offset = offset_at(since, zone)
    for change in clock_changes(zone, since, end):
        yield offset, max(start, since), min(end, change.at)
        since, offset = change.at, offset + (change.new - change.old)
        if not is_fixed:
            continue
        if not change.is_forward:
            # The repeated wall times have already run.
            since += change.old - change.new
        elif (skipped := cron.next_wall(joined, change.old - TICK)) and skipped < change.new:
            if start <= change.at < end:
                yield None, change.at, change.at
            # A run at the end of the gap is the same run.
            since += TICK
    yield offset, max(start, since), end


def _matches(fields: str, offset: timedelta, start: datetime, end: datetime) -> Iterator[Batch]:
    """Yield the matching wall times of a period of constant offset, day by day."""
    if start >= end:
        return
    minute, hour, days = fields.split(" ", 2)
    seconds = _seconds_of_day(minute, hour)
    first, last = (start + offset).date(), (end + offset).date()
    for day in cron.days_between(days, first, last):
        batch = Batch(datetime.combine(day, time(), UTC) - offset, seconds)
        if first < day < last:
            yield batch
        elif inside := batch.between(start, end):
            yield inside


def _count_matches(fields: str, offset: timedelta, start: datetime, end: datetime) -> int:
    """Count what `_matches` yields: the whole days between the first and the last at once."""
    if start >= end:
        return 0
    minute, hour, days = fields.split(" ", 2)
    seconds = _seconds_of_day(minute, hour)
    first, last = (start + offset).date(), (end + offset).date()
    count = 0
    for day in {first, last}:
        if cron.count_days(days, day, day):
            count += len(Batch(datetime.combine(day, time(), UTC) - offset, seconds).between(start, end))
    if last - first > _DAY:
        count += cron.count_days(days, first + _DAY, last - _DAY) * len(seconds)
    return count


@lru_cache(maxsize=1024)
def _seconds_of_day(minute: str, hour: str) -> Sequence[int]:
    """Return the times of a day that the first two fields match, as seconds after midnight."""
    minutes, hours = cron.times(minute, hour)
    return tuple(3600 * hour + 60 * minute for hour in hours for minute in minutes)


@dataclass(slots=True)
class Bucket:
    """A period of time, the number of runs in it, and that number per job."""

    start: datetime
    count: int = 0
    jobs: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, count: int) -> None:
        self.count += count
        self.jobs[name] = self.jobs.get(name, 0) + count


def fill(buckets: list[Bucket], name: str, runs: Iterable[Batch], width: timedelta) -> None:
    """Count the runs of one job in buckets of equal width; the first bucket starts no later than the runs."""
    start = buckets[0].start
    for batch in runs:
        rest = batch
        while rest and (place := (rest.first - start) // width) < len(buckets):
            inside, rest = rest.split(start + (place + 1) * width)
            buckets[place].add(name, len(inside))


def per_day(
    job: Armed, now: datetime, end: datetime, zone: str, *, start: datetime | None = None
) -> dict[date, tuple[datetime, int]]:
    """Return the first run and the number of runs on each day of a zone."""
    is_own = job.runs_left is not None or job.ends_at is not None or job.skips is not None
    if is_own or not isinstance(job.trigger, Cron):
        return _by_day(runs_ahead(job, now, end, start=start), zone)
    # From the second day on, jobs with the same schedule share one cached answer.
    first = max(job.next_run_at, start or now, now).astimezone(ZoneInfo(zone)).date()
    second = start_of_day(first + _DAY, zone)
    days = _by_day(runs_ahead(job, now, min(second, end), start=start), zone)
    if second < end:
        days |= _cron_days(job.trigger, second, end.astimezone(UTC), zone)
    return days


@lru_cache(maxsize=1024)
def _cron_days(trigger: Cron, start: datetime, end: datetime, zone: str) -> dict[date, tuple[datetime, int]]:
    return _by_day(slots(trigger, start, end), zone)


def _by_day(runs: Iterable[Batch], zone: str) -> dict[date, tuple[datetime, int]]:
    days: dict[date, tuple[datetime, int]] = {}
    place = ZoneInfo(zone)
    for batch in runs:
        rest = batch
        while rest:
            moment = rest.first
            day = moment.astimezone(place).date()
            # At least the first run: where clocks go back over midnight, that day's end may have passed.
            inside, rest = rest.split(max(start_of_day(day + _DAY, zone), moment + _SECOND))
            first, count = days.get(day, (moment, 0))
            days[day] = (first, count + len(inside))
    return days


@lru_cache(maxsize=4096)
def start_of_day(day: date, zone: str) -> datetime:
    """Return the first moment of a day in a zone, in UTC."""
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
