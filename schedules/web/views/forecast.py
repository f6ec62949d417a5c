"""How often does each job fire, hour by hour? Counted from its cron fields, never run by run.

Walking an every-minute job through a day costs 1,440 steps; its fields say the same at once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim

from schedules.models import Job
from schedules.models.jobs import JobQuerySet
from schedules.when import cron
from schedules.when.triggers import TriggerError

MOST_JOBS = 500
COLUMNS = (
    "public_id",
    "name",
    "trigger_type",
    "cron",
    "timezone",
    "every",
    "anchor_at",
    "next_run_at",
    "ends_at",
    "max_runs",
    "slot_count",
    "run_at",
    "created_at",
)
# A job with a number of runs is shown so far ahead: they are counted from the next one on.
COUNTED_AHEAD = timedelta(days=400)
_HOUR = timedelta(hours=1)


@dataclass(slots=True)
class Bucket:
    """A stretch of time, how many runs fall into it, and whose they are."""

    start: datetime
    count: int = 0
    jobs: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, count: int) -> None:
        self.count += count
        self.jobs[name] = self.jobs.get(name, 0) + count


@dataclass(frozen=True, slots=True)
class Burst:
    """Runs of one job that lie close together: `count` of them from `first` on, `apart` from each other."""

    first: datetime
    count: int = 1
    apart: timedelta = timedelta(0)

    @property
    def last(self) -> datetime:
        return self.first + (self.count - 1) * self.apart

    def moments(self) -> Iterator[datetime]:
        return (self.first + step * self.apart for step in range(self.count))


def soonest(jobs: JobQuerySet, until: datetime) -> list[Job]:
    """Read the armed jobs that fire before a moment, with no more than a forecast needs."""
    rows = jobs.armed().filter(next_run_at__lte=until).only(*COLUMNS).order_by("next_run_at")
    return list(rows[:MOST_JOBS])


def bursts(job: Job, now: datetime, end: datetime, *, start: datetime | None = None) -> Iterator[Burst]:
    """Walk a job's runs by the hour, from now or a later start to the end; an overdue one-off runs now."""
    if job.next_run_at is None or job.next_run_at >= end or _is_broken(job):
        return
    first, start = max(job.next_run_at, now), start or now
    last = min(end, job.ends_at + timedelta(seconds=1)) if job.ends_at else end
    if job.trigger_type == Job.TriggerType.ONCE:
        if first >= start:
            yield Burst(first)
    elif job.max_runs is None:
        yield from _recurring(job, max(first, start), last)
    else:
        # What is overdue takes one of the runs left.
        left = job.max_runs - job.slot_count - (job.next_run_at < now)
        for burst in _counted(_recurring(job, first, min(last, first + COUNTED_AHEAD)), left):
            yield from _cut(burst, start, last)


def _is_broken(job: Job) -> bool:
    try:
        _ = job.trigger
    except TriggerError:
        return True
    return False


