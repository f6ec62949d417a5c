"""Moments, times of day and durations as agents write them."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import Field

from schedules import clock
from schedules.mcp import answers
from schedules.result import Code, Err, Ok, Result, expect, invalid
from schedules.when.periods import Period, ends_of, parse_period
from schedules.when.phrases import (
    NotUnderstoodError,
    PhraseError,
    TooFarError,
    parse_amount,
    parse_clock_time,
    parse_end,
    parse_moment,
    parse_past,
)
from schedules.when.repeats import parse_trigger
from schedules.when.suggestions import MOMENT_FORM
from schedules.when.triggers import CalendarInterval, Cron, Interval, TriggerError, load_zone

M = TypeVar("M")

EXAMPLES = (
    'Give exactly one of: datetime ("2030-02-05T15:00:00+01:00"); '
    'time with timezone and perhaps date (date "2030-02-05", time "15:00", timezone "Europe/Berlin"); '
    'delay ("1d2h30m10s").'
)
# fromisoformat() also accepts 20260205 and 2026-W06-4.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_REPEATING = re.compile(r"\s*(?:every|each|daily|hourly|weekly|monthly|yearly|weekdays)\b", re.IGNORECASE)
REPEATING_HINT = "this repeats: use schedule_cron_notification for a reminder, else schedule_job"


def read_moment(text: str, timezone: str, now: datetime, field: str, **rules: bool) -> Result[datetime]:
    """Read an ISO time or a phrase, with the rules of `parse_moment`; without an offset, it is read in the zone."""
    return read_with(lambda: parse_moment(text, now=now, timezone=timezone, **rules), text, timezone, field)


def read_end(text: str, timezone: str, now: datetime, field: str) -> Result[datetime]:
    """Read the end of a period; a date alone includes its whole day."""
    return read_with(lambda: parse_end(text, now=now, timezone=timezone), text, timezone, field)


def read_past(text: str, timezone: str, now: datetime, field: str) -> Result[datetime | date]:
    """Read a moment or a day, now or before."""
    return read_with(lambda: parse_past(text, now=now, timezone=timezone), text, timezone, field)


def read_with(parse: Callable[[], M], text: str, timezone: str, field: str) -> Result[M]:
    """Read a text with this parser, which may refuse it."""
    try:
        load_zone(timezone)
        return Ok(parse())
    except TriggerError as error:
        return invalid(error.field, error.reason)
    except TooFarError as error:
        return Err(Code.TOO_FAR, errors={field: [str(error)]})
    except PhraseError as error:
        if _REPEATING.match(text):
            reason = REPEATING_HINT + trigger_hint(text, timezone, clock.now())
            return Err(Code.INVALID, errors={field: [reason]}, hint=reason)
        # The form is in the descriptions already; any other reason is about this text.
        is_general = isinstance(error, NotUnderstoodError) and str(error).endswith(MOMENT_FORM)
        return Err(Code.INVALID, errors={field: [str(error)]}, hint="" if is_general else str(error))


def trigger_hint(text: str, timezone: str, now: datetime) -> str:
    """Say which arguments express a repeating schedule in words; empty if it is not understood."""
    try:
        trigger = parse_trigger(text, now=now, timezone=timezone)
    except (PhraseError, TriggerError):
        return ""
    match trigger:
        case Cron(expression=expression):
            return f'; the cron is "{expression}"'
        case Interval(seconds=seconds):
            config: dict[str, Any] = (
                {"minutes": int(seconds // 60)} if seconds % 60 == 0 else {"seconds": seconds}
            )
        case CalendarInterval(count=count, unit=unit, start=start):
            config = {unit: count, "start": answers.iso(start, timezone)}
        case _:
            return ""
    return f"; for schedule_job, trigger_type interval with trigger_config {json.dumps(config)}"


def read_one_moment(when: Mapping[str, str], zone: str) -> Result[datetime]:
    """Read a moment in one of three forms; refuse missing and contradictory arguments."""
    now = clock.now()
    forms = [
        name
        for name, names in {"datetime": {"datetime"}, "time": {"date", "time"}, "delay": {"delay"}}.items()
        if names & when.keys()
    ]
    if len(forms) > 1:
        clash = ", ".join(name for name in ("datetime", "date", "time", "delay") if name in when)
        return invalid("when", f"these clash: {clash}. {EXAMPLES}")
    if not forms:
        return invalid("when", f"missing: datetime, or time with timezone, or delay. {EXAMPLES}")
    match forms[0]:
        case "delay":
            try:
                return Ok(now + parse_amount(when["delay"]))
            except PhraseError as error:
                return invalid("delay", str(error))
        case "datetime":
            return read_moment(when["datetime"], zone, now, "datetime")
    if missing := [name for name in ("time", "timezone") if name not in when]:
        return invalid("when", f"missing: {' and '.join(missing)}. {EXAMPLES}")
    try:
        today = now.astimezone(load_zone(zone)).date()
    except TriggerError as error:
        return invalid(error.field, error.reason)
    day, hour = _read_date(when.get("date", str(today))), parse_clock_time(when["time"])
    if day is None:
        return invalid("date", 'write YYYY-MM-DD, like "2030-02-05", or leave it out for today')
    if hour is None:
        return invalid("time", 'write HH:MM or HH:MM:SS, like "15:00"; the zone goes into timezone')
    return read_moment(f"{day} {hour}", zone, now, "date and time")


def _read_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


From = Annotated[
    str | None,
    Field(
        alias="from",
        description="Start, like today; a day or period alone, like last week, is whole.",
    ),
]
To = Annotated[str | None, Field(description="End, included, like tomorrow morning.")]


def read_period(
    first: str | None, last: str | None, zone: str, now: datetime, *, past: bool = False, field: str = "from"
) -> tuple[datetime | None, datetime | None]:
    """Return the start of `from` and the end of `to`; a day or period alone is whole."""
    periods: dict[str, Period] = {}
    for name, text in ((field, first), ("to", last)):
        if text is not None:
            parse = partial(parse_period, text, now=now, timezone=zone, past=past)
            periods[name] = expect(read_with(parse, text, zone, name))
    return ends_of(periods.get(field), periods.get("to"))
