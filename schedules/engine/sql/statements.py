"""Execution of the engine's hand-written statements: conversion of values, and one UPDATE for many rows.

PostgreSQL prepares statements that are repeated. Values are converted faster than the ORM does it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from django.db import connection, models

# psycopg's own default, which Django turns off.
PREPARE_THRESHOLD = 5
# A statement for at least this many rows is planned each time, which costs little compared to its work. A cached plan from
# a time when the tables were almost empty would read whole tables for the rest of the session.
REPLAN_FROM_ROWS = 50
# PostgreSQL's code for a wait that `lock_timeout` has ended.
_LOCK_NOT_AVAILABLE = "55P03"
# SQLite's parameter limit.
MAX_PARAMETERS = 32_766
MICROSECOND = timedelta(microseconds=1)


def execute(statement: str, values: Sequence[Any] = (), *, rows: int = 1) -> list[Any]:
    """Execute a statement that handles about `rows` rows, and return its result rows."""
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            return [*cursor.fetchall()]
    # Imported here because it takes long, and no process needs it on SQLite.
    from psycopg import Cursor  # noqa: PLC0415

    connection.ensure_connection()
    driver = connection.connection
    if driver.prepare_threshold is None and not _has_pooler():
        driver.prepare_threshold = PREPARE_THRESHOLD
    # Django's cursors insert the values into the text of the statement, which cannot be prepared.
    with connection.wrap_database_errors, Cursor(driver) as cursor:
        cursor.execute(statement, values, prepare=False if rows >= REPLAN_FROM_ROWS else None)
        return cursor.fetchall() if cursor.description else []


def is_lock_timeout(error: Exception) -> bool:
    """Return whether a statement gave up because it waited too long for a row or table that is locked."""
    return getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE


def _has_pooler() -> bool:
    """Return whether a pooler shares the server's connections, which rules out prepared statements."""
    return bool(connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"])


def update_rows(
    model: type[models.Model], assignments: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Run `UPDATE … SET assignments` for each row; `{name}` in the assignments stands for that column's value.

    The first column is the primary key, `id`. The names of the table's own columns need no prefix.
    """
    fields = {name: model._meta.get_field(name) for name in columns}
    values = {
        name: list(map(adapt, column) if (adapt := adapter_of(fields[name])) else column)
        for name, column in zip(columns, zip(*rows, strict=True), strict=False)
    }
    if not values:
        return
    # Most outcomes differ in only a few columns; a value that all rows share is passed once.
    same = {
        name: column[0]
        for name, column in values.items()
        if name != "id" and column.count(column[0]) == len(column)
    }
    differing = {name: column for name, column in values.items() if name not in same}
    table = connection.ops.quote_name(model._meta.db_table)
    # Prefixed, so that `total = total + {total}` is not ambiguous.
    new = {name: f"{'same' if name in same else 'changes'}.new_{name}" for name in columns}
    update = f"UPDATE {table} SET {assignments.format(**new)} "  # noqa: S608  # nosec B608  # names of our own columns
    where = f"WHERE {table}.id = changes.new_id"
    differing_names, same_names = (", ".join(f"new_{name}" for name in names) for names in (differing, same))
    if connection.vendor == "postgresql":
        arrays = ", ".join(f"%s::{type_of(fields[name])}[]" for name in differing)
        constants = ", ".join(f"%s::{type_of(fields[name])} AS new_{name}" for name in same)
        execute(
            f"{update} FROM unnest({arrays}) AS changes({differing_names}), (SELECT {constants}) AS same {where}",
            [*map(array, differing.values()), *same.values()],
            rows=len(values["id"]),
        )
        return
    with connection.cursor() as cursor:
        # Not `executemany`: the driver would release the GIL at every row, and then wait to get it back.
        tables = f"same({same_names}) AS (VALUES ({placeholders(same)})), " if same else ""
        update += f"FROM changes{', same' if same else ''} {where}"
        size = max(1, (MAX_PARAMETERS - len(same)) // len(differing))
        for part in parts(list(zip(*differing.values(), strict=True)), size):
            rows_of_part = ", ".join([f"({placeholders(differing)})"] * len(part))
            statement = f"WITH {tables}changes({differing_names}) AS (VALUES {rows_of_part}) {update}"
            with connection.wrap_database_errors:
                cursor.connection.execute(statement, [*same.values(), *chain.from_iterable(part)])


def among(keys: Iterable[int]) -> tuple[str, list[str]]:
    """Return the condition that a column is one of these keys, and its parameters.

    On PostgreSQL the text is the same for any keys, so that the statement can be prepared.
    """
    if connection.vendor == "postgresql":
        return "= ANY (%s::bigint[])", [f"{{{integers(keys)}}}"]
    return f"IN ({integers(keys)})", []


def integers(values: Iterable[int]) -> str:
    """Format keys for the text of a statement: integers are safe, and the number of parameters is limited."""
    return ",".join(map(str, map(int, values)))


def placeholders(values: Collection[Any]) -> str:
    """Return a SQLite placeholder for each value."""
    return ", ".join("?" * len(values))


def parts(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Divide rows into parts that are small enough for one statement."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def adapter_of(field: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts a column's values for the driver, or None if none is needed."""
    match field:
        case models.DateTimeField() if connection.vendor == "sqlite":
            return lambda moment: moment and format_moment(moment)
        case models.DurationField() if connection.vendor == "sqlite":
            return lambda span: None if span is None else span // MICROSECOND
        case models.UUIDField() if connection.vendor == "sqlite":
            return lambda value: value and value.hex
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
    """Format an array for PostgreSQL; for moments and durations, this is several times as fast as the driver."""
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
    """Format a moment for SQLite, as Django does, but faster."""
    return str(moment.astimezone(UTC)).removesuffix("+00:00")


@lru_cache(maxsize=1024)
def parse_moment(text: str) -> datetime:
    """Parse a moment of SQLite, which stores UTC without the zone."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def optional_moment(text: Any) -> Any:
    return None if text is None else parse_moment(text)


def optional_span(microseconds: Any) -> Any:
    return None if microseconds is None else timedelta(microseconds=microseconds)


def aware(moment: datetime) -> datetime:
    """Add the zone to a moment; SQLite stores UTC without it."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
