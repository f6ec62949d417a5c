"""One UPDATE for many rows, each with its own values."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from django.db import connection, models

from schedules.engine.sql.statements import execute
from schedules.engine.sql.values import MOST_PARAMETERS, adapter_of, array, parts, placeholders, type_of


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
    # Most outcomes differ in a few columns only; a value that all rows have is given once.
    same = {name: own[0] for name, own in values.items() if name != "id" and own.count(own[0]) == len(own)}
    differing = {name: own for name, own in values.items() if name not in same}
    table = connection.ops.quote_name(model._meta.db_table)
    # Different from the table's own names, so that `total = total + {total}` is not ambiguous.
    new = {name: f"{'same' if name in same else 'given'}.new_{name}" for name in columns}
    update = f"UPDATE {table} SET {assignments.format(**new)} "  # noqa: S608  # nosec B608  # names of our own columns
    where = f"WHERE {table}.id = given.new_id"
    given, once = (", ".join(f"new_{name}" for name in names) for names in (differing, same))
    if connection.vendor == "postgresql":
        arrays = ", ".join(f"%s::{type_of(fields[name])}[]" for name in differing)
        constants = ", ".join(f"%s::{type_of(fields[name])} AS new_{name}" for name in same)
        execute(
            f"{update} FROM unnest({arrays}) AS given({given}), (SELECT {constants}) AS same {where}",
            [*map(array, differing.values()), *same.values()],
            rows=len(values["id"]),
        )
        return
    with connection.cursor() as cursor:
        # Not `executemany`: at every row the driver would let other threads run, and then wait for its turn again.
        tables = f"same({once}) AS (VALUES ({placeholders(same)})), " if same else ""
        update += f"FROM given{', same' if same else ''} {where}"
        size = max(1, (MOST_PARAMETERS - len(same)) // len(differing))
        for part in parts(list(zip(*differing.values(), strict=True)), size):
            rows_of_part = ", ".join([f"({placeholders(differing)})"] * len(part))
            statement = f"WITH {tables}given({given}) AS (VALUES {rows_of_part}) {update}"
            with connection.wrap_database_errors:
                cursor.connection.execute(statement, [*same.values(), *chain.from_iterable(part)])
