"""Triggers: the slots of a job that runs once, at an interval, or by a cron expression."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

from schedules.when import cron, durations, words
from schedules.when.cron_warnings import clock_warning, clock_warnings, cron_warnings
from schedules.when.durations import TICK, add_months, months_between
from schedules.when.event_times import event_trigger
from schedules.when.slots import NumberedSlots
from schedules.when.slots import Slots as Slots
from schedules.when.slots import TriggerError as TriggerError
from schedules.when.unplanned import Unplanned, unplanned_trigger
from schedules.when.zone_names import exact_zone, unknown_zone
from schedules.when.zones import first_pass, is_repeated, wall_time

TOO_LONG = f"the longest interval is {durations.HORIZON_IN_WORDS}"
_FIRST_WINDOW = timedelta(hours=1)


def unreadable(reason: object) -> str:
    """Return the error for a stored schedule that this version of the code or of the zone data cannot read."""
    return f"Its schedule cannot be read: {reason}"


@dataclass(frozen=True, slots=True)
class Once(Slots):
    """One run; the zone is used only in the description."""

    run_at: datetime
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        run_at = _aware(self.run_at, "run_at")
        zone = load_zone(self.timezone)
        try:
            run_at.astimezone(zone)
        except OverflowError as error:
            raise TriggerError("run_at", "that date is too far in the future") from error
        object.__setattr__(self, "run_at", run_at)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the run if it is still ahead of the moment, else None."""
        return self.run_at if self.run_at > moment else None

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the run if it lies between the two moments, ends included."""
        return self.run_at if not_before <= self.run_at <= moment else None

    def words(self) -> str:
        """Describe it: "Once, on Thu 3 Dec 2026 at 08:30 UTC"."""
        return words.describe_once(self.run_at.astimezone(ZoneInfo(self.timezone)))

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved."""
        local = self.run_at.astimezone(ZoneInfo(self.timezone))
        if not is_repeated(local):
            return []
        effect = f"the job runs the {'second' if local.fold else 'first'} time only"
        return [clock_warning(local, self.timezone, effect, is_forward=False)]


