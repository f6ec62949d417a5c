"""One statement for many rows, on SQLite and on PostgreSQL."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from django.db import connection, models


def update_rows(
    model: type[models.Model], assignments: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Run `UPDATE … SET assignments` for each row; `{name}` in the assignments stands for that column's value.

    The first column is the primary key, `id`.
    """
    fields = [model._meta.get_field(name) for name in columns]
    by_column = [
        list(map(_adapter(field), column))
        for field, column in zip(fields, zip(*rows, strict=True), strict=False)
    ]
    if not by_column:
        return
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Other names than the table's own: `total = total + {total}` must not be ambiguous.
            names = {name: f"given.new_{name}" for name in columns}
            arrays = ", ".join(f"%s::{_type_of(field)}[]" for field in fields)
            cursor.execute(
                f"UPDATE {table} SET {assignments.format(**names)} "  # noqa: S608  # nosec B608
                f"FROM unnest({arrays}) AS given({', '.join(f'new_{name}' for name in columns)}) "
                f"WHERE {table}.id = given.new_id",
                by_column,
            )
        else:
            names = {name: f"?{number}" for number, name in enumerate(columns, start=1)}
            # The driver's own numbered parameters: a value may stand in several assignments.
            with connection.wrap_database_errors:
                cursor.connection.executemany(
                    f"UPDATE {table} SET {assignments.format(**names)} WHERE id = ?1",  # noqa: S608  # nosec B608
                    zip(*by_column, strict=True),
                )


def integers(values: Iterable[int]) -> str:
    """Write keys into a statement: numbers need no parameters, of which a database takes only so many."""
    return ",".join(str(int(value)) for value in values)


def _adapter(field: Any) -> Callable[[Any], Any]:
    """Choose once per column how its values reach the driver."""
    match field:
        case models.DateTimeField():
            return connection.ops.adapt_datetimefield_value
        case models.JSONField():
            return lambda value: None if value is None else json.dumps(value)
        case _:
            return lambda value: value


@cache
def _type_of(field: Any) -> str:
    kind = field.rel_db_type(connection) if field.primary_key else field.db_type(connection)
    return str(kind).split("(")[0]
