"""Conversions of values between Python and the database drivers, faster than the ORM's."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

from django.db import connection, models

# The most parameters of a statement that SQLite takes by default.
MOST_PARAMETERS = 32_766
MICROSECOND = timedelta(microseconds=1)


def adapter_of(field: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts values of a column for the driver, or None if it takes them as they are."""
    match field:
        case models.DateTimeField() if connection.vendor == "sqlite":
            return lambda moment: moment and format_moment(moment)
        case models.DurationField() if connection.vendor == "sqlite":
            return lambda span: None if span is None else span // MICROSECOND
        case models.JSONField():
            return lambda value: None if value is None else json.dumps(value)
        case _:
            return None


@cache
def type_of(field: Any) -> str:
    """Return PostgreSQL's type of a column, without its length."""
    kind = field.rel_db_type(connection) if field.primary_key else field.db_type(connection)
    return str(kind).split("(")[0]


def array(values: Iterable[Any]) -> str:
    """Write an array for PostgreSQL; the driver takes several times as long for moments and durations."""
    return "{" + ",".join(map(_array_element, values)) + "}"


def _array_element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, timedelta):
        return f'"{value // MICROSECOND} microseconds"'
    return f'"{value}"'


def format_moment(moment: datetime) -> str:
    """Write a moment for SQLite, as Django does, but faster."""
    return str(moment.astimezone(UTC)).removesuffix("+00:00")


@lru_cache(maxsize=1024)
def parse_moment(text: str) -> datetime:
    """Read a moment of SQLite, which stores UTC without the zone."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def aware(moment: datetime) -> datetime:
    """Add the zone to a moment; SQLite stores UTC without it."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def integers(values: Iterable[int]) -> str:
    """Format keys for a statement; integers are safe, and the number of parameters is limited."""
    return ",".join(map(str, map(int, values)))


def placeholders(values: Collection[Any]) -> str:
    """Return as many of SQLite's placeholders as there are values."""
    return ", ".join("?" * len(values))


def parts(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Divide rows into parts, each small enough for one statement."""
    return (rows[start : start + size] for start in range(0, len(rows), size))
