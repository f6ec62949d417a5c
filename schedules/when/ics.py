"""Read the events of an ICS file with their repetitions, with limits that no file can exceed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from importlib import import_module
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from schedules.when.zone_names import exact_zone
from schedules.when.zones import first_pass

MAX_CHARACTERS = 5_000_000
MAX_BLOCKS = 5_000
MAX_EVENTS = 5_000
LONGEST_TITLE = 100
# Steps through repetitions: of all events together, and of one event before it counts as unreadable.
MAX_STEPS = 300_000
MAX_STEPS_PER_EVENT = 100_000
_MARK = re.compile(
    r"^(BEGIN|END):(VEVENT|VTODO|VJOURNAL|VFREEBUSY)[ \t]*\r?(?:\n|\Z)", re.MULTILINE | re.IGNORECASE
)
_MOMENT = re.compile(r"^DT(?:START|END)[^:\r\n]*:(\d{8})", re.MULTILINE | re.IGNORECASE)
_OPEN = re.compile(r"^(?:RRULE|RDATE|RECURRENCE-ID|DURATION)[;:]", re.MULTILINE | re.IGNORECASE)
_BROKEN = "The ICS calendar is broken: export it again."
_DAY = timedelta(days=1)
# The Gregorian calendar repeats every 400 years. dateutil tries a rule that never matches until the year 9999, so rules
# are expanded in the years closest to it.
_CYCLE_YEARS = 400
_CYCLE = timedelta(days=146_097)
_LAST_YEAR = 9999
# The cost of one year of a rule: expanding a whole month or year at once takes longer than a day.
_STEPS_PER_YEAR = {"DAILY": 366, "WEEKLY": 106, "MONTHLY": 60, "YEARLY": 20}


class IcsError(ValueError):
    """A file that cannot be used; the text says why."""


class IcsEvent(NamedTuple):
    """One occurrence: moments in UTC, or days, where the end is the day after the last one."""

    start: datetime | date
    end: datetime | date
    title: str


@dataclass(frozen=True, slots=True)
class Ics:
    """The events of a file within a period, in order."""

    events: Sequence[IcsEvent]
    until: date
    """The last day whose events are complete."""
    unread: int = 0
    """How many events were skipped because they cannot be read."""


def read_ics(text: str, first: date, last: date, timezone: str) -> Ics:
    """Return the events from the first day to the last; raises IcsError.

    Times without a zone are in the zone of the file, or else in the given one.
    """
    if len(text) > MAX_CHARACTERS:
        raise IcsError(f"The calendar is larger than {MAX_CHARACTERS // 1_000_000} MB. Use a smaller one.")
    text = text.removeprefix("\ufeff").lstrip()
    if not text[:15].upper().startswith("BEGIN:VCALENDAR"):
        raise IcsError(
            "This is not an ICS calendar: it does not begin with BEGIN:VCALENDAR. "
            "Use the address or file that the calendar program calls iCal or ICS."
        )
    blocks, others, done = [], [], 0
    for name, start, end in _blocks(text):
        others.append(text[done:start])
        done, block = end, text[start:end]
        if name == "VEVENT" and _may_matter(block, first, last):
            blocks.append(block)
    if len(blocks) > MAX_BLOCKS:
        raise IcsError(f"The calendar has more than {MAX_BLOCKS:,} current events. Use a smaller one.")
    head = "".join([*others, text[done:]])
    head = re.sub(r"^END:VCALENDAR\s*\Z", "", head, flags=re.MULTILINE | re.IGNORECASE)
    return _Reader(first, last, timezone).read(f"{head.rstrip()}\r\n{''.join(blocks)}\r\nEND:VCALENDAR\r\n")


def _blocks(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, start and end of each event and its like, in one pass over their first and last lines."""
    opened, start = "", 0
    for mark in _MARK.finditer(text):
        name, begins = mark[2].upper(), mark[1].upper() == "BEGIN"
        if begins and not opened:
            opened, start = name, mark.start()
        elif opened == name and not begins:
            yield name, start, mark.end()
            opened = ""
    if opened:
        raise IcsError(_BROKEN)


def _may_matter(block: str, first: date, last: date) -> bool:
    """Return whether an event may lie in the period, because parsing every event would take far longer."""
    days = _MOMENT.findall(block)
    if not days or _OPEN.search(block):
        return True
    low, high = (f"{day:%Y%m%d}" for day in (first - 2 * _DAY, last + 2 * _DAY))
    return bool(max(days) >= low and min(days) <= high)


