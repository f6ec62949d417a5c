"""Moves as people and agents write them: later by "30m", earlier by "-1h", or to "9:00"."""

from collections.abc import Mapping
from datetime import datetime, time
from typing import Any

from schedules.result import Err, Ok, Result, invalid
from schedules.services.jobs.moves import Move
from schedules.when.phrases import PhraseError
from schedules.when.spans import parse_clock_time, parse_span

NOTHING_TO_MOVE = "an update takes shift, time, timezone, add_tags, remove_tags or topic"


def read_move(options: Mapping[str, Any], now: datetime) -> Result[Move]:
    """Read what to change in each job; other options are ignored."""
    at = read_clock(options.get("time"), "time")
    if isinstance(at, Err):
        return at
    shift = None
    if text := options.get("shift"):
        is_earlier = text.strip().startswith("-")
        try:
            span = parse_span(text.strip().lstrip("+-").strip(), now)
        except PhraseError as error:
            return invalid("shift", str(error))
        shift = -span if is_earlier else span
    move = Move(
        shift=shift,
        at=at.value,
        timezone=options.get("timezone"),
        add_tags=options.get("add_tags") or (),
        remove_tags=options.get("remove_tags") or (),
        topic=options.get("topic"),
    )
    if move == Move():
        return invalid("action", NOTHING_TO_MOVE)
    if shift is not None and at.value is not None:
        return invalid("shift", "give shift or time")
    return Ok(move)


def read_clock(text: str | None, field: str) -> Result[time | None]:
    """Read a time of day, if one is given."""
    if text is None:
        return Ok(None)
    read = parse_clock_time(text)
    return invalid(field, 'write HH:MM, like "9:00" or "15:30"') if read is None else Ok(read)
