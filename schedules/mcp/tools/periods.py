"""Periods: the arguments `from` and `to`, and how they are read."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from schedules.mcp.tools.moments import read_with
from schedules.result import Err, Ok, Result
from schedules.when.periods import Period, ends_of, parse_period

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
) -> Result[tuple[datetime | None, datetime | None]]:
    """Return the start of `from` and the end of `to`; a day or period alone is whole."""
    periods: dict[str, Period] = {}
    for name, text in ((field, first), ("to", last)):
        if text is None:
            continue
        period = _read(text, zone, now, name, past=past)
        if isinstance(period, Err):
            return period
        periods[name] = period.value
    return Ok(ends_of(periods.get(field), periods.get("to")))


def _read(text: str, zone: str, now: datetime, field: str, *, past: bool) -> Result[Period]:
    return read_with(lambda: parse_period(text, now=now, timezone=zone, past=past), text, zone, field)
