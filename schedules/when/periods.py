"""Periods of time as people name them: "last month", "tomorrow morning", "monday", or a moment."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from schedules.when.durations import TICK, add_months
from schedules.when.forecast import start_of_day
from schedules.when.grammar import MONTHS, TooFarError, clean
from schedules.when.phrases import NotUnderstoodError, PhraseError, parse_day, parse_moment, parse_past
from schedules.when.triggers import load_zone

_EXAMPLES = 'Try "yesterday", "last month", "7 days ago", "tomorrow" or "2026-11-14 18:00"'
# The hours of a part of a day, counted from the midnight before it.
_PARTS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}
_PART_OF_DAY = re.compile(rf"(?P<day>.+?),? (?P<part>{'|'.join(_PARTS)})")
_DAY_OF_PART = {"this": "today", "the": "today", "last": "yesterday"}
_CALENDAR = re.compile(
    r"(?:the )?(?:(?P<which>this|last|next|current|previous) )?(?P<unit>week|weekend|month|year)"
)
_SHIFT = {"last": -1, "previous": -1, "next": 1}
_ROLLING = re.compile(r"(?:the )?(?P<which>last|past|next) (?P<amount>.+)")
_MONTH = re.compile(rf"(?:in )?(?P<month>{'|'.join(MONTHS)})(?: (?P<year>[0-9]{{4}}))?")
_DAY = timedelta(days=1)


class Period(NamedTuple):
    """A period from its first to its last moment; for a single moment, both are the same."""

    start: datetime
    end: datetime


def ends_of(first: Period | None, last: Period | None) -> tuple[datetime | None, datetime | None]:
    """Return the bounds of a period given by its first and its last part; a first part alone counts as a whole."""
    end = last.end if last else first.end if first and first.end > first.start else None
    return (first.start if first else None), end


def parse_period(text: str, *, now: datetime, timezone: str, past: bool = False) -> Period:
    """Return the period that a text names, in the zone: with `past` the last one of that name, else the next."""
    try:
        return _period(text, now, timezone, past=past)
    except OverflowError as error:
        raise TooFarError from error


def _period(text: str, now: datetime, timezone: str, *, past: bool) -> Period:
    phrase = clean(text, _EXAMPLES)
    zone = load_zone(timezone)
    today = now.astimezone(zone).date()
    if days := _calendar_period(phrase, today, past=past):
        first, following = days
        return Period(start_of_day(first, timezone), start_of_day(following, timezone) - TICK)
    if match := _ROLLING.fullmatch(phrase):
        with suppress(PhraseError):
            amount = match["amount"] if match["amount"][0].isdigit() else f"1 {match['amount']}"
            if match["which"] == "next":
                return Period(now, parse_moment(f"in {amount}", now=now, timezone=timezone))
            start = parse_moment(f"{amount} ago", now=now, timezone=timezone, past=True, has_horizon=False)
            return Period(start, now)
    # As typed, because `clean` turns "tomorrow morning" into a moment.
    typed = " ".join(text.lower().split())
    if match := _PART_OF_DAY.fullmatch("this night" if typed == "tonight" else typed):
        with suppress(NotUnderstoodError):
            day = _day(_DAY_OF_PART.get(match["day"], match["day"]), now, timezone, past=past)
            first_hour, last_hour = _PARTS[match["part"]]
            return Period(_at_hour(day, first_hour, zone), _at_hour(day, last_hour, zone) - TICK)
    if not phrase.startswith("in "):
        with suppress(NotUnderstoodError):
            day = _day(phrase, now, timezone, past=past)
            return Period(start_of_day(day, timezone), start_of_day(day + _DAY, timezone) - TICK)
    moment = parse_moment(phrase, now=now, timezone=timezone, past=past, has_horizon=False)
    return Period(moment, moment)


def _calendar_period(phrase: str, today: date, *, past: bool) -> tuple[date, date] | None:
    """Return the first day of a week, month or year, and the first day after it."""
    if match := _MONTH.fullmatch(phrase):
        first = date(int(match["year"] or today.year), MONTHS.index(match["month"]) + 1, 1)
        if not match["year"] and past and first > today:
            first = first.replace(year=today.year - 1)
        elif not match["year"] and not past and _month_after(first) <= today:
            first = first.replace(year=today.year + 1)
        return first, _month_after(first)
    match = _CALENDAR.fullmatch(phrase)
    if match is None:
        return None
    shift = _SHIFT.get(match["which"] or "", 0)
    match match["unit"]:
        case "week":
            first = today - timedelta(days=today.weekday()) + shift * timedelta(days=7)
            return first, first + timedelta(days=7)
        case "weekend":
            first = today - timedelta(days=today.weekday() - 5) + shift * timedelta(days=7)
            return first, first + timedelta(days=2)
        case "month":
            first = add_months(datetime.combine(today.replace(day=1), time()), shift).date()
            return first, _month_after(first)
    return date(today.year + shift, 1, 1), date(today.year + shift + 1, 1, 1)


def _month_after(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)


def _day(text: str, now: datetime, timezone: str, *, past: bool) -> date:
    """Return the day that a text names, or raise NotUnderstoodError if it names something else."""
    if not past:
        return parse_day(text, now=now, timezone=timezone)
    moment_or_day = parse_past(text, now=now, timezone=timezone)
    if isinstance(moment_or_day, datetime):
        raise NotUnderstoodError
    return moment_or_day


def _at_hour(day: date, hour: int, zone: tzinfo) -> datetime:
    days, hour = divmod(hour, 24)
    return datetime.combine(day + days * _DAY, time(hour), zone).astimezone(UTC)