class _Reader:
    """Reads one file within the limits."""

    def __init__(self, first: date, last: date, timezone: str) -> None:
        self._first, self._last = first, last
        self._floating = exact_zone(timezone) or ZoneInfo("UTC")
        self._steps = 0

    def read(self, text: str) -> Ics:
        try:
            calendar = import_module("icalendar").Calendar.from_ical(text)
            components = calendar.walk("VEVENT")
        except Exception as error:
            # Files of strangers can make the library raise anything.
            raise IcsError(_BROKEN) from error
        self._floating = exact_zone(str(calendar.get("X-WR-TIMEZONE", ""))) or self._floating
        replaced: dict[str, set[datetime | date]] = {}
        for event in components:
            if "RECURRENCE-ID" in event and _is_readable(event["RECURRENCE-ID"]):
                original = self._normalized(event["RECURRENCE-ID"].dt)
                replaced.setdefault(str(event.get("UID")), set()).add(original)
        events: list[IcsEvent] = []
        unread = 0
        for event in components:
            if str(event.get("STATUS", "")).upper() == "CANCELLED":
                continue
            try:
                excluded = set() if "RECURRENCE-ID" in event else replaced.get(str(event.get("UID")), set())
                events += self._occurrences(event, excluded)
            except IcsError:
                raise
            except Exception:
                # Counted, and shown to the person.
                unread += 1
        events.sort(key=lambda event: self._moment(event.start))
        until = self._last
        if len(events) > MAX_EVENTS:
            until = _day_of(events[MAX_EVENTS].start) - _DAY
            events = [event for event in events[:MAX_EVENTS] if _day_of(event.start) <= until]
        return Ics(events, until, unread)

    def _occurrences(self, event: Any, excluded: set[datetime | date]) -> Iterable[IcsEvent]:
        start = event["DTSTART"].dt
        length = _length_of(event, start)
        title = _title(str(event.get("SUMMARY", "")))
        excluded = excluded | {self._normalized(each) for each in _listed(event, "EXDATE")}
        starts = [start, *_listed(event, "RDATE")] if "RDATE" in event else [start]
        if "RRULE" in event:
            rules = event["RRULE"]
            for rule in rules if isinstance(rules, list) else [rules]:
                starts += self._repeated(start, rule, length)
        occurrences = {}
        for each in starts:
            begin = self._normalized(each)
            if begin not in excluded:
                occurrences[begin] = IcsEvent(begin, begin + max(length, timedelta(0)), title)
        return [occurrence for occurrence in occurrences.values() if self._is_inside(occurrence)]

    def _repeated(self, start: datetime | date, rule: Any, length: timedelta) -> Iterator[datetime | date]:
        """Yield the repetitions of an event in the period."""
        frequency = str(rule["FREQ"][0]).upper()
        if frequency not in _STEPS_PER_YEAR or "BYEASTER" in rule:
            raise ValueError("repeats too often")
        zone = start.tzinfo if isinstance(start, datetime) else None
        wall = start.replace(tzinfo=None) if isinstance(start, datetime) else datetime.combine(start, time())
        ends = [self._until(each, zone) for each in rule.get("UNTIL", [])]
        end = min([*ends, datetime.combine(self._last + 2 * _DAY, time())])
        begin = datetime.combine(self._first - 2 * _DAY, time()) - length
        shift = ((_LAST_YEAR - self._last.year) // _CYCLE_YEARS) * _CYCLE
        parts = rule.to_ical().decode().split(";")
        text = ";".join(part for part in parts if not part.upper().startswith("UNTIL="))
        per_year = _STEPS_PER_YEAR[frequency]
        walls = import_module("dateutil.rrule").rrulestr(text, dtstart=wall + shift, ignoretz=True)
        cost = per_year * max(1, self._last.year - wall.year)
        if cost > MAX_STEPS_PER_EVENT:
            raise ValueError("began too long ago")
        self._count_steps(cost)
        for number, far in enumerate(walls):
            if number == 0 and far - shift > end:
                break
            self._count_steps(1)
            occurrence = far - shift
            if occurrence > end:
                return
            if occurrence >= begin:
                yield occurrence.replace(tzinfo=zone) if isinstance(start, datetime) else occurrence.date()
        else:
            # The rule has no end: dateutil tried it until the last year.
            if "COUNT" not in rule:
                self._count_steps(per_year * _CYCLE_YEARS)

    def _count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise IcsError("The events of the calendar repeat too often. Use a smaller calendar.")

    def _until(self, value: datetime | date, zone: tzinfo | None) -> datetime:
        """Return the end of a rule in the wall time of its event."""
        if not isinstance(value, datetime):
            return datetime.combine(value, time.max)
        if value.tzinfo is None:
            return value
        return value.astimezone(zone or self._floating).replace(tzinfo=None)

    def _normalized(self, value: datetime | date) -> datetime | date:
        """Return a moment in UTC, or a day."""
        if not isinstance(value, datetime):
            return value
        zone = value.tzinfo or self._floating
        own = exact_zone(zone.key) if isinstance(zone, ZoneInfo) else None
        if own is not None:
            return first_pass(value.replace(tzinfo=None), own)
        return value.replace(tzinfo=zone).astimezone(UTC)

    def _moment(self, value: datetime | date) -> datetime:
        return value if isinstance(value, datetime) else datetime.combine(value, time(), UTC)

    def _is_inside(self, event: IcsEvent) -> bool:
        return _day_of(event.end) >= self._first and _day_of(event.start) <= self._last


def _day_of(value: datetime | date) -> date:
    return value.date() if isinstance(value, datetime) else value


def _is_readable(value: Any) -> bool:
    return hasattr(value, "dt")


def _length_of(event: Any, start: datetime | date) -> timedelta:
    if "DTEND" in event:
        end = event["DTEND"].dt
        if isinstance(start, datetime) and isinstance(end, datetime) and start.tzinfo and end.tzinfo:
            # As elapsed time, because each may have its own zone.
            return end.astimezone(UTC) - start.astimezone(UTC)
        length: timedelta = end - start
        return length
    if "DURATION" in event:
        duration: timedelta = event["DURATION"].dt
        return duration
    return timedelta(0) if isinstance(start, datetime) else _DAY


def _listed(event: Any, name: str) -> list[datetime | date]:
    """Return all moments of EXDATE or RDATE; for a period, its start."""
    value = event.get(name, [])
    values = [each.dt for one in (value if isinstance(value, list) else [value]) for each in one.dts]
    return [value[0] if isinstance(value, tuple) else value for value in values]


def _title(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * LONGEST_TITLE])
    return " ".join(printable.split())[:LONGEST_TITLE]
