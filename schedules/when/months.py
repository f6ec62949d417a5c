"""Arithmetic with calendar months on wall time."""

from calendar import monthrange
from datetime import MAXYEAR, datetime


def add_months(wall: datetime, count: int) -> datetime:
    """Return the same day and time some months later, or the last day of a month that is too short."""
    years, month = divmod(wall.month - 1 + count, 12)
    year = wall.year + years
    if year > MAXYEAR:
        raise OverflowError("beyond the calendar's end")
    return wall.replace(year=year, month=month + 1, day=min(wall.day, monthrange(year, month + 1)[1]))


def months_between(first: datetime, second: datetime) -> int:
    """Count the calendar months from the first wall time to the second, whatever their days."""
    return (second.year - first.year) * 12 + second.month - first.month
