"""Durations as text, lists in words, and arithmetic with calendar months."""

from calendar import monthrange
from collections.abc import Sequence
from datetime import MAXYEAR, datetime, timedelta

# The limit for a moment ahead, for an interval, and for the gap between two runs of a cron expression.
HORIZON = timedelta(days=5 * 366)
HORIZON_IN_WORDS = "five years"
# The resolution of a datetime.
TICK = timedelta(microseconds=1)

_NAMES = {"day": "d", "hour": "h", "minute": "min", "second": "s"}


def in_words(span: timedelta) -> str:
    """Format a duration in full: "2 hours 30 minutes"; fractions of a second are left out."""
    return " ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in _parts(span))


def short(span: timedelta) -> str:
    """Format a duration with its two largest units: "258 ms", "2.8 s", "2 min 30 s", "1 h 5 min"."""
    seconds = max(span.total_seconds(), 0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    return " ".join(
        f"{count} {_NAMES[name]}" for name, count in _parts(timedelta(seconds=round(seconds)))[:2]
    )


def typed(span: timedelta) -> str:
    """Format a duration as people type it: "1d2h30m10s", or "0.5s"."""
    if span.microseconds:
        return f"{span.total_seconds():f}".rstrip("0") + "s"
    return "".join(f"{count}{name[0]}" for name, count in _parts(span))


def _parts(span: timedelta) -> list[tuple[str, int]]:
    """Return the units that a duration has, the largest first; a zero duration has zero seconds."""
    minutes, seconds = divmod(span.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    counts = zip(_NAMES, (span.days, hours, minutes, seconds), strict=True)
    return [(name, count) for name, count in counts if count] or [("second", 0)]


def listed(items: Sequence[str], last: str = " and ") -> str:
    """Join words: "a, b and c"."""
    return last.join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


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
