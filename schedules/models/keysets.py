"""Keyset pagination of long lists: an index finds the rows after a position, without counting those before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, Q, QuerySet

# How many rows one page scans at most for those that match a filter.
WALKED = 3_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEPARATOR = "~"


@dataclass(frozen=True)
class Segment:
    """A part of a list, ordered by one column without nulls and then by key, as some index is."""

    rows: Any
    order: tuple[str, ...] = ("-pk",)
    walked: Any = None
    """The rows that an index finds, if more than `rows`: at most `WALKED` of these are scanned at a time."""

    @property
    def column(self) -> str | None:
        return self.order[0].lstrip("-") if len(self.order) > 1 else None

    @property
    def is_of_moments(self) -> bool:
        return self.column is not None and isinstance(
            self.rows.model._meta.get_field(self.column), DateTimeField
        )

    def ordered(self, rows: QuerySet[Any], *, is_backward: bool) -> QuerySet[Any]:
        return rows.order_by(*(_turned(self.order) if is_backward else self.order))

    def beyond(self, key: "Key", *, is_backward: bool) -> Q:
        """Match the rows after a key, or before it."""
        return _range(_turned(self.order) if is_backward else self.order, key)

    def up_to(self, key: "Key", *, is_backward: bool) -> Q:
        """Match the rows that `beyond` does not match."""
        return _range(self.order if is_backward else _turned(self.order), key, is_inclusive=True)

    def edge(self, place: int, key: "Key | None" = None, *, is_backward: bool = False) -> "Key | None":
        """Return the key of the last row that may be scanned, or None if all rows may be."""
        walked = self.rows if self.walked is None else self.walked
        if key:
            walked = walked.filter(self.beyond(key, is_backward=is_backward))
        keys = self.ordered(walked, is_backward=is_backward).values_list(self.column or "pk", "pk")
        match list(keys[WALKED - 1 : WALKED + 1]):
            case [(value, pk), _]:
                return Key(place, value if self.column else None, pk)
        return None


def _range(order: Sequence[str], key: "Key", *, is_inclusive: bool = False) -> Q:
    """Match the rows that follow a key in this order; the range of the column lets an index find them."""
    *columns, pk = order
    following = Q(**{f"{pk.lstrip('-')}__{_comparison(pk)}{'e' * is_inclusive}": key.pk})
    for column in columns:
        name, comparison = column.lstrip("-"), _comparison(column)
        following = (following | Q(**{f"{name}__{comparison}": key.value})) & Q(
            **{f"{name}__{comparison}e": key.value}
        )
    return following


def _comparison(column: str) -> str:
    return "lt" if column.startswith("-") else "gt"


@dataclass(frozen=True)
class Key:
    """The position of a row in a list; it stays valid when the row changes or is deleted."""

    segment: int
    value: Any
    pk: int

    @property
    def text(self) -> str:
        value = self.value
        if isinstance(value, datetime):
            value = (value - _EPOCH) // timedelta(microseconds=1)
        return _SEPARATOR.join([str(self.segment), "" if value is None else str(value), str(self.pk)])


def _turned(order: Sequence[str]) -> list[str]:
    return [name[1:] if name.startswith("-") else f"-{name}" for name in order]


def key_of(text: str, segments: Sequence[Segment]) -> Key | None:
    """Parse a key from a query string; return None if it is missing or belongs to another list."""
    place, _, rest = text.partition(_SEPARATOR)
    value, separator, pk = rest.rpartition(_SEPARATOR)
    if not separator or not _is_number(place) or not _is_number(pk) or int(place) >= len(segments):
        return None
    segment = segments[int(place)]
    if segment.column is None:
        return Key(int(place), None, int(pk))
    if not segment.is_of_moments:
        return None if "\0" in value else Key(int(place), value, int(pk))
    try:
        return Key(int(place), _EPOCH + timedelta(microseconds=int(value)), int(pk))
    except (ValueError, OverflowError):
        return None


def _is_number(text: str) -> bool:
    # Larger numbers do not fit into the column.
    return text.isascii() and text.isdigit() and len(text) < 19