def _recurring(job: Job, start: datetime, end: datetime) -> Iterator[Burst]:
    if job.every and job.next_run_at:
        passed = -(-(start - job.next_run_at) // job.every)
        yield from _interval_bursts(job.next_run_at + passed * job.every, end, job.every)
    else:
        yield from _cron_bursts(job.cron, job.timezone, start, end)


def _counted(runs: Iterable[Burst], left: int) -> Iterator[Burst]:
    for burst in runs:
        if left <= 0:
            return
        yield Burst(burst.first, min(burst.count, left), burst.apart)
        left -= burst.count


def _cut(burst: Burst, start: datetime, end: datetime) -> Iterator[Burst]:
    """Leave of a burst what lies in a window."""
    if start <= burst.first and burst.last < end:
        yield burst
    elif burst.last >= start:
        yield from (Burst(moment) for moment in burst.moments() if start <= moment < end)


def _interval_bursts(first: datetime, end: datetime, every: timedelta) -> Iterator[Burst]:
    while first < end:
        count = max(1, min(_HOUR // every, -(-(end - first) // every)))
        yield Burst(first, count, every)
        first += count * every


def _cron_bursts(expression: str, timezone: str, start: datetime, end: datetime) -> Iterator[Burst]:
    day = start.astimezone(ZoneInfo(timezone)).date()
    while datetime.combine(day, time(), ZoneInfo(timezone)) < end:
        for burst in cron_day(expression, timezone, day):
            if burst.first >= end:
                break
            yield from _cut(burst, start, end)
        day += timedelta(days=1)


@lru_cache(maxsize=4096)
def cron_day(expression: str, timezone: str, day: date) -> tuple[Burst, ...]:
    """List the runs of one local day; an hour that clocks skip or repeat counts as they show it once."""
    fields = cron.split(expression)
    if not _runs_on(" ".join(fields[2:]), day):
        return ()
    parsed, zone = CronSim(" ".join(fields), cron.REFERENCE), ZoneInfo(timezone)
    minutes = sorted(parsed.minutes)
    apart = minutes[1] - minutes[0] if len(minutes) > 1 else 0
    is_even = all(later - earlier == apart for earlier, later in pairwise(minutes))
    found = []
    for hour in sorted(parsed.hours):
        start = datetime.combine(day, time(hour), zone).astimezone(UTC)
        if is_even:
            found.append(Burst(start + timedelta(minutes=minutes[0]), len(minutes), timedelta(minutes=apart)))
        else:
            found += [Burst(start + timedelta(minutes=minute)) for minute in minutes]
    # Where clocks skip an hour, it begins when the next one does.
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=4096)
def _runs_on(day_fields: str, day: date) -> bool:
    midnight = datetime.combine(day, time())
    return cron.next_wall(f"0 0 {day_fields}", midnight - timedelta(seconds=1)) == midnight


def fill(buckets: list[Bucket], name: str, runs: list[Burst], width: timedelta) -> None:
    """Sum the runs of one job into stretches of equal width."""
    for burst in runs:
        for place, count in _spread(burst, buckets[0].start, width):
            if place < len(buckets):
                buckets[place].add(name, count)


def _spread(burst: Burst, start: datetime, width: timedelta) -> Iterator[tuple[int, int]]:
    """Divide a burst over buckets without walking its runs."""
    moment, left = burst.first, burst.count
    while left > 0:
        place = (moment - start) // width
        room = start + (place + 1) * width - moment
        inside = min(left, -(-room // burst.apart)) if burst.apart else left
        yield place, inside
        moment, left = moment + inside * burst.apart, left - inside


def per_day(
    job: Job, now: datetime, end: datetime, zone: str, *, start: datetime | None = None
) -> dict[date, tuple[datetime, int]]:
    """Say when a job first fires on each day of a zone, and how often."""
    if job.trigger_type != Job.TriggerType.CRON or job.max_runs or job.ends_at or job.next_run_at is None:
        return _by_day(bursts(job, now, end, start=start), zone)
    # From the second day on, jobs with the same schedule share one answer.
    place = ZoneInfo(zone)
    first = max(job.next_run_at, start or now).astimezone(place).date()
    second = datetime.combine(first + timedelta(days=1), time(), place).astimezone(UTC)
    days = _by_day(bursts(job, now, min(second, end), start=start), zone)
    if second < end and not _is_broken(job):
        days |= _cron_days(job.cron, job.timezone, second, end.astimezone(UTC), zone)
    return days


@lru_cache(maxsize=1024)
def _cron_days(
    expression: str, timezone: str, start: datetime, end: datetime, zone: str
) -> dict[date, tuple[datetime, int]]:
    return _by_day(_cron_bursts(expression, timezone, start, end), zone)


def _by_day(runs: Iterable[Burst], zone: str) -> dict[date, tuple[datetime, int]]:
    days: dict[date, tuple[datetime, int]] = {}
    place = ZoneInfo(zone)
    for burst in runs:
        day = burst.first.astimezone(place).date()
        is_whole = burst.last.astimezone(place).date() == day
        for moment, runs_then in (
            [(burst.first, burst.count)] if is_whole else [(each, 1) for each in burst.moments()]
        ):
            day = moment.astimezone(place).date()
            first, count = days.get(day, (moment, 0))
            days[day] = (first, count + runs_then)
    return days


@dataclass(frozen=True)
class Ahead:
    """The next 24 hours, by the quarter of an hour; jobs that fire all the time are kept apart."""

    start: datetime
    zone: str
    buckets: list[Bucket]
    dense: dict[str, int]
    soon: list[Job]
    late: int
    is_capped: bool

    QUARTER = timedelta(minutes=15)
    QUARTERS = 96
    # More runs than this would paint over everything else.
    DENSE = 48

    @classmethod
    def of(cls, jobs: JobQuerySet, now: datetime, zone: str) -> "Ahead":
        end = now + cls.QUARTERS * cls.QUARTER
        coming = soonest(jobs, end)
        dense: dict[str, int] = {}
        buckets = [Bucket(now + place * cls.QUARTER) for place in range(cls.QUARTERS)]
        late = 0
        for job in coming:
            runs = list(bursts(job, now, end))
            count = sum(burst.count for burst in runs)
            if count > cls.DENSE:
                dense[job.name] = dense.get(job.name, 0) + count
            else:
                fill(buckets, job.name, runs, cls.QUARTER)
                late += bool(job.next_run_at and job.next_run_at < now)
        return cls(now, zone, buckets, dense, coming[:5], late, len(coming) == MOST_JOBS)

    @property
    def total(self) -> int:
        return sum(bucket.count for bucket in self.buckets) + sum(self.dense.values())

    @property
    def words(self) -> str:
        """Say how much is planned, and how much of it is the steady drum of a few jobs."""
        total = f"{self.total:,}{'+' if self.is_capped else ''} run{'' if self.total == 1 else 's'} planned"
        if not self.dense:
            return total
        who = next(iter(self.dense)) if len(self.dense) == 1 else f"{len(self.dense)} frequent jobs"
        return f"{total}, {sum(self.dense.values()):,} of them by {who}"
