"""The trigger of jobs that run before or after a calendar's events, and its @event notation."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from schedules.when import durations
from schedules.when.durations import TICK
from schedules.when.ics import IcsEvent
from schedules.when.slots import TriggerError
from schedules.when.unplanned import UNKNOWN_START, Unplanned
from schedules.when.zones import first_pass

AT_EVENT = "@event"
LONGEST_OFFSET = timedelta(days=28)
EXAMPLE = 'Write how long before or after, the title in quotes or "any", and the calendar: @event TIME before any in NAME'
_UNITS = {"m": 1, "h": 60, "d": 1440}
_TIMES = re.compile(
    r"(?P<amounts>(?:\d{1,5} ?(?:minutes?|mins?|m|hours?|hrs?|h|days?|d)\b ?(?:and )?|\d{1,5}[dh](?=\d))*)"
    r"(?P<side>before|after|at)\b"
    r"(?: (?P<each>(?:the start of |the end of )?(?:each |every |any |all )?(?:the )?(?:events?|any))\b)?"
    r"(?: (?:called |named )?[\"'](?P<title>[^\"']{1,80})[\"'])?"
    r" (?:in|of|from) (?:the )?(?:calendar )?[\"']?(?P<calendar>[^\"']{1,64}?)[\"']?",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"(\d+) ?([mhd])", re.IGNORECASE)
_QUOTES = str.maketrans("\u201c\u201d\u201e\u2018\u2019\u201a", "\"\"\"'''")


@dataclass(frozen=True, slots=True)
class EventTimes:
    """An offset from the events of one calendar."""

    calendar: str
    offset: timedelta = timedelta(0)
    """Before the start if negative, after the end if positive."""
    title: str = ""
    """Only events whose title contains this; empty for all events."""
    at_end: bool = False

    @property
    def expression(self) -> str:
        """The text to store: `@event 30m before "standup" in work`."""
        amount = f"{durations.typed(abs(self.offset))} " if self.offset else ""
        title = f'"{self.title}"' if self.title else "any"
        return f"{AT_EVENT} {amount}{self._side} {title} in {self.calendar}"

    @property
    def phrase(self) -> str:
        """The phrase that is parsed as these times."""
        amount = f"{durations.in_words(abs(self.offset))} " if self.offset else ""
        title = f' "{self.title}"' if self.title else ""
        return f"{amount}{self._side} every event{title} in calendar {self.calendar}"

    @property
    def _side(self) -> str:
        if self.at_end:
            return "after"
        return "before" if self.offset else "at"

    def slots_of(self, events: Iterable[IcsEvent], zone: ZoneInfo) -> tuple[datetime, ...]:
        """Return the slots of these events, in order; all-day events begin at midnight in the given zone."""
        part = self.title.casefold()
        slots = {
            _moment(end if self.at_end else start, zone) + self.offset
            for start, end, title in events
            if part in title.casefold()
        }
        return tuple(sorted(slots))


@dataclass(frozen=True, slots=True)
class AtEvents(Unplanned):
    """Runs before or after the events of a calendar; after the last known event, the next slot is UNKNOWN_START."""

    times: EventTimes
    slots: tuple[datetime, ...] | None = None
    """The slots of the calendar's events; None until they are looked up."""

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot later than the moment, or UNKNOWN_START."""
        slots = self.slots or ()
        place = bisect_right(slots, moment)
        if place < len(slots):
            return slots[place]
        return UNKNOWN_START if moment < UNKNOWN_START else None

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """Return the next known slots."""
        slots = self.slots or ()
        place = bisect_right(slots, after)
        return list(slots[place : place + count])

    def between(self, start: datetime, end: datetime) -> Sequence[datetime]:
        """Return the slots from start on and before end."""
        slots = self.slots or ()
        return slots[bisect_left(slots, start) : bisect_left(slots, end)]

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the newest slot between the two moments, ends included, or None."""
        slots = self.between(not_before, moment + TICK)
        return slots[-1] if slots else None

    @property
    def expression(self) -> str:
        return self.times.expression

    def words(self) -> str:
        """Describe it: "30 minutes before every event in calendar work"."""
        return self.times.phrase[:1].upper() + self.times.phrase[1:]

    @property
    def awaited(self) -> str:
        return "an event that matches"

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved."""
        if self.slots is None:
            return [f"There is no calendar {self.times.calendar!r}."]
        if after is not None and not self.upcoming(after, 1):
            return ["No event that is known yet matches. The job runs when its calendar has one."]
        return []


def event_trigger(expression: object) -> AtEvents | None:
    """Return the trigger of an @event expression, or None for any other; raises TriggerError."""
    if not str(expression).lstrip().lower().startswith(AT_EVENT):
        return None
    times = read_event_times(str(expression))
    return AtEvents(times) if times else None


def read_event_times(text: str) -> EventTimes | None:
    """Parse "30 minutes before every event in calendar work"; return None for other texts. Raises TriggerError."""
    text = " ".join(text.translate(_QUOTES).split()).rstrip(".!")
    is_stored = text.lower().startswith(AT_EVENT)
    match = _TIMES.fullmatch(text[len(AT_EVENT) :].strip() if is_stored else text)
    if match is None or not (is_stored or match["each"] or match["title"]):
        if is_stored:
            raise TriggerError("cron", EXAMPLE)
        return None
    side = match["side"].lower()
    amounts = _AMOUNT.findall(match["amounts"])
    if amounts and side == "at":
        raise TriggerError("cron", EXAMPLE)
    offset = timedelta(minutes=sum(int(number) * _UNITS[unit.lower()] for number, unit in amounts))
    if offset > LONGEST_OFFSET:
        raise TriggerError("cron", f"choose at most {LONGEST_OFFSET.days} days before or after an event")
    at_end = side == "after" or "end of" in (match["each"] or "").lower()
    return EventTimes(
        match["calendar"], -offset if side == "before" else offset, match["title"] or "", at_end=at_end
    )


def _moment(value: datetime | date, zone: ZoneInfo) -> datetime:
    return (
        value.astimezone(UTC)
        if isinstance(value, datetime)
        else first_pass(datetime.combine(value, time()), zone)
    )
