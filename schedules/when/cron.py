"""Cron expressions: validation, and the wall times and moments they match."""

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from schedules.when.durations import HORIZON, HORIZON_IN_WORDS, TICK
from schedules.when.zones import first_change, first_pass, offset_at, wall_time

if TYPE_CHECKING:
    from croniter import croniter

MAX_LENGTH = 100
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

# A fixed moment, so that an expression that is valid today does not become invalid later.
REFERENCE = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_COMPARED_RUNS = 10
# A weekday like the fifth Monday of February comes every 28 years, or 40 around a century without a leap year.
_LONGEST_SEARCH_YEARS = 50
_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


class CronError(ValueError):
    """The expression is refused; the message says why."""


class NeverRunsError(CronError):
    """The expression is readable, but no date within five years matches it."""


class Field(NamedTuple):
    """One of the five fields: its name, its range of values, and the cycle after which its steps restart."""

    name: str
    low: int
    high: int
    cycle: str
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of distinct values; 0 and 7 are both Sunday."""
        return 7 if self.cycle == "week" else self.high - self.low + 1

    def number(self, value: str) -> int:
        """Return the number that a value or a name stands for."""
        if value in self.names:
            return self.names.index(value) + self.low
        if not value.isdigit():
            raise CronError(f'the {self.name} field does not know "{value}"{self._hint(value)}')
        if not self.low <= int(value) <= self.high:
            raise CronError(f"{value} is out of range: the {self.name} field takes {self.low}-{self.high}")
        return int(value)

    def _hint(self, value: str) -> str:
        for pattern, hint in _HINTS.items():
            if re.fullmatch(pattern, value):
                return hint
        if value[:3] in self.names:
            return f": write {value[:3]}"
        return f": it takes {self.low}-{self.high}" + (
            f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        )


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
FIELDS = (
    Field("minute", 0, 59, "hour"),
    Field("hour", 0, 23, "day"),
    Field("day-of-month", 1, 31, "month"),
    Field("month", 1, 12, "year", _MONTHS),
    Field("weekday", 0, 7, "week", _WEEKDAYS),
)
_HINTS = {
    r"H": ": H (a hashed value) belongs to Jenkins, so write a number",
    r"R": ": R (a random value) is not cron, so write a number",
    r"L?W|W[0-9]+|[0-9]+W": ": W (nearest weekday) is not supported, so write days as numbers",
    r"L[0-9]*|[0-9]+L|[A-Z]{3}L": ": write L alone as day-of-month, or after a weekday's number (5L is the last Friday)",
}
_TERM = re.compile(r"(?P<low>\*|[0-9A-Z]+)(?:-(?P<high>[0-9A-Z]+))?(?:/(?P<step>[0-9]+))?")


@lru_cache(maxsize=8192)
def normalise(text: str) -> str:
    """Return the expression as typed with single spaces, or raise CronError.

    Macros and letter case stay as they were typed.
    """
    expression = check_grammar(text)
    if not expression.startswith("@"):
        _check_agreement(expression.upper())
    return expression


@lru_cache(maxsize=8192)
def check_grammar(text: str) -> str:
    """Return the expression with single spaces, or raise CronError if its form is wrong.

    This is enough, and much cheaper than `normalise`, for an expression that was valid when it was stored.
    """
    if len(text) > MAX_LENGTH:
        raise CronError(f"an expression has at most {MAX_LENGTH} characters")
    expression = " ".join(re.split(r"[ \t\r\n]+", text.strip(" \t\r\n")))
    if expression.startswith("@"):
        _check_macro(expression.lower())
        return expression
    values = expression.upper().split(" ")
    if foreign := re.search(r"[^0-9A-Za-z*/,# -]", expression):
        if foreign[0] == "?":
            raise CronError('"?" is not standard cron, so write * instead')
        if foreign[0] == "~":
            raise CronError('"~" (a random value) is read in crontabs that are imported: write a number here')
        raise CronError(
            f"{foreign[0]!a} does not belong in a cron expression: write digits, names and * / , - # only"
        )
    if len(values) != len(FIELDS):
        given = len(values) if expression else 0
        extra = ", without seconds or years" if given > len(FIELDS) else ""
        raise CronError(
            f"write five fields{extra} (minute hour day-of-month month weekday), not {given}: 0 9 * * 1-5"
        )
    for field, value in zip(FIELDS, values, strict=True):
        for term in value.split(","):
            _check_term(field, term)
    return expression


def _check_macro(macro: str) -> None:
    if macro == "@reboot":
        raise CronError("@reboot has no time of its own, so Cronty cannot schedule it")
    if macro not in MACROS:
        raise CronError(f"this macro is unknown, the known ones are {' '.join(MACROS)}")


def _check_term(field: Field, term: str) -> None:
    """Refuse a term that the grammar does not allow, with a clearer message than the parsers give."""
    if (field.name, term) == ("day-of-month", "L"):
        return
    if field.name == "weekday" and re.fullmatch(r"[0-7]L", term):
        return
    if field.name == "weekday" and "#" in term:
        day, _, nth = term.partition("#")
        field.number(day)
        if nth not in {"1", "2", "3", "4", "5"}:
            raise CronError(f'"{term}" asks for a week that does not exist: write # and 1 to 5, as in 1#2')
        return
    match = _TERM.fullmatch(term)
    if not match or (match["low"] == "*" and match["high"]):
        raise CronError(f'the {field.name} field cannot read "{term}": write values like 5, 1-5, 1,3 or */15')
    if match["step"] and int(match["step"]) == 0:
        raise CronError(f'"{term}" has a step of zero: write a step of 1 or more')
    if match["low"] == "*":
        return
    low = field.number(match["low"])
    high = field.number(match["high"]) if match["high"] else None
    if high is not None and low > high:
        raise CronError(f'the range "{term}" runs backwards: write the smaller value first, or a list')
    if low == high or (match["step"] and high is None and low == field.high):
        raise CronError(f'the range "{term}" has one value: write {match["low"]}')


def _check_agreement(fields: str) -> None:
    """Accept only expressions that two independent parsers read alike and that run within five years."""
    minute, hour, days = fields.split(" ", 2)
    try:
        alike = _same_days(days) and _same_times(minute, hour)
    except CronSimError as error:
        # The grammar was checked before, so cronsim refuses only a day that none of the months has.
        raise NeverRunsError(f"this never runs: {_no_such_day(fields)}") from error
    except ValueError:
        alike = False
    if not alike:
        raise CronError("cron programs disagree about what it means: write the values as a plain list")
    first = next_wall(fields, REFERENCE)
    if first is None or first - REFERENCE > HORIZON:
        raise NeverRunsError(f"this doesn't run within {HORIZON_IN_WORDS}: choose days that come more often")


def _no_such_day(fields: str) -> str:
    """Say which month lacks which day: "February has no 31st"."""
    _, _, days, months, _ = fields.split(" ")
    day = min(int(match) for match in re.findall(r"[0-9]+", days))
    numbers = sorted(CronSim(f"0 0 1 {months} *", REFERENCE).months)
    names = [f"{date(2000, number, 1):%B}" for number in numbers]
    suffix = "st" if day == 31 else "th"
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{listed} {'has' if len(names) == 1 else 'have'} no {day}{suffix}"


# Times and days are compared separately, because many schedules share one of them.
@lru_cache(maxsize=8192)
def _same_times(minute: str, hour: str) -> bool:
    """Return whether both parsers read the minutes and hours alike."""
    ours = _parse(f"{minute} {hour} * * *")
    minutes, hours = times(minute, hour)
    return _values_of(ours, 0) == set(minutes) and _values_of(ours, 1) == set(hours)


@lru_cache(maxsize=8192)
def _same_days(days: str) -> bool:
    """Return whether both parsers read the last three fields alike.

    The values alone do not say whether day and weekday mean "and" or "or", so the first runs are compared.
    """
    fields = f"0 0 {days}"
    ours, theirs = _parse(fields), CronSim(fields, REFERENCE)
    return _values_of(ours, 3) == theirs.months and all(
        ours.get_next(datetime) == expected for expected in islice(theirs, _COMPARED_RUNS)
    )


def _values_of(parsed: "croniter", index: int) -> set[int]:
    """Return the values of a field as croniter reads them."""
    values = parsed.expanded[index]
    return set(range(FIELDS[index].low, FIELDS[index].high + 1)) if values == ["*"] else set(values)


def _parse(fields: str) -> "croniter":
    # Only a new expression is compared with a second library; most processes never see one.
    from croniter import croniter  # noqa: PLC0415

    # The two libraries spell "last Friday" differently: 5L here, L5 in croniter.
    spelled = re.sub(r"\b([0-7])L\b", r"L\1", fields)
    return croniter(spelled, REFERENCE, implement_cron_bug=True)


def split(expression: str) -> list[str]:
    """Return the five fields, in capitals, with a macro spelled out."""
    return MACROS.get(expression.lower(), expression).upper().split(" ")


def is_fixed(fields: list[str]) -> bool:
    """Return whether the time of day is fixed: neither minute nor hour starts with *."""
    return not (fields[0].startswith("*") or fields[1].startswith("*"))


def next_wall(fields: str, wall: datetime) -> datetime | None:
    """Return the first matching wall time after the given one, or None if there is none."""
    minute, hour, days = fields.split(" ", 2)
    try:
        start = wall.replace(second=0, microsecond=0) + _MINUTE
        minutes, hours = times(minute, hour)
        day = _next_day(days, start.date())
        if day == start.date() and (found := _first_time(minutes, hours, start.hour, start.minute)):
            return datetime.combine(day, found)
        if day == start.date():
            day = _next_day(days, day + _DAY)
    except (ValueError, OverflowError):
        return None
    return datetime.combine(day, time(hours[0], minutes[0]))


def _first_time(minutes: list[int], hours: list[int], hour: int, minute: int) -> time | None:
    """Return the first matching time of a day from the given hour and minute on, or None."""
    index = bisect_left(hours, hour)
    if index < len(hours) and hours[index] == hour:
        if minute <= minutes[-1]:
            return time(hour, minutes[bisect_left(minutes, minute)])
        index += 1
    return time(hours[index], minutes[0]) if index < len(hours) else None


@lru_cache(maxsize=8192)
def times(minute: str, hour: str) -> tuple[list[int], list[int]]:
    """Return the minutes and the hours that the first two fields match, in order."""
    matcher = CronSim(f"{minute} {hour} * * *", REFERENCE)
    return sorted(matcher.minutes), sorted(matcher.hours)


def days_between(days: str, first: date, last: date) -> Iterator[date]:
    """Yield the dates from the first to the last that the last three fields match."""
    for year, month, numbers in _months_between(days, first, last):
        yield from (date(year, month, number) for number in numbers)


def count_days(days: str, first: date, last: date) -> int:
    """Count the dates from the first to the last that the last three fields match."""
    return sum(len(numbers) for _, _, numbers in _months_between(days, first, last))


def _months_between(days: str, first: date, last: date) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Yield each month from the first date to the last, with the days in it that match and lie between them."""
    start, end = (first.year, first.month), (last.year, last.month)
    for index in range(12 * start[0] + start[1] - 1, 12 * end[0] + end[1]):
        year, month = index // 12, index % 12 + 1
        numbers = _days_of_month(days, year, month)
        low = bisect_left(numbers, first.day) if (year, month) == start else 0
        high = bisect_right(numbers, last.day) if (year, month) == end else len(numbers)
        yield year, month, numbers[low:high]


