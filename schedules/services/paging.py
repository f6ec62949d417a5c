"""Pages of long lists: an index finds the rows after a position, without counting those before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self

from django.db.models import Q, QuerySet

from schedules.models.counting import SCANNED

PAGE_SIZE = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEPARATOR = "~"
# The order of most lists: the newest row has the largest key.
NEWEST_FIRST = ("-pk",)


@dataclass(frozen=True)
class ListPage:
    """One page of a list."""

    rows: list[Any]
    before: str = ""
    """The key for the link to the previous page, if there is one."""
    after: str = ""
    scanned: int | None = None
    """How many rows were scanned, if that limit ended the page."""

    @property
    def has_pages(self) -> bool:
        return bool(self.before or self.after)


class Key(NamedTuple):
    """The position of a row in an order; it stays valid when the row changes or is deleted."""

    values: tuple[Any, ...]
    """Of the columns of the order, the last of which is the primary key: moments or whole numbers."""

    @property
    def text(self) -> str:
        return _SEPARATOR.join(
            str((value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value)
            for value in self.values
        )

    @classmethod
    def of(cls, row: Any, order: Sequence[str]) -> Self:
        return cls(tuple(getattr(row, column.lstrip("-")) for column in order))

    @classmethod
    def parse(cls, text: str, order: Sequence[str]) -> Self | None:
        """Parse the key of a query string; return None if it is missing or belongs to another list."""
        parts = text.split(_SEPARATOR)
        # Larger numbers do not fit into a column.
        if len(parts) != len(order) or not all(
            part.isascii() and part.removeprefix("-").isdigit() and len(part) < 19 for part in parts
        ):
            return None
        try:
            return cls(tuple(_value_of(*pair) for pair in zip(order, parts, strict=True)))
        except OverflowError:
            return None


def _value_of(column: str, text: str) -> Any:
    # The names of all columns of moments in an order.
    is_moment = column.endswith(("_at", "_for"))
    return _EPOCH + timedelta(microseconds=int(text)) if is_moment else int(text)


def beyond(order: Sequence[str], key: Key, *, is_inclusive: bool = False) -> Q:
    """Match the rows that follow a key in this order; the range of the first column lets an index find them."""
    *columns, pk = [(name.lstrip("-"), "lt" if name.startswith("-") else "gt") for name in order]
    following = Q(**{f"{pk[0]}__{pk[1]}{'e' * is_inclusive}": key.values[-1]})
    for (name, comparison), value in zip(columns, key.values[:-1], strict=True):
        following = (following | Q(**{f"{name}__{comparison}": value})) & Q(
            **{f"{name}__{comparison}e": value}
        )
    return following


def read_page(
    rows: QuerySet[Any],
    position: Mapping[str, str],
    size: int = PAGE_SIZE,
    *,
    order: Sequence[str] = NEWEST_FIRST,
    among: QuerySet[Any] | None = None,
) -> ListPage:
    """Read the page at a position, given by the key `before` or `after` of another page, else the first page.

    `among` are the rows that an index finds in this order, if `rows` are only some of them: a limited number is scanned.
    """
    listed = _Listed(rows, order, among)
    before = Key.parse(position.get("before", ""), order)
    if before:
        page = listed.read(before, size, is_backward=True)
        # Less than a full page is left before it: show the first page instead.
        if page.before:
            return page
    return listed.read(Key.parse(position.get("after", ""), order), size, is_backward=False)


class _Listed(NamedTuple):
    """The rows of a list, in an order that some index has."""

    rows: QuerySet[Any]
    order: Sequence[str]
    among: QuerySet[Any] | None

    def read(self, start: Key | None, size: int, *, is_backward: bool) -> ListPage:
        order = _turned(self.order) if is_backward else self.order
        rows = self.rows.filter(beyond(order, start)) if start else self.rows
        edge = self._edge(start, order)
        if edge:
            rows = rows.filter(beyond(_turned(order), edge, is_inclusive=True))
        found = list(rows.order_by(*order)[: size + 1])
        has_more = len(found) > size
        found = found[:size]
        far = Key.of(found[-1], order) if has_more else edge
        near = Key.of(found[0], order) if found else start
        if is_backward:
            found.reverse()
            far, near = near, far
        return ListPage(
            found,
            before=near.text if near and (start or is_backward) else "",
            after=far.text if far else "",
            scanned=SCANNED if edge and not has_more else None,
        )

    def _edge(self, start: Key | None, order: Sequence[str]) -> Key | None:
        """Return the key of the last row that may be scanned, or None if all rows may be."""
        if self.among is None:
            return None
        among = self.among.filter(beyond(order, start)) if start else self.among
        keys = among.order_by(*order).values_list(*(column.lstrip("-") for column in order))
        last = list(keys[SCANNED - 1 : SCANNED + 1])
        return Key(tuple(last[0])) if len(last) > 1 else None


def _turned(order: Sequence[str]) -> list[str]:
    return [name[1:] if name.startswith("-") else f"-{name}" for name in order]
