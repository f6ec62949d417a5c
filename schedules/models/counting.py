"""Counts that stop at a limit, so that a long list costs no more than a short one."""

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import Exists, IntegerField, QuerySet, Subquery

COUNTED = 10_000


def count_up_to(rows: QuerySet[Any], most: int | None = None) -> int:
    """Count rows, but stop one after the limit: a larger result means "more than that".

    Rows in the order of an index are counted with that index, whatever the database knows of their number.
    """
    return rows[: (COUNTED if most is None else most) + 1].count()


def count_beside(page: Sequence[Any], rows: QuerySet[Any], *, size: int, start: int) -> int:
    """Count rows of which a page was read; the last page tells how many there are, without a query."""
    is_last = len(page) < size and (bool(page) or not start)
    return start + len(page) if is_last else count_up_to(rows)


def is_longer(rows: QuerySet[Any]) -> Exists:
    """Whether there are more rows than are counted, as a value of a query: skipping takes half as long as counting."""
    return Exists(rows.order_by()[COUNTED:])


class CountUpTo(Subquery):
    """The same as a value inside another query, so that several counts take one."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()

    def __init__(self, rows: QuerySet[Any], most: int) -> None:
        super().__init__(rows.values("pk")[: most + 1])


def first_keys(rows: QuerySet[Any]) -> Any:
    """Return the keys of as many rows as are counted, in their order: a query, or on PostgreSQL their list.

    A condition on a list of keys is answered from the primary key; for one on a query, PostgreSQL may read the table.
    """
    keys = rows.values_list("pk", flat=True)[:COUNTED]
    return keys if connection.vendor == "sqlite" else list(keys)


def count_words(count: int, most: int | None = None) -> str:
    """Write a count: 9,120, or 10,000+ for one that has stopped."""
    most = COUNTED if most is None else most
    return f"{most:,}+" if count > most else f"{count:,}"