@lru_cache(maxsize=16384)
def _next_day(days: str, day: date) -> date:
    """Return the first date from the given one on that the last three fields match; ValueError if there is none."""
    last = date(min(day.year + _LONGEST_SEARCH_YEARS, MAXYEAR), 12, 31)
    found = next(days_between(days, day, last), None)
    if found is None:
        raise ValueError(f"no day matches {days}")
    return found


# Days are searched separately from times and a month at a time, because many schedules share their days.
@lru_cache(maxsize=16384)
def _days_of_month(days: str, year: int, month: int) -> tuple[int, ...]:
    """Return the days of a month that the last three fields match."""
    matcher = _matcher(days)
    if month not in matcher.months:
        return ()
    length = monthrange(year, month)[1]
    return tuple(number for number in range(1, length + 1) if matcher.match_day(date(year, month, number)))


@lru_cache(maxsize=8192)
def _matcher(days: str) -> CronSim:
    """Return an object that matches dates; it is never advanced, so threads may share it."""
    return CronSim(f"0 0 {days}", REFERENCE)


@lru_cache(maxsize=65536)
def next_run(expression: str, timezone: str, after: datetime) -> datetime | None:
    """Return the first run later than the given moment in UTC, or None if there is none."""
    fields = split(expression)
    find = _next_fixed if is_fixed(fields) else _next_wildcard
    try:
        return find(" ".join(fields), ZoneInfo(timezone), after)
    except OverflowError:
        return None


def _next_fixed(fields: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the next run of a fixed time: when clocks first show it, or when the gap that skips it ends."""
    wall = next_wall(fields, wall_time(after, zone))
    while wall is not None:
        run = first_pass(wall, zone)
        if run > after:
            return run
        wall = next_wall(fields, wall)
    return None


def _next_wildcard(fields: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the next run of a wildcard schedule, searching one period of constant offset at a time."""
    start, wall = after, wall_time(after, zone)
    while (match := next_wall(fields, wall)) is not None:
        run = match.replace(tzinfo=UTC) - offset_at(start, zone)
        change = first_change(zone, start, run)
        if change is None:
            return run
        # One tick earlier, so that a match at the change itself counts.
        start, wall = change, wall_time(change, zone) - TICK
    return None
