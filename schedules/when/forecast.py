"""Forecasts of a job: its runs ahead, with its end, its limit of runs and what it skips, and its runs per day."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from schedules.when.calendars import ClosedTimes
from schedules.when.durations import TICK
from schedules.when.moves import JobTrigger
from schedules.when.skips import Skips
from schedules.when.slot_batches import Batch, count_slots, slots
from schedules.when.triggers import Cron, Once

# The runs of a job with a limit of runs are counted from its next run on, and only this far ahead.
COUNTED_AHEAD = timedelta(days=400)
# The slots of longer periods are not cached.
_CACHED_PERIOD = timedelta(days=40)
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class PendingJob:
    """The data of a pending job that a forecast needs."""

    trigger: JobTrigger
    next_run_at: datetime
    ends_at: datetime | None = None
    runs_left: int | None = None
    skips: Skips | None = None


def runs_ahead(
    job: PendingJob, now: datetime, end: datetime, *, start: datetime | None = None
) -> Iterator[Batch]:
    """Yield a job's runs from now, or from a later start, up to but not including the end.

    An overdue one-time job runs now. An overdue run of a repeating job is not listed, but counts as one of its runs.
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
    remaining = job.runs_left - _count_before(job, first, now, min(start, end))
    for batch in _without(job.skips, _from_next_run(job.trigger, first, start, end)):
        if remaining <= 0:
            return
        yield batch if len(batch) <= remaining else Batch(batch.origin, batch.seconds[:remaining])
        remaining -= len(batch)


def _count_before(job: PendingJob, first: datetime, now: datetime, start: datetime) -> int:
    """Count the runs before a later start, an overdue one included; those that are skipped do not count."""
    if job.skips is None:
        return (first < now) + _count_from_next_run(job.trigger, first, now, start)
    is_overdue = first < now and not job.skips.reason(first)
    return is_overdue + sum(map(len, _without(job.skips, _from_next_run(job.trigger, first, now, start))))


def _without(skips: Skips | None, batches: Iterable[Batch]) -> Iterable[Batch]:
    """Filter out the runs that a job skips."""
    if skips is None:
        return batches
    if skips.closed:
        batches = _open_parts(skips.closed, batches)
    if skips.entries:
        batches = (_without_entries(batch, skips) for batch in batches)
    return filter(None, batches)


def _open_parts(closed: ClosedTimes, batches: Iterable[Batch]) -> Iterator[Batch]:
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


def _without_entries(batch: Batch, skips: Skips) -> Batch:
    moments = zip(batch.seconds, batch.moments(), strict=True)
    return Batch(batch.origin, [seconds for seconds, moment in moments if not skips.is_entered(moment)])


def _from_next_run(trigger: JobTrigger, first: datetime, start: datetime, end: datetime) -> Iterator[Batch]:
    """Yield the next run and the slots after it, between two moments."""
    # The engine runs the stored next run, even if the trigger would not produce it any more.
    if start <= first < end:
        yield Batch(first)
    later = max(start, first + TICK)
    if isinstance(trigger, Cron) and end - start <= _CACHED_PERIOD:
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
    job: PendingJob, now: datetime, end: datetime, zone: str, *, start: datetime | None = None
) -> dict[date, tuple[datetime, int]]:
    """Return the first run and the number of runs on each day of a zone."""
    has_limits = job.runs_left is not None or job.ends_at is not None or job.skips is not None
    if has_limits or not isinstance(job.trigger, Cron):
        return _by_day(runs_ahead(job, now, end, start=start), zone)
    # From the second day on, jobs with the same schedule share one cached result.
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
            # At least the first run: if clocks go back over midnight, the end of its day may lie before it.
            inside, rest = rest.split(max(start_of_day(day + _DAY, zone), moment + _SECOND))
            first, count = days.get(day, (moment, 0))
            days[day] = (first, count + len(inside))
    return days


@lru_cache(maxsize=4096)
def start_of_day(day: date, zone: str) -> datetime:
    """Return the first moment of a day in a zone, in UTC."""
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
