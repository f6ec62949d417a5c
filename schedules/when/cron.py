"""Cron expressions: validation, and the wall times and moments they match."""

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter

from schedules.when import durations
from schedules.when.durations import HORIZON, HORIZON_IN_WORDS, TICK
from schedules.when.zones import first_change, first_pass, offset_at, wall_time

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
    r"W[0-9]*|[0-9]+W|LW": ": write 15W as day-of-month for the working day nearest the 15th, LW for the last one",
    r"L[0-9]*|[0-9]+L|[A-Z]{3}L": ": write L alone as day-of-month, or after a weekday's number (5L is the last Friday)",
}
_TERM = re.compile(r"(?P<low>\*|[0-9A-Z]+)(?:-(?P<high>[0-9A-Z]+))?(?:/(?P<step>[0-9]+))?")


LAST = -1000
"""The last day of a month among days, and the last week among weekdays that are counted in a month."""
_RANGES = (range(60), range(24), range(1, 32), range(1, 13), range(7))


class Values(NamedTuple):
    """The values of the five fields; Sunday is 0, and (1, 2) is the second Monday of a month."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int | tuple[int, int]]
    is_and: bool
    """Whether the day of the month and the weekday must both match, as in Debian's cron."""

    def match_day(self, day: date) -> bool:
        """Return whether a date matches the day and the weekday; the month is not compared."""
        length = monthrange(day.year, day.month)[1]
        by_date = day.day in self.days or (day.day == length and LAST in self.days)
        weekday = day.isoweekday() % 7
        by_weekday = (
            weekday in self.weekdays
            or (weekday, (day.day + 6) // 7) in self.weekdays
            or (day.day > length - 7 and (weekday, LAST) in self.weekdays)
        )
        return by_date and by_weekday if self.is_and else by_date or by_weekday


@lru_cache(maxsize=8192)
def normalise(text: str) -> str:
    """Return the expression as typed with single spaces, or raise CronError.

    Macros and letter case stay as they were typed.
    """
    expression = check_grammar(text)
    if not expression.startswith("@"):
        _check_meaning(expression.upper().split(" "))
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
        count = len(values) if expression else 0
        extra = ", without seconds or years" if count > len(FIELDS) else ""
        raise CronError(f"write five fields{extra} (minute hour day-of-month month weekday), not {count}")
    for field, value in zip(FIELDS, values, strict=True):
        for term in value.split(","):
            _check_term(field, term)
    if split_working_days(values[2])[1] and values[4] != "*":
        raise CronError("W counts working days, Monday to Friday, so write * as weekday")
    return expression


def _check_macro(macro: str) -> None:
    if macro == "@reboot":
        raise CronError("@reboot has no time of its own")
    if macro not in MACROS:
        raise CronError(f"this macro is unknown, the known ones are {' '.join(MACROS)} @reboot")


def _check_term(field: Field, term: str) -> None:
    """Refuse a term that the grammar does not allow, with a clearer message than the parsers give."""
    if field.name == "day-of-month" and (term in {"L", "LW"} or re.fullmatch(r"[0-9]+W", term)):
        if term[:-1].isdigit():
            field.number(term[:-1])
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


def _check_meaning(fields: list[str]) -> None:
    """Refuse expressions that cron programs interpret differently, or that do not run within five years."""
    if _is_ambiguous(fields):
        raise CronError("cron programs disagree about what it means: write the values as a plain list")
    values = _matcher(" ".join(fields[2:]))
    longest = max(monthrange(2028, month)[1] for month in values.months)
    if values.is_and and min(values.days) > longest:
        raise NeverRunsError(f"this never runs: {_no_such_day(fields)}")
    first = next_wall(" ".join(fields), REFERENCE)
    if first is None or first - REFERENCE > HORIZON:
        raise NeverRunsError(f"this doesn't run within {HORIZON_IN_WORDS}: choose days that come more often")


def _is_ambiguous(fields: list[str]) -> bool:
    """Return whether cron programs interpret an expression differently; tests compare two parsers."""
    minutes, hours, days, months, weekdays = (field.split(",") for field in fields)
    # A field that starts with * makes day and weekday both required.
    is_either_day = not (fields[2].startswith("*") or fields[4].startswith("*"))
    lists = [minutes, hours, months, *([days, weekdays] if is_either_day else [])]
    counted = ["#" in weekday or weekday.endswith("L") for weekday in weekdays]
    return (
        any("*" in terms and len(terms) > 1 for terms in lists)
        or (any(counted) and (is_either_day or not all(counted)))
        # 3/2 is 3, 5 and 7 in some programs, but only 3 and 5 where Sunday is 0.
        or any(7 in _open_range(weekday) for weekday in weekdays)
    )


def _open_range(weekday: str) -> range:
    """Return the days of a range without an end, like 3/2 or TUE/3."""
    first, _, step = weekday.partition("/")
    if not step or not (start := FIELDS[4].number(first) if first.isalnum() else 0):
        return range(0)
    return range(start, 8, int(step))


def _no_such_day(fields: list[str]) -> str:
    """Say which month lacks which day: "February has no 31st"."""
    day = min(int(number) for number in re.findall(r"[0-9]+", fields[2]))
    names = [f"{date(2000, number, 1):%B}" for number in sorted(months_of(fields))]
    suffix = "st" if day == 31 else "th"
    return f"{durations.listed(names)} {'has' if len(names) == 1 else 'have'} no {day}{suffix}"


def split(expression: str) -> list[str]:
    """Return the five fields, in capitals, with a macro spelled out."""
    return MACROS.get(expression.lower(), expression).upper().split(" ")


def split_working_days(day: str) -> tuple[str, tuple[str, ...]]:
    """Split the day-of-month field into its other terms, and those for working days, like 15W and LW."""
    terms = day.split(",")
    working = tuple(term for term in terms if term.endswith("W"))
    return ",".join(term for term in terms if term not in working), working


def parsed(expression: str) -> tuple[Values, str, tuple[str, ...]]:
    """Return the values of an expression, its days of the month but for working days, and its working days."""
    minute, hour, day, *rest = split(expression)
    others, working = split_working_days(day)
    return values_of(" ".join([minute, hour, others or "L", *rest])), others, working


def is_fixed(fields: list[str]) -> bool:
    """Return whether the time of day is fixed: neither minute nor hour starts with *."""
    return not (fields[0].startswith("*") or fields[1].startswith("*"))


def next_wall(fields: str, wall: datetime) -> datetime | None:
    """Return the first matching wall time after this one, or None."""
    minute, hour, days = fields.split(" ", 2)
    minutes, hours = times(minute, hour)
    try:
        start = wall.replace(second=0, microsecond=0) + _MINUTE
        day = _next_day(days, start.date())
        if day == start.date():
            if later := _first_time(minutes, hours, start.hour, start.minute):
                return datetime.combine(day, later)
            day = _next_day(days, day + _DAY)
    except OverflowError:
        return None
    return datetime.combine(day, time(hours[0], minutes[0])) if day else None


def _first_time(minutes: list[int], hours: list[int], hour: int, minute: int) -> time | None:
    """Return the first matching time of a day from an hour and minute on, or None."""
    index = bisect_left(hours, hour)
    if index < len(hours) and hours[index] == hour:
        if minute <= minutes[-1]:
            return time(hour, minutes[bisect_left(minutes, minute)])
        index += 1
    return time(hours[index], minutes[0]) if index < len(hours) else None


@lru_cache(maxsize=8192)
def times(minute: str, hour: str) -> tuple[list[int], list[int]]:
    """Return the minutes and the hours that the first two fields match, in order."""
    values = values_of(f"{minute} {hour} * * *")
    return sorted(values.minutes), sorted(values.hours)


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
def _next_day(days: str, day: date) -> date | None:
    """Return the first date from this one on that the last three fields match, or None if there is none."""
    last = date(min(day.year + _LONGEST_SEARCH_YEARS, MAXYEAR), 12, 31)
    return next(days_between(days, day, last), None)


# Days are searched separately from times and a month at a time, because many schedules share their days.
@lru_cache(maxsize=16384)
def _days_of_month(days: str, year: int, month: int) -> tuple[int, ...]:
    """Return the days of a month that the last three fields match."""
    others, working = split_working_days(days.split(" ", 1)[0])
    matcher = _matcher(days)
    if month not in matcher.months:
        return ()
    length = monthrange(year, month)[1]
    numbers = {_working_day(term, year, month, length) for term in working}
    if others:
        numbers |= {number for number in range(1, length + 1) if matcher.match_day(date(year, month, number))}
    return tuple(sorted(number for number in numbers if number))


def _working_day(term: str, year: int, month: int, length: int) -> int | None:
    """Return the day from Monday to Friday of this month that is nearest to a date; None if the month lacks the date."""
    number = length if term == "LW" else int(term[:-1])
    if number > length:
        return None
    match date(year, month, number).isoweekday():
        case 6:
            return number - 1 if number > 1 else number + 2
        case 7:
            return number + 1 if number < length else number - 2
    return number


def _matcher(days: str) -> Values:
    """Return the values of the last three fields, without working days."""
    day, rest = days.split(" ", 1)
    return values_of(f"0 0 {split_working_days(day)[0] or '*'} {rest}")


@lru_cache(maxsize=8192)
def values_of(expression: str) -> Values:
    """Return the values of five fields in capitals, whose grammar was checked and which name no working days."""
    minute, hour, day, month, weekday = expression.split(" ")
    return Values(
        _expanded(0, minute),
        _expanded(1, hour),
        _expanded(2, day),
        _expanded(3, month),
        _weekdays(weekday),
        is_and=day.startswith("*") or weekday.startswith("*"),
    )


# Cached by field, because schedules share most of theirs.
@lru_cache(maxsize=8192)
def _expanded(place: int, field: str) -> frozenset[int]:
    values = croniter.expand(" ".join(["*"] * place + [field] + ["*"] * (4 - place)))[0][place]
    if "*" in values:
        return frozenset(_RANGES[place])
    return frozenset(LAST if value == "l" else int(value) for value in values)


@lru_cache(maxsize=8192)
def _weekdays(field: str) -> frozenset[int | tuple[int, int]]:
    # croniter spells the last Friday L5.
    spelled = re.sub(r"\b([0-7])L\b", r"L\1", field, flags=re.IGNORECASE)
    # Its annotation leaves out the "l" of the last week.
    counted: Mapping[int, Iterable[Any]] = croniter.expand(f"* * * * {spelled}")[1]
    # A field counts all its weekdays, or none.
    return frozenset(
        (int(day), LAST if nth == "l" else int(nth)) for day, places in counted.items() for nth in places
    ) or _expanded(4, spelled)


def months_of(fields: list[str]) -> set[int]:
    """Return the months that the fields match."""
    return set(_matcher(f"* {fields[3]} *").months)


@lru_cache(maxsize=65536)
def next_run(expression: str, timezone: str, after: datetime) -> datetime | None:
    """Return the first run later than a moment in UTC, or None if there is none."""
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
        # One tick earlier, to include a match at the change itself.
        start, wall = change, wall_time(change, zone) - TICK
    return None
