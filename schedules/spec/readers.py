"""One reader for each kind of value: what people, agents and programs write becomes the value of a column.

Readers raise PhraseError and TriggerError, whose texts say what is wrong.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictFloat, StrictInt
from pydantic_core import PydanticCustomError

from schedules.when.phrases import PhraseError, parse_end, parse_span
from schedules.when.triggers import TriggerError, load_zone
from schedules.when.zone_names import zone_named

MAX_SPAN_SECONDS = 10**9
NO_END = ("none", "")
_SECONDS = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?s?")
DEFAULT_ALERTS = "default"


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of a field: it takes the value, the present moment and the zone in which times are meant."""

    read: Callable[[Any, datetime, str], Any]


def reason_in(error: PhraseError | TriggerError) -> str:
    """Return what a reader says is wrong."""
    return error.reason if isinstance(error, TriggerError) else str(error)


def read_span(value: str | float, now: datetime, zone: str = "UTC") -> timedelta:
    """Read "5m", "2 minutes" or a number of seconds; a duration may be zero."""
    if isinstance(value, str):
        if not _SECONDS.fullmatch(value.strip()):
            return parse_span(value)
        value = float(value.strip().removesuffix("s"))
    if not 0 <= value <= MAX_SPAN_SECONDS:
        raise PhraseError(f"choose 0 to {MAX_SPAN_SECONDS:,} seconds")
    return timedelta(seconds=value)


def read_zone(value: str, now: datetime, zone: str = "UTC") -> str:
    """Read an IANA name or a city."""
    name = zone_named(value)
    load_zone(name)
    return name


def read_end(value: str, now: datetime, zone: str) -> datetime | None:
    """Read the end of a job: a time, a day that is included as a whole, or a phrase; "none" is no end."""
    text = value.strip()
    # In UTC, because within a repeated hour, equal moments in two zones do not compare as equal.
    return None if text.lower() in NO_END else parse_end(text, now=now, timezone=zone).astimezone(UTC)


def read_limit(value: int, now: datetime, zone: str) -> int | None:
    """Read a number of runs; 0 is no limit."""
    return value or None


def read_alerts(value: str, now: datetime, zone: str) -> str:
    """Read the alerts of one job; "default" means the settings of its owner."""
    text = value.strip()
    return "" if text.lower() == DEFAULT_ALERTS else text


def read_texts(value: list[str], now: datetime, zone: str) -> list[str]:
    """Read a list of texts, without empty ones."""
    return [text for text in value if text]


def check_span(value: Any) -> Any:
    """Refuse what is no duration at all with one reason instead of one for each type."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise PydanticCustomError("duration", 'give a duration like "5m" or "1h30m"')
    return value


# What is left out, or null, changes nothing.
Span = Annotated[
    str | StrictInt | StrictFloat | None,
    BeforeValidator(check_span),
    Field(description='Like "10s", "5m", "2 minutes", or a number of seconds.', examples=["5m"]),
    Reader(read_span),
]
Zone = Annotated[str | None, Field(min_length=1, max_length=64), Reader(read_zone)]
End = Annotated[str | None, Field(max_length=200), Reader(read_end)]
Limit = Annotated[int | None, Field(ge=0, le=2**31 - 1), Reader(read_limit)]
Alerts = Annotated[str | None, Field(max_length=200), Reader(read_alerts)]
