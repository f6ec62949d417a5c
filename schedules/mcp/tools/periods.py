"""Periods among the arguments of tools: how they are read."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from schedules.mcp.tools.moments import read_with
from schedules.result import Err, Ok, Result
from schedules.when.periods import Period, parse_period

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
    """Return the start of what `from` names and the end of what `to` names; a day or period alone is whole."""
    start = end = None
    if first is not None:
        named = _read(first, zone, now, field, past=past)
        if isinstance(named, Err):
            return named
        start, end = named.value
        end = end if end > start else None
    if last is not None:
        named = _read(last, zone, now, "to", past=past)
        if isinstance(named, Err):
            return named
        end = named.value.end
    return Ok((start, end))


def _read(text: str, zone: str, now: datetime, field: str, *, past: bool) -> Result[Period]:
    return read_with(lambda: parse_period(text, now=now, timezone=zone, past=past), text, zone, field)
