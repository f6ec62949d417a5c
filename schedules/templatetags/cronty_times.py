"""Template tags for moments and durations, in the zone and on the clock of the reader."""

import re
from contextvars import ContextVar
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from schedules import clock
from schedules.when import durations
from schedules.when.zones import local

register = template.Library()

# (upper limit in seconds, seconds in the unit, its name); the limits take rounding into account. Keep in step with
# the table in app.js.
UNITS = ((59.5, 1, "s"), (7170, 60, "min"), (171_000, 3600, "h"), (float("inf"), 86_400, "d"))
NO_MOMENT = "—"
NOTICED_DELAY = timedelta(seconds=1)
# Whether the reader of the page uses a 12-hour clock.
_is_12_hours: ContextVar[bool] = ContextVar("is_12_hours", default=False)
# Does not match the offset of a zone, like UTC+05:30.
_TIME_OF_DAY = re.compile(r"(?<![+\-:\d])\b([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?\b")


def use_clock(hours: int) -> None:
    """Show times on a 12-hour or a 24-hour clock, for the rest of this request."""
    _is_12_hours.set(hours == 12)


def clock_words(local_time: datetime | time, *, exact: bool = False) -> str:
    """Format a local time of day on the reader's clock: "17:30" or "5:30 PM"."""
    if not _is_12_hours.get():
        return f"{local_time:%H:%M:%S}" if exact else f"{local_time:%H:%M}"
    seconds = f":{local_time:%S}" if exact else ""
    hour, suffix = local_time.hour % 12 or 12, "AM" if local_time.hour < 12 else "PM"
    return f"{hour}:{local_time:%M}{seconds} {suffix}"


def relative(moment: datetime, now: datetime) -> str:
    """Format the distance to a moment, rounded to one unit: "in 49 s", "3 h ago"."""
    seconds = (moment - now).total_seconds()
    size = abs(seconds)
    if size < 1:
        return "now"
    unit, name = next((unit, name) for limit, unit, name in UNITS if size < limit)
    text = f"{int(size / unit + 0.5)} {name}"
    return f"in {text}" if seconds > 0 else f"{text} ago"


def local_and_utc(moment: datetime, zone: str) -> str:
    """Format a moment in full, in a zone and in UTC."""
    return _local_and_utc(moment, zone, _is_12_hours.get())


@lru_cache(maxsize=4096)
def _local_and_utc(moment: datetime, zone: str, _is_12_hours: bool) -> str:
    here = local(moment, zone)
    full = f"{here:%a} {here.day} {here:%b %Y} {clock_words(here, exact=True)} {here.tzname()}"
    return full if here.tzname() == "UTC" else f"{full} · {in_utc(moment, exact=True)}"


def day_and_clock(moment: datetime, zone: str, now: datetime, *, exact: bool = False) -> str:
    """Format a moment, with the day as `day_words` writes it."""
    here = local(moment, zone)
    return f"{day_words(here, local(now, zone))} {clock_words(here, exact=exact)}"


def day_words(day: date, today: date) -> str:
    """Format a day, with the weekday in the current year, else with the year."""
    return f"{day:%a} {day.day} {day:%b}" if day.year == today.year else f"{day.day} {day:%b %Y}"


@register.filter
def moment_of(text: str) -> datetime:
    """Parse a moment stored as text."""
    return datetime.fromisoformat(text)


@register.filter
def on_readers_clock(text: str) -> str:
    """Convert the times of day in a text to the 12-hour clock, if the reader uses one."""
    return _TIME_OF_DAY.sub(_on_12_hours, text) if _is_12_hours.get() else text


def _on_12_hours(match: re.Match[str]) -> str:
    hour, minute, second = (int(part or 0) for part in match.groups())
    return clock_words(time(hour, minute, second), exact=match[3] is not None)


@register.simple_tag
def ago(moment: datetime | None, zone: str = "UTC") -> SafeString:
    """Show how far away a moment is; app.js keeps the text up to date."""
    if moment is None:
        return _no_moment("never")
    return format_html(
        '<time datetime="{}" title="{}" data-rel>{}</time>',
        moment.astimezone(UTC).isoformat(),
        local_and_utc(moment, zone),
        relative(moment, clock.now()),
    )


@register.simple_tag
def at(moment: datetime | None, zone: str = "UTC", *, exact: bool = False) -> SafeString:
    """Show a moment in a zone, to the minute or to the second."""
    if moment is None:
        return _no_moment(NO_MOMENT)
    return _time(moment, zone, day_and_clock(moment, zone, clock.now(), exact=exact))


@register.simple_tag
def plain_at(moment: datetime, zone: str) -> str:
    """Return a moment as plain text, for attributes."""
    return day_and_clock(moment, zone, clock.now())


@register.simple_tag
def day(moment: datetime, zone: str) -> str:
    """Show the day of a moment in a zone."""
    return day_words(local(moment, zone), local(clock.now(), zone))


@register.simple_tag
def to_the_second(moment: datetime | None, zone: str = "UTC") -> SafeString:
    if moment is None:
        return _no_moment(NO_MOMENT)
    return _time(moment, zone, clock_words(local(moment, zone), exact=True))


@register.simple_tag
def time_of(moment: datetime, zone: str) -> SafeString:
    """Show only the time of a moment, below a heading with its day."""
    return _time(moment, zone, clock_words(local(moment, zone)))


def _time(moment: datetime, zone: str, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.astimezone(UTC).isoformat(),
        local_and_utc(moment, zone),
        text,
    )


def _no_moment(text: str) -> SafeString:
    return format_html('<span class="mut">{}</span>', text)


@register.simple_tag(name="clock")
def clock_time(moment: datetime, zone: str) -> str:
    return clock_words(local(moment, zone))


@register.filter
def need_seconds(moments: list[datetime]) -> bool:
    """Return whether any of these moments has seconds."""
    return any(moment.second for moment in moments)


@register.filter
def is_noticed(delay: timedelta | None) -> bool:
    """Return whether a delay is worth mentioning; a shorter one is the normal time of a start."""
    return delay is not None and delay >= NOTICED_DELAY


@register.filter
def in_utc(moment: datetime, exact: bool = False) -> str:
    here = moment.astimezone(UTC)
    return f"{here:%a} {clock_words(here, exact=exact)} UTC"


@register.filter
def duration(span: timedelta | float | None) -> str:
    """Format a duration, given as a timedelta or in seconds: "2 min 30 s"."""
    if span is None:
        return "—"
    return durations.short(span if isinstance(span, timedelta) else timedelta(seconds=float(span)))
