"""Counts that stop at a limit, so that a long list costs no more than a short one."""

import json
from collections.abc import Iterable
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

# Where the counts of long lists stop, and how many jobs and runs a search looks through.
COUNTED = 10_000
# How many rows one page scans at most for those that match a filter.
SCANNED = 3_000


def count_up_to(rows: QuerySet[Any], most: int | None = None) -> int:
    """Count rows, but stop one after the limit: a larger result means "more than that".

    Rows in the order of an index are counted with that index, whatever the database estimates of their number.
    """
    # Count keys only, because annotations would be computed.
    return rows.values("pk")[: (COUNTED if most is None else most) + 1].count()


class CountUpTo(Subquery):
    """`count_up_to` as a subquery, so that one query can do several counts."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()
    empty_result_set_value = 0

    def __init__(self, rows: QuerySet[Any], most: int | None = None) -> None:
        # Select a constant, because with keys SQLite takes half as long again.
        super().__init__(rows.annotate(one=Value(1)).values("one")[: (COUNTED if most is None else most) + 1])


def among_first(rows: QuerySet[Any]) -> Q | Func:
    """Match only the first rows, as many as are counted.

    PostgreSQL gets an array of keys, which it looks up by the primary key; for a subquery, it may read the whole table.
    """
    keys = rows.values("pk")[:COUNTED]
    if connection.vendor == "sqlite":
        return Q(pk__in=keys)
    # Imported here because it takes long, and no process needs it on SQLite.
    from django.contrib.postgres.expressions import ArraySubquery  # noqa: PLC0415

    return _InArray("pk", ArraySubquery(keys))


def has_key(keys: Iterable[int]) -> Func:
    """Match rows by any number of keys, as one parameter; Django is slow with thousands of parameters."""
    if connection.vendor == "sqlite":
        return _InList("pk", Value(json.dumps([*keys])))
    # Imported here, as above.
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
    """Format a count: 9,120, or 10,000+ if it stopped at the limit."""
    most = COUNTED if most is None else most
    return f"{most:,}+" if count > most else f"{count:,}"
