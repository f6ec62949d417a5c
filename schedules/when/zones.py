"""Time zones: their offsets and clock changes, moments as text on their clocks, and the release of their data."""

import re
import zoneinfo
from collections.abc import Iterator
from contextlib import suppress
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata

# Short enough to see every change: since 1990 no zone has changed its offset twice within a week.
_STEP = timedelta(hours=12)
_SECOND = timedelta(seconds=1)


class Change(NamedTuple):
    """A clock change: the moment, the wall time when the old offset ends, and the one when the new offset begins."""

    at: datetime
    old: datetime
    new: datetime

    @property
    def is_forward(self) -> bool:
        return self.new > self.old


def wall_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return what clocks in the zone show at a moment, without a zone."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def offset_at(moment: datetime, zone: ZoneInfo) -> timedelta:
    """Return the zone's offset from UTC at a moment in UTC."""
    return moment.astimezone(zone).replace(tzinfo=UTC) - moment


def is_repeated(local: datetime) -> bool:
    """Return whether clocks show this local time twice on that day."""
    return local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()


def first_pass(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first moment at which clocks show the wall time, or the end of the gap that skips it."""
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_time(moment, zone) == wall:
        return moment
    before_gap = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return first_change(zone, before_gap, moment) or moment


def first_change(zone: ZoneInfo, start: datetime, end: datetime) -> datetime | None:
    """Return the first moment after start, up to end, whose offset differs from the one at start."""
    # Offsets change at whole seconds, so the search below works on whole seconds.
    start, end = start.replace(microsecond=0), end.replace(microsecond=0)
    offset = offset_at(start, zone)
    while start < end:
        stop = min(start + _STEP, end)
        if offset_at(stop, zone) != offset:
            break
        start = stop
    else:
        return None
    while stop - start > _SECOND:
        middle = (start + (stop - start) / 2).replace(microsecond=0)
        if offset_at(middle, zone) == offset:
            start = middle
        else:
            stop = middle
    return stop


def clock_changes(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[Change]:
    """Yield the clock changes later than one moment and not later than another."""
    for year in range(after.year, until.year + 1):
        for change in _changes_of(zone, year):
            if after < change.at <= until:
                yield change


@lru_cache(maxsize=1024)
def _changes_of(zone: ZoneInfo, year: int) -> list[Change]:
    """List the clock changes of a year, including one at the start of the next year."""
    changes = []
    start = datetime(year, 1, 1, tzinfo=UTC)
    end = start.replace(year=year + 1) if year < MAXYEAR else datetime.max.replace(tzinfo=UTC)
    while (at := first_change(zone, start, end)) is not None:
        old = (at + offset_at(start, zone)).replace(tzinfo=None)
        changes.append(Change(at, old, wall_time(at, zone)))
        start = at
    return changes


def data_version() -> str:
    """Return the release and the source of the zone data in use: "2026f (tzdata package)"."""
    folder = _folder()
    if folder is None:
        return f"{tzdata.IANA_VERSION} (tzdata package)"
    version = _version_in(folder)
    return f"{version} (system)" if version else "system"


def release() -> str:
    """Return the release of the zone data in use, such as "2026f", or an empty text if it is unknown.

    Later releases compare greater as text.
    """
    folder = _folder()
    match = re.match(r"\d{4}[a-z]+", tzdata.IANA_VERSION if folder is None else _version_in(folder))
    return match[0] if match else ""


def _folder() -> Path | None:
    """Return the folder with zone data, or None if the `tzdata` package is used."""
    # Python reads the first folder that has the zone, and the package only if none has it.
    return next((Path(path) for path in zoneinfo.TZPATH if Path(path, "UTC").is_file()), None)


def _version_in(folder: Path) -> str:
    # Linux distributions keep the release in the first line of tzdata.zi, macOS and BSD in +VERSION.
    for name, prefix in (("tzdata.zi", "# version "), ("+VERSION", "")):
        with suppress(OSError, UnicodeDecodeError), (folder / name).open(encoding="utf-8") as file:
            line = file.readline(100).strip()
            if line.startswith(prefix):
                return line.removeprefix(prefix)
    return ""


def local(moment: datetime, zone: str) -> datetime:
    """Convert a moment to a zone, or to UTC if the zone is unknown."""
    try:
        return moment.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError, OverflowError):
        return moment.astimezone(UTC)


def local_words(moment: datetime, timezone: str) -> str:
    """Format a moment in a zone, or in UTC if the zone is unknown."""
    shown = local(moment, timezone)
    return f"{shown:%Y-%m-%d %H:%M:%S} {shown.tzinfo}"


def short_words(moment: datetime, timezone: str) -> str:
    """Format a moment in a zone for a sentence: "Sun 15 Nov 2026 20:18"; in UTC if the zone is unknown."""
    shown = local(moment, timezone)
    return f"{shown:%a} {shown.day} {shown:%b %Y %H:%M}"


def in_the_past(now: datetime, timezone: str) -> str:
    """Return the error for a moment in the past, with the current time in the zone."""
    return f"That time is in the past (now {local_words(now, timezone)})."
