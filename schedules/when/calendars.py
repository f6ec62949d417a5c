"""Calendars: which moments they close, and where runs at closed moments move.

A calendar marks days, weekly hours and periods; it closes what it marks, or everything else. Days and hours are in its
own zone, or in the zone of each job.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from schedules.when.durations import TICK, listed
from schedules.when.ics import IcsEvent
from schedules.when.triggers import load_zone
from schedules.when.zones import clock_changes, first_pass, offset_at

NEXT, PREVIOUS = "next", "previous"
# How far a run moves at most; without an open moment in reach, it stays and is skipped.
FARTHEST_MOVE = timedelta(days=62)
_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
# Days whose spans are cached, for each combination of calendars.
_MAX_CACHED_DAYS = 1500


class Span(NamedTuple):
    """A period that is marked or closed, and why."""

    start: datetime
    end: datetime
    why: str = ""


class Hours(NamedTuple):
    """A window on a day of the week, in minutes after midnight; Monday is 0."""

    weekday: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """What one calendar marks: days by their ISO date, hours of the week, and periods in order without overlaps."""

    name: str
    words: str
    """Its name in the description of a schedule: "public holidays in Bavaria"."""
    closes: bool = True
    """Whether it closes what it marks; otherwise it closes everything else."""
    timezone: str = ""
    days: Mapping[str, str] = field(default_factory=dict)
    hours: Sequence[Hours] = ()
    periods: Sequence[Span] = ()
    until: date | None = None
    """The last day that its data covers; None if the data has no end."""
    events: Sequence[IcsEvent] = ()
    """The events that its days and periods come from, if it has any."""

    @property
    def occurrences(self) -> Sequence[IcsEvent]:
        """Its events, or else its marked days, such as holidays, as all-day events."""
        if self.events:
            return self.events
        days = ((date.fromisoformat(day), title) for day, title in self.days.items())
        return [IcsEvent(day, day + _DAY, title) for day, title in days]

    def closed_spans(self, day: date, zone: ZoneInfo) -> list[Span]:
        """Return the parts of a day that it closes, in the zone of a job."""
        start, end = _day_in(day, zone)
        marked = self._marked_in(start, end, zone)
        if self.closes:
            return [span._replace(why=self._why(span.why)) for span in marked]
        why = f"Outside the times of calendar {self.name}."
        return [gap._replace(why=why) for gap in _gaps(merged(marked), start, end)]

    def _why(self, title: str) -> str:
        return f"Closed: {title}, calendar {self.name}." if title else f"Closed by calendar {self.name}."

    def _marked_in(self, start: datetime, end: datetime, zone: ZoneInfo) -> list[Span]:
        own = load_zone(self.timezone) if self.timezone else zone
        spans: list[Span] = []
        if self.days or self.hours:
            day, last = start.astimezone(own).date(), (end - TICK).astimezone(own).date()
            while day <= last:
                spans += self._marked_on(day, own)
                day += _DAY
        first = max(0, bisect_right(self.periods, start, key=lambda span: span.start) - 1)
        for span in self.periods[first:]:
            if span.start >= end:
                break
            spans.append(span)
        inside = (Span(max(span.start, start), min(span.end, end), span.why) for span in spans)
        return [span for span in inside if span.start < span.end]

    def _marked_on(self, day: date, zone: ZoneInfo) -> Iterable[Span]:
        if (title := self.days.get(day.isoformat())) is not None:
            yield Span(*_day_in(day, zone), title)
        for window in self.hours:
            if window.weekday == day.weekday():
                yield from _window(day, window, zone)


@dataclass(frozen=True, slots=True, eq=False)
class ClosedTimes:
    """The closed times of one job, from its calendars, and where its runs at closed moments move."""

    calendars: Sequence[Calendar]
    timezone: str
    move: str = ""
    """NEXT or PREVIOUS, or empty: such runs are skipped."""
    _days: dict[date, tuple[list[Span], list[Span]]] = field(default_factory=dict)
    _targets: dict[datetime, datetime | None] = field(default_factory=dict)
    """Where the runs in a closed span move to, by its start, unless they keep their time of day."""

    @property
    def until(self) -> date | None:
        """The last day that the data of all its calendars covers, or None if the data has no end."""
        return min((calendar.until for calendar in self.calendars if calendar.until), default=None)

    @property
    def clause(self) -> str:
        """The end of a schedule in words: ", except public holidays in Bavaria"."""
        if self.move:
            where = "at the next open time" if self.move == NEXT else "at the last open time before"
            return f", {where} if closed by {listed([calendar.words for calendar in self.calendars])}"
        closing = listed([calendar.words for calendar in self.calendars if calendar.closes])
        opening = listed([calendar.words for calendar in self.calendars if not calendar.closes])
        return (f", except {closing}" if closing else "") + (f", only during {opening}" if opening else "")

    def reason(self, moment: datetime) -> str:
        """Return why a moment is closed, or an empty text if it is open."""
        spans, closed = self._spans_of(self._day_of(moment))
        if not _span_at(closed, moment):
            return ""
        return next(span.why for span in spans if span.start <= moment < span.end)

    def last_moment(self, moment: datetime) -> datetime:
        """Return the end of the closed time around a closed moment, at most the end of its day."""
        span = _span_at(self._spans_of(self._day_of(moment))[1], moment)
        return span.end - TICK if span else moment

    def between(self, start: datetime, end: datetime) -> Iterable[Span]:
        """Yield the closed spans of a period in order, cut at midnight."""
        day, last = self._day_of(start), self._day_of(end)
        while day <= last:
            yield from self._spans_of(day)[1]
            day += _DAY

    def moved(self, slot: datetime) -> datetime:
        """Return the moment a run moves to, or its own if that is open or no open moment is in reach.

        If its whole day is closed, it moves to the same time of the nearest open day in its direction, or to the first
        open moment of that day in that direction. Otherwise it moves to the next open moment, or to the last open minute
        before it.
        """
        day = self._day_of(slot)
        span = _span_at(self._spans_of(day)[1], slot) if self.move else None
        if span is None:
            return slot
        if not self._is_closed(day):
            return self._target_of(span) or slot
        zone = load_zone(self.timezone)
        wall = slot.astimezone(zone).time().replace(fold=0)
        step = _DAY if self.move == NEXT else -_DAY
        for _ in range(FARTHEST_MOVE // _DAY):
            day += step
            if self._is_closed(day):
                continue
            same = first_pass(datetime.combine(day, wall), zone)
            if not _span_at(self._spans_of(self._day_of(same))[1], same):
                return same
            start, end = _day_in(day, zone)
            return (self._open_from(start) if self.move == NEXT else self._last_minute_before(end)) or slot
        return slot

    def _target_of(self, span: Span) -> datetime | None:
        """Return the nearest open moment beside a closed span that does not cover its whole day."""
        if span.start not in self._targets:
            if len(self._targets) >= _MAX_CACHED_DAYS:
                self._targets.clear()
            is_next = self.move == NEXT
            target = self._open_from(span.end) if is_next else self._last_minute_before(span.start)
            self._targets[span.start] = target
        return self._targets[span.start]

    def last_open_before_day_of(self, moment: datetime) -> datetime:
        """Return a moment up to which no run moves to this moment's day or later."""
        start = _day_in(self._day_of(moment), load_zone(self.timezone))[0]
        span = self._last_open_before(start)
        return span.end - TICK if span else start - FARTHEST_MOVE

    def first_open_after_day_of(self, moment: datetime) -> datetime:
        """Return a moment from which no run moves to this moment's day or earlier."""
        end = _day_in(self._day_of(moment), load_zone(self.timezone))[1]
        return self._open_from(end) or end + FARTHEST_MOVE

    def _open_from(self, moment: datetime) -> datetime | None:
        """Return the first open moment from this one on."""
        zone, day, limit = load_zone(self.timezone), self._day_of(moment), moment + FARTHEST_MOVE
        while moment < limit:
            end = _day_in(day, zone)[1]
            while moment < end and (span := _span_at(self._spans_of(day)[1], moment)):
                moment = span.end
            if moment < end:
                return moment
            day += _DAY
        return None

    def _last_minute_before(self, moment: datetime) -> datetime | None:
        """Return the beginning of the last open minute before a moment, or of a shorter open span."""
        span = self._last_open_before(moment)
        return max(span.start, span.end - _MINUTE) if span else None

    def _last_open_before(self, moment: datetime) -> Span | None:
        """Return the last open span that begins before a moment, cut there and at midnight."""
        zone = load_zone(self.timezone)
        day = self._day_of(moment - TICK)
        for _ in range(FARTHEST_MOVE // _DAY + 1):
            start, end = _day_in(day, zone)
            if open_spans := _gaps(self._spans_of(day)[1], start, min(end, moment)):
                return open_spans[-1]
            day -= _DAY
        return None

    def _is_closed(self, day: date) -> bool:
        """Return whether a whole day is closed."""
        start, end = _day_in(day, load_zone(self.timezone))
        closed = self._spans_of(day)[1]
        return len(closed) == 1 and closed[0].start <= start and closed[0].end >= end

    def _day_of(self, moment: datetime) -> date:
        return moment.astimezone(load_zone(self.timezone)).date()

    def _spans_of(self, day: date) -> tuple[list[Span], list[Span]]:
        """Return the spans that each calendar closes on a day, in turn, and all of them merged."""
        spans_of_day = self._days.get(day)
        if spans_of_day is None:
            zone = load_zone(self.timezone)
            spans = [span for calendar in self.calendars for span in calendar.closed_spans(day, zone)]
            if len(self._days) >= _MAX_CACHED_DAYS:
                self._days.clear()
            spans_of_day = self._days[day] = spans, merged(spans)
        return spans_of_day


def marks_of(events: Iterable[IcsEvent], first: date, last: date) -> tuple[dict[str, str], list[Span]]:
    """Return the days (by ISO date) and periods that events mark, from the first day to the last."""
    days: dict[str, str] = {}
    periods: list[Span] = []
    for start, end, title in events:
        if isinstance(start, datetime) and isinstance(end, datetime):
            periods.append(Span(start, end, title))
            continue
        day, after = max(start, first), min(end, last + _DAY)
        while day < after:
            days.setdefault(day.isoformat(), title)
            day += _DAY
    return days, merged(span for span in periods if span.start < span.end)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, merging those that touch; a merged span keeps the reason of its first part."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if joined and span.start <= joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def _gaps(spans: Iterable[Span], start: datetime, end: datetime) -> list[Span]:
    """Return the parts of a period between these merged spans."""
    gaps, since = [], start
    for span in spans:
        if span.start >= end:
            break
        if span.start > since:
            gaps.append(Span(since, span.start))
        since = max(since, span.end)
    if since < end:
        gaps.append(Span(since, end))
    return gaps


def _span_at(spans: Sequence[Span], moment: datetime) -> Span | None:
    """Return the merged span that contains a moment, or None."""
    place = bisect_right(spans, moment, key=lambda span: span.start) - 1
    return spans[place] if place >= 0 and moment < spans[place].end else None


@lru_cache(maxsize=4096)
def _day_in(day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the first moments of a day and of the next day."""
    midnights = (datetime.combine(each, time()) for each in (day, day + _DAY))
    start, end = (first_pass(midnight, zone) for midnight in midnights)
    return start, end


def _window(day: date, window: Hours, zone: ZoneInfo) -> Iterable[Span]:
    """Yield the parts of a day whose wall time is in a window, even if clocks change that day."""
    midnight = datetime.combine(day, time(), UTC)
    start, end = midnight + window.start * _MINUTE, midnight + window.end * _MINUTE
    for piece, following, offset in _offsets_on(day, zone):
        low, high = max(piece, start - offset), min(following, end - offset)
        if low < high:
            yield Span(low, high)


@lru_cache(maxsize=4096)
def _offsets_on(day: date, zone: ZoneInfo) -> Sequence[tuple[datetime, datetime, timedelta]]:
    """Return the parts of a day by UTC offset: one, unless clocks change."""
    since, until = _day_in(day, zone)
    changes = [change.at for change in clock_changes(zone, since, until - TICK)]
    parts = zip([since, *changes], [*changes, until], strict=True)
    return [(start, end, offset_at(start, zone)) for start, end in parts]