@dataclass(frozen=True, slots=True)
class Interval(NumberedSlots):
    """Runs a fixed elapsed time apart, on a grid that starts with the first run and never drifts."""

    seconds: float
    start: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", _whole_seconds(self.seconds))
        object.__setattr__(self, "start", _aware(self.start, "every"))

    @property
    def _step(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def _slot(self, number: int) -> datetime:
        return self.start + number * self._step

    def _slots_until(self, moment: datetime) -> int:
        return max(0, (moment - self.start) // self._step + 1)

    def words(self) -> str:
        """Describe it: "Every 90 minutes"."""
        return words.describe_interval(self._step)

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved."""
        if self.seconds < 60:
            return ["This job runs more than once a minute."]
        return []


@dataclass(frozen=True, slots=True)
class CalendarInterval(NumberedSlots):
    """Runs some days or months apart on the wall clock of a zone, from a first run on.

    At a time that clocks skip, it runs at the end of the gap; at a time that they show twice, the first time only. In a
    month that is too short, it runs on the last day, and in the next one on the original day again.
    """

    count: int
    unit: str
    """`days` or `months`."""
    start: datetime
    timezone: str

    def __post_init__(self) -> None:
        load_zone(self.timezone)
        object.__setattr__(self, "start", _aware(self.start, "every"))
        days = self.count * (1 if self.unit == "days" else 28)
        if self.count < 1 or days > durations.HORIZON.days:
            raise TriggerError("every", TOO_LONG if self.count > 0 else "the smallest interval is 1 day")

    @classmethod
    def first_after(
        cls, now: datetime, walls: Sequence[datetime], count: int, unit: str, timezone: str
    ) -> "CalendarInterval":
        """Start with the first of these wall times that is ahead.

        If clocks skip it, count from the interval before, so that later runs keep the time of day.
        """
        zone = load_zone(timezone)
        first = next(wall for wall in walls if first_pass(wall, zone) > now)
        start = first_pass(first, zone)
        if wall_time(start, zone) != first:
            before = first - timedelta(days=count) if unit == "days" else add_months(first, -count)
            start = first_pass(before, zone)
        return cls(count, unit, start, timezone)

    def _slot(self, number: int) -> datetime:
        return self.start if number == 0 else first_pass(self._wall(number), load_zone(self.timezone))

    def _wall(self, number: int) -> datetime:
        """Return the wall time of a slot, which clocks may skip."""
        first = wall_time(self.start, load_zone(self.timezone))
        if self.unit == "days":
            return first + timedelta(days=number * self.count)
        return add_months(first, number * self.count)

    def _wall_between(self, low: datetime, high: datetime) -> datetime | None:
        """Return the first slot after the start from one wall time to before another, as wall time."""
        first = wall_time(self.start, load_zone(self.timezone))
        passed = (low - first).days if self.unit == "days" else months_between(first, low)
        number = max(1, passed // self.count - 1)
        with suppress(OverflowError):
            while (wall := self._wall(number)) < low:
                number += 1
            return wall if wall < high else None
        return None

    def _slots_until(self, moment: datetime) -> int:
        if moment < self.start:
            return 0
        zone = load_zone(self.timezone)
        first, now = wall_time(self.start, zone), wall_time(moment, zone)
        passed = (now - first).days if self.unit == "days" else months_between(first, now)
        # An estimate, because of clock changes and short months.
        number = max(0, passed // self.count - 1)
        with suppress(OverflowError):
            while self._slot(number) <= moment:
                number += 1
        return number

    def words(self) -> str:
        """Describe it: "Every 2 weeks on Tuesday at 09:00, starting 2 Mar 2027"."""
        first = self.start.astimezone(load_zone(self.timezone))
        return words.describe_calendar_interval(self.count, self.unit, first)

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved."""
        warnings = []
        day = wall_time(self.start, load_zone(self.timezone)).day
        if self.unit == "months" and day > 28:
            warnings.append(f"In months without a {words.ordinal(day)}, the job runs on the last day.")
        if after is not None:
            warnings += clock_warnings(
                self.timezone, after.astimezone(UTC), self._wall_between, is_fixed=True
            )
        return warnings


@dataclass(frozen=True, slots=True)
class Cron(Slots):
    """Runs at the wall times of a zone that a five-field expression matches.

    The expression is kept as typed, macros included, with single spaces.
    """

    expression: str
    timezone: str = "UTC"
    is_stored: InitVar[bool] = False
    """Whether it comes from the database: then only its form is checked, which is much cheaper."""

    def __post_init__(self, is_stored: bool) -> None:
        if not isinstance(self.expression, str):
            raise TriggerError("cron", "write the expression as text: 0 9 * * 1-5")
        load_zone(self.timezone)
        try:
            check = cron.check_grammar if is_stored else cron.normalise
            object.__setattr__(self, "expression", check(self.expression))
        except cron.CronError as error:
            raise TriggerError("cron", str(error)) from error

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first run later than the moment, in UTC, or None at the calendar's end."""
        if moment.tzinfo is None:
            raise TypeError("the moment needs a zone")
        moment = moment.astimezone(UTC)
        # Start at the full minute, so that all calls within a minute share one cached result.
        run = cron.next_run(self.expression, self.timezone, moment.replace(second=0, microsecond=0))
        while run is not None and run <= moment:
            # Historic offsets with odd seconds can put a run inside the minute.
            run = cron.next_run(self.expression, self.timezone, run)
        return run

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the newest run between the two moments, ends included, or None."""
        window = _FIRST_WINDOW
        while window < moment - not_before:
            if (run := self._first_between(moment - window, moment)) is not None:
                return self._newest(run, moment)
            window *= 2
        # A tick earlier, to include a run at not_before itself.
        run = self._first_between(not_before - TICK, moment)
        return run and self._newest(run, moment)

    def _first_between(self, after: datetime, until: datetime) -> datetime | None:
        run = self.next_after(after)
        return run if run is not None and run <= until else None

    def _newest(self, newest: datetime, moment: datetime) -> datetime:
        """Find the newest run up to the moment by bisection, starting from a known run."""
        end = moment
        while (following := self._first_between(newest, moment)) is not None:
            middle = following + (end - following) / 2
            newer = self._first_between(middle, moment)
            newest, end = (newer, end) if newer else (following, middle)
        return newest

    def words(self) -> str:
        """Describe it, without the zone: "Every 15 minutes", "Wednesdays at 05:00"."""
        return words.describe_cron(self.expression)

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved; those about clock changes only if `after` is given."""
        return cron_warnings(self.expression, self.timezone, after and after.astimezone(UTC))


Trigger: TypeAlias = Once | Interval | CalendarInterval | Cron | Unplanned


def cron_trigger(expression: str, timezone: str, is_stored: bool = False) -> Cron | Unplanned:
    """Return the trigger of a cron expression, or of one like @reboot; raise TriggerError if it is invalid."""
    return _shared_cron(expression, timezone, is_stored)


# Triggers are immutable, so the rows of a list share them, and a new job gets the one that was validated.
@lru_cache(maxsize=4096)
def _shared_cron(expression: str, timezone: str, is_stored: bool) -> Cron | Unplanned:
    if "@" in str(expression) and (unplanned := unplanned_trigger(expression) or event_trigger(expression)):
        load_zone(timezone)
        return unplanned
    return Cron(expression, timezone, is_stored)


def load_zone(name: object) -> ZoneInfo:
    """Return the zone of an IANA name, or raise TriggerError."""
    if isinstance(name, str) and (zone := exact_zone(name)):
        return zone
    raise TriggerError("timezone", unknown_zone(name))


def _aware(moment: object, field: str) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise TriggerError(field, "give a date and time with its zone: 2026-12-24T18:00+01:00")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise TriggerError(field, "that date is too far in the future") from error


def _whole_seconds(seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise TriggerError("every", "give the interval as a number of seconds, like 900")
    if seconds < 1:
        raise TriggerError("every", "the smallest interval is 1 second")
    if seconds > durations.HORIZON.total_seconds():
        raise TriggerError("every", TOO_LONG)
    if seconds != int(seconds):
        raise TriggerError("every", "an interval is made of whole seconds")
    return int(seconds)
