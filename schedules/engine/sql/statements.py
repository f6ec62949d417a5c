"""Execution of the engine's hand-written statements; PostgreSQL prepares those that are repeated."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection

from schedules.engine.sql.values import integers

# psycopg's own default; Django switches it off.
PREPARE_THRESHOLD = 5
# A statement for at least this many rows is planned anew, which costs little beside its work. A plan from a time when the
# tables were almost empty reads all of them, and a session would use it for as long as it lasts.
PLANNED_ANEW_FROM = 50


def execute(statement: str, values: Sequence[Any] = (), *, rows: int = 1) -> list[Any]:
    """Execute a statement, which is for so many rows, and return what it finds."""
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            return [*cursor.fetchall()]
    # On SQLite no process needs psycopg, whose import takes long.
    from psycopg import Cursor  # noqa: PLC0415

    connection.ensure_connection()
    driver = connection.connection
    if driver.prepare_threshold is None and not _has_pooler():
        driver.prepare_threshold = PREPARE_THRESHOLD
    # Django's cursors insert the values into the text of the statement, which cannot be prepared.
    with connection.wrap_database_errors, Cursor(driver) as cursor:
        cursor.execute(statement, values, prepare=False if rows >= PLANNED_ANEW_FROM else None)
        return cursor.fetchall() if cursor.description else []


def among(keys: Iterable[int]) -> tuple[str, list[str]]:
    """Return the condition that a column is one of these keys, and its values.

    On PostgreSQL the text is the same for any keys, so that the statement can be prepared.
    """
    if connection.vendor == "postgresql":
        return "= ANY (%s::bigint[])", [f"{{{integers(keys)}}}"]
    return f"IN ({integers(keys)})", []


def _has_pooler() -> bool:
    """Return whether a pooler shares the server's connections, which rules out prepared statements."""
    return bool(connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"])
