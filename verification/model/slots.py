"""Slots of a schedule, computed the slow way: every minute is checked, and every slot is listed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Once:
    at: datetime

    def between(self, after: datetime, until: datetime) -> list[datetime]:
        return [self.at] if after < self.at <= until else []

    def first_after(self, moment: datetime) -> datetime | None:
        return self.at if self.at > moment else None


@dataclass(frozen=True)
class Interval:
    every: timedelta
    first: datetime

    def between(self, after: datetime, until: datetime) -> list[datetime]:
        slots, slot = [], self.first_after(after)
        while slot <= until:
            slots.append(slot)
            slot += self.every
        return slots

    def first_after(self, moment: datetime) -> datetime:
        if moment < self.first:
            return self.first
        return moment + self.every - (moment - self.first) % self.every


@dataclass(frozen=True)
class Cron:
    """Minute, hour and weekday of a zone; day and month are always `*`."""

    expression: str
    zone: str

    def between(self, after: datetime, until: datetime) -> list[datetime]:
        slots, day = [], _midnight(after)
        while day <= until:
            slots += [slot for slot in _slots_of_day(self, day) if after < slot <= until]
            day += DAY
        return slots

    def first_after(self, moment: datetime) -> datetime:
        day = _midnight(moment)
        while True:
            for slot in _slots_of_day(self, day):
                if slot > moment:
                    return slot
            day += DAY


Schedule: TypeAlias = Once | Interval | Cron


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@cache
def _slots_of_day(cron: Cron, day: datetime) -> list[datetime]:
    return [minute for number in range(24 * 60) if _fires(cron, minute := day + number * MINUTE)]


def _fires(cron: Cron, minute: datetime) -> bool:
    fields = cron.expression.split()
    has_time_of_day = not (fields[0].startswith("*") or fields[1].startswith("*"))
    zone = ZoneInfo(cron.zone)
    walls = _walls_for_the_first_time(minute, zone) if has_time_of_day else [_wall(minute, zone)]
    return any(_matches(fields, wall) for wall in walls)


def _wall(minute: datetime, zone: ZoneInfo) -> datetime:
    return minute.astimezone(zone).replace(tzinfo=None, fold=0)


def _walls_for_the_first_time(minute: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Return the local time now and the times just skipped; nothing while an hour is repeated."""
    if minute.astimezone(zone).fold:
        return
    wall = _wall(minute - MINUTE, zone)
    while (wall := wall + MINUTE) <= _wall(minute, zone):
        yield wall


def _matches(fields: list[str], wall: datetime) -> bool:
    shown = (wall.minute, wall.hour, wall.day, wall.month, wall.isoweekday() % 7)
    return all(_has(field, value) for field, value in zip(fields, shown, strict=True))


def _has(field: str, value: int) -> bool:
    if field.startswith("*"):
        return value % int(field[2:] or 1) == 0
    terms = [list(map(int, term.split("-"))) for term in field.split(",")]
    return any(term[0] <= value <= term[-1] for term in terms)
