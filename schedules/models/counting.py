"""Counts that stop at a limit, so that a long list costs no more than a short one."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.db.models import (
    BigIntegerField,
    BooleanField,
    Func,
    IntegerField,
    Q,
    QuerySet,
    Subquery,
    Value,
)

COUNTED = 10_000


def count_up_to(rows: QuerySet[Any], most: int | None = None) -> int:
    """Count rows, but stop one after the limit: a larger result means "more than that".

    Rows in the order of an index are counted with that index, whatever the database knows of their number.
    """
    # Of keys, because columns that were added would be computed.
    return rows.values("pk")[: (COUNTED if most is None else most) + 1].count()


def count_beside(page: Sequence[Any], rows: QuerySet[Any], *, size: int, start: int) -> int:
    """Count the rows of a paged list; on the last page, without a query."""
    is_last = len(page) < size and (bool(page) or not start)
    return start + len(page) if is_last else count_up_to(rows)


class CountUpTo(Subquery):
    """The same as a value inside another query, so that several counts take one."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()
    empty_result_set_value = 0

    def __init__(self, rows: QuerySet[Any], most: int | None = None) -> None:
        # Of a constant, because SQLite takes half as long again to pass on keys.
        super().__init__(rows.annotate(one=Value(1)).values("one")[: (COUNTED if most is None else most) + 1])


def among_first(rows: QuerySet[Any]) -> Q | Func:
    """Match only the first rows, as many as are counted.

    By an array of their keys on PostgreSQL, which it finds by the primary key; for a query it may read the whole table.
    """
    keys = rows.values("pk")[:COUNTED]
    if connection.vendor == "sqlite":
        return Q(pk__in=keys)
    # On SQLite no process needs psycopg, whose import takes long.
    from django.contrib.postgres.expressions import ArraySubquery  # noqa: PLC0415

    return _InArray("pk", ArraySubquery(keys))


def has_key(keys: Iterable[int]) -> Func:
    """Match rows by any number of keys, as one parameter: for thousands, Django takes longer than the database."""
    if connection.vendor == "sqlite":
        return _InList("pk", Value(json.dumps([*keys])))
    # As above, only where PostgreSQL is used.
    from django.contrib.postgres.fields import ArrayField  # noqa: PLC0415

    return _InArray("pk", Value([*keys], output_field=ArrayField(BigIntegerField())))


class _InArray(Func):
    """Whether a key is in an array, on PostgreSQL."""

    template = "%(expressions)s)"
    arg_joiner = " = ANY ("
    output_field = BooleanField()


class _InList(Func):
    """Whether a key is in a JSON list, on SQLite."""

    template = "%(expressions)s))"
    arg_joiner = " IN (SELECT value FROM JSON_EACH("
    output_field = BooleanField()


def counted(count: int, word: str) -> str:
    """Return a number with its noun: "1 job", "1,200 jobs"."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def count_words(count: int, most: int | None = None) -> str:
    """Write a count: 9,120, or 10,000+ for one that has stopped."""
    most = COUNTED if most is None else most
    return f"{most:,}+" if count > most else f"{count:,}"
