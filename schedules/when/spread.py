"""Spread: a random delay, fixed for each job, that keeps jobs with the same schedule from starting together."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise

from schedules.when import cron, durations
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once, Slots, Trigger, load_zone
from schedules.when.unplanned import Unplanned
from schedules.when.zones import wall_time

LONGEST_SPREAD = timedelta(days=1)
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Spread(Slots):
    """The slots of another trigger, each later by the same delay, which is shorter than the spread."""

    base: Interval | CalendarInterval | Cron
    longest: timedelta
    delay: timedelta | None
    """None until the job is stored: its delay is unknown, and its slots are shown without one."""

    @property
    def shift(self) -> timedelta:
        return self.delay or timedelta(0)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first delayed slot later than the moment, or None at the calendar's end."""
        return self._shifted(self.base.next_after(moment - self.shift))

    def count_between(self, after: datetime, until: datetime, limit: int) -> int:
        """Count the slots later than after and not later than until, up to the limit."""
        return self.base.count_between(after - self.shift, until - self.shift, limit)

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the newest slot between the two moments, ends included, or None."""
        return self._shifted(self.base.latest_at_or_before(moment - self.shift, not_before - self.shift))

    def _shifted(self, slot: datetime | None) -> datetime | None:
        try:
            return None if slot is None else slot + self.shift
        except OverflowError:
            return None

    def words(self) -> str:
        """Describe it: "Every day at 03:00, up to 20 minutes later (at 03:07)"."""
        described = f"{self.base.words()}, up to {durations.in_words(self.longest)} later"
        if self.delay is None:
            return described
        clock = _only_time(self.base)
        if clock is None:
            return f"{described} (by {durations.in_words(self.delay)})"
        return f"{described} (at {datetime.combine(_ANY_DAY, clock) + self.delay:%H:%M})"

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved."""
        return self.base.warnings(after)


def spread_out(trigger: Trigger, spread: timedelta | None, key: str) -> Trigger | Spread:
    """Delay a trigger by an amount derived from its job's id; without an id, the delay is unknown."""
    if not spread or isinstance(trigger, Once | Unplanned):
        return trigger
    return Spread(trigger, spread, delay_of(key, spread) if key else None)


def delay_of(key: str, spread: timedelta) -> timedelta:
    """Return a delay of whole seconds, shorter than the spread and always the same for the same key."""
    number = int.from_bytes(hashlib.sha256(key.encode()).digest())
    return timedelta(seconds=number % max(1, int(spread.total_seconds())))


def spread_problem(trigger: Trigger, spread: timedelta) -> str:
    """Return why a trigger cannot have this spread, or an empty text."""
    if not spread:
        return ""
    if isinstance(trigger, Once):
        return "Leave this empty: a one-time job runs at its time, without a random delay."
    if isinstance(trigger, Unplanned):
        return "Leave this empty: a job without a time of its own has no random delay."
    if spread < timedelta(0) or spread.microseconds:
        return "Choose whole seconds, like 20m, or 0 for none."
    longest = longest_spread(trigger)
    if spread <= longest:
        return ""
    reason = "" if longest == LONGEST_SPREAD else ", which is the shortest time between two runs"
    return f"Choose at most {durations.typed(longest)}{reason}."


def longest_spread(trigger: Interval | CalendarInterval | Cron | Unplanned) -> timedelta:
    """Return the shortest time between two runs, at most a day, so that a delayed slot stays before the next one."""
    match trigger:
        case Unplanned():
            return timedelta(0)
        case Interval(seconds=seconds):
            return min(timedelta(seconds=seconds), LONGEST_SPREAD)
        case CalendarInterval():
            return LONGEST_SPREAD
        case Cron(expression=expression):
            return timedelta(minutes=_shortest_gap(*cron.split(expression)[:2]))


@lru_cache(maxsize=1024)
def _shortest_gap(minute: str, hour: str) -> int:
    """Return the shortest gap between two times of day in minutes, assuming that every day matches."""
    minutes, hours = cron.times(minute, hour)
    times = sorted(60 * hour + minute for hour in hours for minute in minutes)
    return min(later - earlier for earlier, later in pairwise([*times, times[0] + 24 * 60]))


def _only_time(trigger: Interval | CalendarInterval | Cron) -> time | None:
    """Return the time of day of a trigger that has just one, else None."""
    match trigger:
        case Cron(expression=expression):
            minutes, hours = map(list, cron.times(*cron.split(expression)[:2]))
            return time(hours[0], minutes[0]) if len(minutes) == len(hours) == 1 else None
        case CalendarInterval(start=start, timezone=timezone):
            return wall_time(start, load_zone(timezone)).time()
        case Interval():
            return None
