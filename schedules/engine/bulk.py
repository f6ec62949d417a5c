"""One statement for many rows, on SQLite and on PostgreSQL."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection, models


def update_rows(
    model: type[models.Model], assignments: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Run `UPDATE … SET assignments` for each row; `{name}` in the assignments stands for that column's value.

    The first column is the primary key, `id`.
    """
    values = [_prepared(model, columns, row) for row in rows]
    if not values:
        return
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            names = {name: f"given.{name}" for name in columns}
            arrays = ", ".join(f"%s::{_type_of(model, name)}[]" for name in columns)
            cursor.execute(
                f"UPDATE {table} SET {assignments.format(**names)} "  # noqa: S608
                f"FROM unnest({arrays}) AS given({', '.join(columns)}) WHERE {table}.id = given.id",
                [list(column) for column in zip(*values, strict=True)],
            )
        else:
            names = {name: f"?{number}" for number, name in enumerate(columns, start=1)}
            # The driver's own numbered parameters: a value may stand in several assignments.
            cursor.connection.executemany(
                f"UPDATE {table} SET {assignments.format(**names)} WHERE id = ?1",  # noqa: S608
                values,
            )


def _prepared(model: type[models.Model], columns: Sequence[str], row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        model._meta.get_field(name).get_db_prep_save(value, connection)  # type: ignore[union-attr]
        for name, value in zip(columns, row, strict=True)
    )


def _type_of(model: type[models.Model], name: str) -> str:
    field = model._meta.get_field(name)
    kind = field.rel_db_type(connection) if field.primary_key else field.db_type(connection)  # type: ignore[union-attr]
    return str(kind).split("(")[0]
