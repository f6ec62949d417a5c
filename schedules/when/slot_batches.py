"""Slots of a trigger in batches: listed and counted a day at a time, with the same result as `next_after`.

An every-minute job has 43,200 slots in a month, too many to find one by one.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from schedules.when import cron
from schedules.when.calendars import FARTHEST_MOVE
from schedules.when.durations import TICK
from schedules.when.event_times import AtEvents
from schedules.when.moves import JobTrigger, Moved
from schedules.when.spread import Spread
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once
from schedules.when.unplanned import Unplanned
from schedules.when.zones import clock_changes, offset_at

# Clocks have never been set back by more than a day, so older changes cannot repeat a wall time.
_LONGEST_REPEAT = timedelta(days=2)
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
