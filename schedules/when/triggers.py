"""When does a job fire? Once, at an interval, or by a cron expression."""

import re
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim
from cronsim.explain import explain

from schedules.when import cron

MAX_INTERVAL = timedelta(days=5 * 366)
_LOOK_AHEAD = timedelta(days=400)
_FIRST_WINDOW = timedelta(hours=1)
_TICK = timedelta(microseconds=1)
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ZONE_NAME = re.compile(r"(?!posix/|right/)[A-Za-z][A-Za-z0-9_+/-]{0,63}")
_NOT_PLACES = {"localtime", "posixrules", "Factory"}
# What a clock change does to a run, by whether the job's time of day is fixed.
_SKIPPED = {True: "that run comes at {end}.", False: "there is no run then."}
_DOUBLED = {True: "it runs once, the first time.", False: "it runs both times."}


class TriggerError(ValueError):
    """A trigger that cannot be; field says which part, the text says what would be right."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


class _Slots(ABC):
    """What every trigger can tell from its next slot alone."""

    __slots__ = ()

    @abstractmethod
    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot later than the moment, in UTC, or None if there is none."""

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """Return the next slots, fewer than count if the trigger ends."""
        slots: list[datetime] = []
        slot = self.next_after(after)
        while slot is not None and len(slots) < count:
            slots.append(slot)
            slot = self.next_after(slot)
        return slots

    def count_between(self, after: datetime, until: datetime, limit: int) -> int:
        """Count the slots later than after and not later than until, up to the limit."""
        count = 0
        slot = self.next_after(after)
        while slot is not None and slot <= until and count < limit:
            count += 1
            slot = self.next_after(slot)
        return count


@dataclass(frozen=True, slots=True)
class Once(_Slots):
    """One run; the zone is only for the words."""

    run_at: datetime
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        run_at = _aware(self.run_at, "run_at")
        zone = load_zone(self.timezone)
        try:
            run_at.astimezone(zone)
        except OverflowError as error:
            raise TriggerError("run_at", "the moment lies beyond the calendar's end") from error
        object.__setattr__(self, "run_at", run_at)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the run if it is still ahead of the moment, else None."""
        return self.run_at if self.run_at > moment else None

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the run if it lies between the two moments, ends included."""
        return self.run_at if not_before <= self.run_at <= moment else None

    def words(self) -> str:
        """Say it: "Once, Thu 3 Dec 2026 08:30 UTC"."""
        local = self.run_at.astimezone(ZoneInfo(self.timezone))
        clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
        return f"Once, {local:%a} {local.day} {local:%b %Y} {clock} {local.tzname()}"

    def warnings(self, after: datetime | None = None) -> list[str]:
        """Return what a person should know before saving it."""
        local = self.run_at.astimezone(ZoneInfo(self.timezone))
        if not is_repeated(local):
            return []
        day = f"{local.day} {local:%b %Y}"
        which = "second" if local.fold else "first"
        return [f"On {day} clocks in {self.timezone} repeat {local:%H:%M}: it runs once, the {which} time."]


