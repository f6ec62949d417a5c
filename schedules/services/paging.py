"""Keyset paging: each page continues after the last row of the previous one, and scans a limited number of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedules.models.keysets import WALKED, Key, Segment, key_of

PAGE_SIZE = 50


@dataclass(frozen=True)
class ListPage:
    """One page of a list."""

    rows: list[Any]
    before: str = ""
    """The key for the link to the previous page, if there is one."""
    after: str = ""
    walked: int | None = None
    """How many rows were scanned, if that limit ended the page."""

    @property
    def has_pages(self) -> bool:
        return bool(self.before or self.after)


def read_page(segments: Sequence[Segment], position: Mapping[str, str], size: int = PAGE_SIZE) -> ListPage:
    """Read the page at a position, given by the key `before` or `after` of another page, else the first page."""
    before = key_of(position.get("before", ""), segments)
    if before:
        listed = _read(segments, before, size, is_backward=True)
        # Less than a full page is left before it: show the first page instead.
        if listed.before:
            return listed
    return _read(segments, key_of(position.get("after", ""), segments), size, is_backward=False)


def _read(segments: Sequence[Segment], start: Key | None, size: int, *, is_backward: bool) -> ListPage:
    places = list(range(len(segments)))[:: -1 if is_backward else 1]
    if start:
        places = places[places.index(start.segment) :]
    keyed_rows: list[tuple[Key, Any]] = []
    edge = None
    for place in places:
        key = start if start and start.segment == place else None
        rows, edge = _read_segment(segments, place, key, size + 1 - len(keyed_rows), is_backward=is_backward)
        keyed_rows += rows
        if edge or len(keyed_rows) > size:
            break
    has_more = len(keyed_rows) > size
    keyed_rows = keyed_rows[:size]
    far = keyed_rows[-1][0] if has_more else edge
    near = keyed_rows[0][0] if keyed_rows else start
    if is_backward:
        keyed_rows.reverse()
        far, near = near, far
    return ListPage(
        [row for _, row in keyed_rows],
        before=near.text if near and (start or is_backward) else "",
        after=far.text if far else "",
        walked=WALKED if edge and not has_more else None,
    )


def _read_segment(
    segments: Sequence[Segment], place: int, key: Key | None, count: int, *, is_backward: bool
) -> tuple[list[tuple[Key, Any]], Key | None]:
    """Read rows of one segment; also return the key of the last scanned row, if more rows remain."""
    segment = segments[place]
    rows, edge = segment.rows, None
    if key:
        rows = rows.filter(segment.beyond(key, is_backward=is_backward))
    if segment.walked is not None:
        edge = segment.edge(place, key, is_backward=is_backward)
        if edge:
            rows = rows.filter(segment.up_to(edge, is_backward=is_backward))
    ordered = segment.ordered(rows, is_backward=is_backward)[:count]
    keyed = [
        (Key(place, getattr(row, segment.column) if segment.column else None, row.pk), row) for row in ordered
    ]
    return keyed, edge