@dataclass(frozen=True, slots=True)
class Interval(_Slots):
    """Runs a fixed elapsed time apart, on a grid that begins with the first run and never drifts."""

    seconds: float
    start: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", _whole_seconds(self.seconds))
        object.__setattr__(self, "start", _aware(self.start, "every"))

    @property
    def _step(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def _slots_until(self, moment: datetime) -> int:
        """Count the slots from the start to the moment, both included."""
        return max(0, (moment - self.start) // self._step + 1)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot of the grid later than the moment, or None at the calendar's end."""
        try:
            return self.start + self._slots_until(moment) * self._step
        except OverflowError:
            return None

    def count_between(self, after: datetime, until: datetime, limit: int) -> int:
        """Count the slots later than after and not later than until, up to the limit."""
        count = self._slots_until(until) - self._slots_until(after)
        return max(0, min(count, limit))

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the newest slot between the two moments, ends included, or None."""
        slots = self._slots_until(moment)
        slot = self.start + (slots - 1) * self._step if slots else None
        return slot if slot is not None and slot >= not_before else None

    def words(self) -> str:
        """Say it: "Every 2 hours 30 minutes"."""
        minutes, seconds = divmod(self.seconds, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        amounts = {"day": days, "hour": hours, "minute": minutes, "second": seconds}
        parts = [f"{count} {unit}{'s' if count > 1 else ''}" for unit, count in amounts.items() if count]
        spoken = " ".join(parts)
        return "Every " + (spoken.removeprefix("1 ") if len(parts) == 1 else spoken)

    def warnings(self, after: datetime | None = None) -> list[str]:
        """Return what a person should know before saving it."""
        if self.seconds < 60:
            return ["This runs more than once a minute."]
        return []


@dataclass(frozen=True, slots=True)
class Cron(_Slots):
    """Runs at the wall times of a zone that a five-field expression matches.

    The expression is kept as typed, macros included, with single spaces.
    """

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise TriggerError("cron", "write the expression as text: 0 9 * * 1-5")
        load_zone(self.timezone)
        try:
            object.__setattr__(self, "expression", cron.normalise(self.expression))
        except cron.CronError as error:
            raise TriggerError("cron", str(error)) from error

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first run later than the moment, in UTC, or None at the calendar's end."""
        if moment.tzinfo is None:
            raise TypeError("the moment needs a zone")
        moment = moment.astimezone(UTC)
        # Asked by the minute, so that the jobs of one minute share the cached answer.
        run = cron.next_run(self.expression, self.timezone, moment.replace(second=0, microsecond=0))
        while run is not None and run <= moment:
            # Only old offsets with odd seconds put a run inside the minute.
            run = cron.next_run(self.expression, self.timezone, run)
        return run

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the newest run between the two moments, ends included, or None."""
        window = _FIRST_WINDOW
        while window < moment - not_before:
            if (run := self._first_between(moment - window, moment)) is not None:
                return self._newest(run, moment)
            window *= 2
        # A tick earlier, because a run at not_before itself counts.
        run = self._first_between(not_before - _TICK, moment)
        return run and self._newest(run, moment)

    def _first_between(self, after: datetime, until: datetime) -> datetime | None:
        run = self.next_after(after)
        return run if run is not None and run <= until else None

    def _newest(self, found: datetime, moment: datetime) -> datetime:
        """Close in by halves on the newest run, from one that is known."""
        end = moment
        while (following := self._first_between(found, moment)) is not None:
            middle = following + (end - following) / 2
            newer = self._first_between(middle, moment)
            found, end = (newer, end) if newer else (following, middle)
        return found

    def words(self) -> str:
        """Say it, without the zone: "Every 15 minutes", "Every day at 09:00"."""
        fields = cron.split(self.expression)
        return _simple_words(fields) or _explained(fields) or self.expression

    def warnings(self, after: datetime | None = None) -> list[str]:
        """Return what a person should know before saving it; clock changes only when told from when."""
        fields = cron.split(self.expression)
        found = [*_day_warnings(fields), *_step_warnings(fields), *_month_warnings(fields)]
        if after is not None:
            found += _clock_warnings(fields, self.timezone, after.astimezone(UTC))
        return found


Trigger: TypeAlias = Once | Interval | Cron


def load_zone(name: object) -> ZoneInfo:
    """Return the zone of an IANA name, or raise TriggerError."""
    if isinstance(name, str) and (zone := _zone_called(name)):
        return zone
    raise TriggerError("timezone", f"unknown zone {ascii(name)[:70]}: write an IANA name like Europe/Berlin")


def is_repeated(local: datetime) -> bool:
    """Tell whether clocks show this time twice on that day."""
    return local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()


@lru_cache(maxsize=1024)
def _zone_called(name: str) -> ZoneInfo | None:
    # The pattern keeps the name from being a path: ZoneInfo opens files.
    if _ZONE_NAME.fullmatch(name) and name not in _NOT_PLACES:
        with suppress(KeyError, ValueError, OSError):
            return ZoneInfo(name)
    return None


def _aware(moment: object, field: str) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise TriggerError(field, "give a date and time with its zone: 2026-12-24T18:00+01:00")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise TriggerError(field, "the moment lies beyond the calendar's end") from error


def _whole_seconds(seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise TriggerError("every", "give the interval as a number of seconds, like 900")
    if seconds < 1:
        raise TriggerError("every", "the smallest interval is 1 second")
    if seconds > MAX_INTERVAL.total_seconds():
        raise TriggerError("every", "the longest interval is five years")
    if seconds != int(seconds):
        raise TriggerError("every", "an interval is made of whole seconds")
    return int(seconds)


def _simple_words(fields: list[str]) -> str | None:
    """Say the common shapes better than a general rule can."""
    minute, hour, *days = fields
    if days != ["*", "*", "*"]:
        return None
    if hour == "*" and minute in {"*", "*/1"}:
        return "Every minute"
    if minute == "0" and hour in {"*", "*/1"}:
        return "Every hour"
    if hour == "*" and (step := _even_step(minute, 60)):
        return f"Every {step} minutes"
    if minute == "0" and (step := _even_step(hour, 24)):
        return f"Every {step} hours"
    if minute.isdigit() and hour.isdigit():
        return f"Every day at {int(hour):02}:{int(minute):02}"
    return None


def _even_step(value: str, size: int) -> int | None:
    step = _star_step(value)
    return step if step and 1 < step < size and size % step == 0 else None


def _star_step(term: str) -> int | None:
    match = re.fullmatch(r"\*/([0-9]+)", term)
    return int(match[1]) if match else None


def _explained(fields: list[str]) -> str | None:
    try:
        text = explain(" ".join(fields))
    except Exception:
        # Words are a courtesy: whatever goes wrong here, the page shows the expression instead.
        return None
    # Only the day fields are joined like this, and there cron means either.
    text = text.replace(" and on ", " or on ")
    return re.sub(r"\b([0-9]+)th\b", lambda match: _ordinal(int(match[1])), text)


def _ordinal(number: int) -> str:
    suffixes = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in {11, 12, 13} else suffixes.get(number % 10, 'th')}"


def _day_warnings(fields: list[str]) -> list[str]:
    day, weekday = fields[2], fields[4]
    if "*" in {day, weekday}:
        return []
    if day.startswith("*") or weekday.startswith("*"):
        return ["Day-of-month and weekday must both match here, because one of them starts with *."]
    return ["Day-of-month and weekday are both given: it runs on days that match either of them."]


def _step_warnings(fields: list[str]) -> list[str]:
    """Warn of steps that begin anew before they have come round."""
    found = []
    for field, value in zip(cron.FIELDS, fields, strict=True):
        for term in value.split(","):
            step = _star_step(term)
            if step and step > 1 and (field.size % step or field.cycle == "month"):
                found.append(f"{term} starts again every {field.cycle}: it means {_listed(field, step)}.")
    return found


def _listed(field: cron.Field, step: int) -> str:
    """List what a step comes to: "minute :00 and :45"."""
    mark = ":{:02}" if field.cycle == "hour" else "{}"
    values = [mark.format(number) for number in range(field.low, field.low + field.size, step)]
    return f"{field.name} {' and '.join(filter(None, [', '.join(values[:-1]), values[-1]]))}"


def _month_warnings(fields: list[str]) -> list[str]:
    """Warn of days that only some months have."""
    months = CronSim(" ".join(fields), cron.REFERENCE).months
    starts = [int(match[0]) for term in fields[2].split(",") if (match := re.match(r"[0-9]+", term))]
    missing = [day for day in starts if any(day > _DAYS_IN_MONTH[month - 1] for month in months)]
    if not missing:
        return []
    if months == {2}:
        return ["29 February comes only in leap years."]
    return [f"Months without a day {max(missing)} are skipped; L means the last day of every month."]


def _clock_warnings(fields: list[str], timezone: str, after: datetime) -> list[str]:
    """Warn of the next run that a clock change skips and the next that it doubles."""
    if fields[1] == "*":
        return []
    found: dict[bool, str] = {}
    for old, new in cron.clock_changes(ZoneInfo(timezone), after, after + _LOOK_AHEAD):
        skips = new > old
        match = cron.next_wall(" ".join(fields), min(old, new) - _TICK)
        if match is None or match >= max(old, new) or skips in found:
            continue
        effect = _SKIPPED if skips else _DOUBLED
        found[skips] = (
            f"On {match.day} {match:%b %Y} clocks in {timezone} {'skip' if skips else 'repeat'} {match:%H:%M}: "
            + effect[cron.is_fixed(fields)].format(end=f"{new:%H:%M}")
        )
    return list(found.values())
