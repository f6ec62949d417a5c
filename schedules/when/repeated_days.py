"""The days and times of day of a phrase that repeats: "mondays and thursdays at 7pm", "from 8 to 18 on weekdays"."""

import re
from collections.abc import Callable
from datetime import date, timedelta

from schedules.when.grammar import (
    CLOCK_FIRST,
    CLOCK_LAST,
    DAY_AND_MONTH,
    NTH,
    NUMBER,
    WEEKDAY,
    Clock,
    PhraseError,
    read_amounts,
    read_clock,
    read_count,
    read_day_and_month,
    read_ordinal,
    weekday_number,
)

_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_ORDINALS |= {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5}
_WORKING_DAY = "(?:work(?:ing )?|work |business |week)day"
_DEFAULT_CLOCKS = [Clock(9, 0)]
_SEPARATOR = r"(?:,? and |, ?|/| )"
WEEKDAYS = rf"{WEEKDAY}s?(?:{_SEPARATOR}{WEEKDAY}s?)*"
_SEVERAL_WEEKDAYS = rf"{WEEKDAY}s?(?:{_SEPARATOR}{WEEKDAY}s?)+|{WEEKDAY}s"
_EVERY_WEEK = r"(?:every |weekly on |every week on )"
_EVERY_MONTH = r"(?:every |(?:month|monthly) on )?"
_DATE = rf"(?:{NTH}|first)"
_DATES = rf"(?P<dates>{_DATE}(?:(?:,? and |, ){_DATE})*)"
_HOUR = r"(?:noon|midnight|\d{1,2}(?::\d\d)? ?(?:[ap]m)?)"
WINDOW = re.compile(
    rf"(?:from |between )?(?P<start>{_HOUR}) ?(?:-|to|until|till|and) ?(?P<end>{_HOUR})(?![\d:])"
)
_WEEKS_APART = re.compile(
    rf"every (?:(?P<weeks>\S+) weeks? on (?P<name>{WEEKDAY})s?|(?P<count>\d+) (?P<name2>{WEEKDAY})s?)"
)
_DAYS_APART = re.compile(r"every (?P<amounts>\S+ (?:days?|weeks?))")
_MONTHS_APART = re.compile(rf"every (?P<count>{NUMBER}) months? on (?:the )?(?P<day>{NTH}|first)(?: day)?")


def split_clocks(phrase: str, are_days: Callable[[str], bool]) -> tuple[str, str]:
    """Return the days and the times of a phrase; no times if there are none."""
    match = CLOCK_LAST.fullmatch(phrase) or CLOCK_FIRST.fullmatch(phrase)
    if match:
        return match["day"] or "", match["clock"]
    # "weekdays 9": a bare hour counts only after days.
    bare = re.fullmatch(r"(?P<day>.+?),? (?P<clock>\d{1,2})", phrase)
    return (bare["day"], bare["clock"]) if bare and are_days(bare["day"]) else (phrase, "")


def read_clocks(times: str) -> list[Clock]:
    """Return the times of day of a phrase, or 09:00 if it names none."""
    if not times:
        return _DEFAULT_CLOCKS
    clocks = [read_clock(part) for part in re.split(r",? and |, ", times)]
    if any(clock.kind == "exact" and not 0 < clock.hour <= 12 for clock in clocks):
        # All of them are on the 24-hour clock.
        return clocks
    for number, clock in enumerate(clocks):
        if clock.is_open and _may_be_evening(clock, clocks[:number], clocks[number + 1 :]):
            raise clock.question()
    return clocks


def _may_be_evening(clock: Clock, before: list[Clock], after: list[Clock]) -> bool:
    """Return whether a time may mean the afternoon: "at 3", "at 9 and 6", "at 8 and 10pm"."""
    if any(other.kind == "half" and other.hour > clock.hour + 12 for other in after[:1]):
        return True
    return clock.kind == "bare" and (clock.hour < 6 or any(other.hour >= clock.hour for other in before))


def weekday_numbers(names: str) -> set[int]:
    """Return the numbers of the weekdays in a list of names."""
    return {weekday_number(name) for name in re.split(_SEPARATOR, names)}


def _on_weekdays(days: set[int]) -> str:
    return f"* * {','.join(map(str, sorted(days)))}"


def _on_weekday_range(match: re.Match[str]) -> str:
    first, last = weekday_number(match["first"]), weekday_number(match["last"])
    return f"* * {first}-{last}" if first < last else _on_weekdays({*range(first, 7), *range(last + 1)})


def _on_counted_weekday(match: re.Match[str]) -> str:
    weekday = weekday_number(match["name"])
    return f"* * {weekday}L" if match["nth"] == "last" else f"* * {weekday}#{_ORDINALS[match['nth']]}"


def _on_dates(match: re.Match[str]) -> str:
    dates = {read_ordinal(date) for date in re.split(r",? and |, ", match["dates"])}
    return f"{','.join(map(str, sorted(dates)))} * *"


def _on_day_and_month(match: re.Match[str]) -> str:
    day, month = read_day_and_month(match)
    return f"{day} {month} *"


# The days that a text means, as the last three fields of a cron expression; the first pattern that matches wins.
_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"every day|daily", "* * *"),
    (r"every quarter", "1 1,4,7,10 *"),
    (r"(?!weekday$)(?:every )?(?:week|work|business |working )days?", "* * 1-5"),
    (r"every weekend|weekends?", "* * 0,6"),
    (
        rf"every day,? (?:except|but)(?: on)? (?P<names>{WEEKDAYS})",
        lambda match: _on_weekdays(set(range(7)) - weekday_numbers(match["names"])),
    ),
    (
        rf"{_EVERY_WEEK}?(?P<first>{WEEKDAY})s? ?(?:-|to|through) ?(?P<last>{WEEKDAY})s?",
        _on_weekday_range,
    ),
    (rf"{_EVERY_WEEK}(?P<names>{WEEKDAYS})", lambda match: _on_weekdays(weekday_numbers(match["names"]))),
    # One weekday without "every" and without an s is a single day.
    (rf"(?P<names>{_SEVERAL_WEEKDAYS})", lambda match: _on_weekdays(weekday_numbers(match["names"]))),
    (r"(?:every )?last day of month|(?:month|monthly) on last day", "L * *"),
    (rf"{_EVERY_MONTH}(?:first|1st) {_WORKING_DAY}(?: of month)?", "1W * *"),
    (rf"{_EVERY_MONTH}last {_WORKING_DAY}(?: of month)?", "LW * *"),
    (
        rf"{_EVERY_MONTH}{_WORKING_DAY} (?:nearest|closest)(?: to)? (?P<day>{NTH})(?: of month)?",
        lambda match: f"{read_ordinal(match['day'])}W * *",
    ),
    (
        rf"(?:every )?(?P<nth>{'|'.join(_ORDINALS)}|last) (?P<name>{WEEKDAY}) of month",
        _on_counted_weekday,
    ),
    (rf"(?:every )?{_DATES}(?:(?<=first) day)? of month", _on_dates),
    (rf"(?:month|monthly) on {_DATES}(?: day)?", _on_dates),
    (rf"(?:every year on |yearly on |annually on |every ){DAY_AND_MONTH}", _on_day_and_month),
)
_COMPILED_RULES = [(re.compile(pattern), days) for pattern, days in _RULES]


def days_of(text: str) -> str | None:
    """Return the day-of-month, month and weekday fields of phrases like "mondays and thursdays"."""
    text = re.sub(r"\beach\b", "every", re.sub(r"\bthe ", "", text.removeprefix("on ")))
    text = text.replace("every month", "month")
    for pattern, days in _COMPILED_RULES:
        if match := pattern.fullmatch(text):
            return days if isinstance(days, str) else days(match)
    return None


def minute_field(minutes: int) -> str:
    return {1: "*", 60: "0"}.get(minutes, f"*/{minutes}")


def read_window(match: re.Match[str]) -> tuple[Clock, Clock]:
    start, end = read_clock(match["start"].strip()), read_clock(match["end"].strip())
    if end.kind == "bare" and end.hour <= start.hour <= 12:
        raise PhraseError(f"morning or evening? Write {start.hour:02}:00 to {end.hour + 12:02}:00")
    if start.kind == end.kind == "bare" and start.hour < 6:
        raise start.question()
    # "From 1pm to 5", but not "from 10pm to 6".
    is_end_mixed = end.kind == "bare" or (end.kind == "plain" and start.kind == "half")
    if is_end_mixed and 12 <= start.hour < end.hour + 12 < 24:
        raise end.question()
    # "From 1 to 5pm" and "from 10 to 6am", but not "from 9 to 5pm".
    is_start_mixed = start.is_open and end.kind == "half"
    if is_start_mixed and (start.hour + 12 < end.hour or end.hour <= start.hour < 12):
        raise start.question()
    return start, end


def window_fields(minutes: int, start: Clock, end: Clock, *, is_daily: bool) -> str:
    """Return the minute and hour fields of a repetition within some hours; the end itself is excluded."""
    if minutes < 60 and (start.minute or end.minute not in {0, 59}):
        raise PhraseError("write full hours as the start and the end")
    last = end.hour if end.minute >= (start.minute if minutes >= 60 else 59) else end.hour - 1
    if last % 24 == start.hour:
        hours = str(start.hour)
    elif 0 <= last < start.hour and not is_daily:
        raise PhraseError(
            "after midnight, it is the next day. Write two schedules: one until 23:59, and one from 0:00 on the days after"
        )
    elif last < start.hour:
        evening = "23" if start.hour == 23 else f"{start.hour}-23"
        morning = {-1: "", 0: ",0"}.get(last, f",0-{last}")
        hours = f"{evening}{morning}"
    else:
        hours = f"{start.hour}-{last}"
    if minutes < 60:
        return f"{minute_field(minutes)} {hours}"
    step = minutes // 60
    if step > 1 and not re.fullmatch(r"\d+-\d+", hours):
        raise PhraseError("over midnight, write the hours one by one")
    return f"{start.minute} {hours}{f'/{step}' if step > 1 else ''}"


def are_days(text: str) -> bool:
    return bool(_WEEKS_APART.fullmatch(text) or _DAYS_APART.fullmatch(text) or days_of(text))


def days_apart(text: str, today: date) -> tuple[int, str, list[date]] | None:
    """Return the count and unit between two runs, and the candidates for the first day."""
    if match := _WEEKS_APART.fullmatch(text):
        count, unit = (
            int(match["count"]) * 7 if match["count"] else _days_in(f"{match['weeks']} weeks"),
            "days",
        )
        weekday = weekday_number(match["name"] or match["name2"])
        first = today + timedelta(days=(weekday - today.isoweekday()) % 7)
        days = [first, first + timedelta(days=7)]
    elif match := _MONTHS_APART.fullmatch(text):
        count, unit, days = (
            read_count(match["count"]),
            "months",
            _next_dates(read_ordinal(match["day"]), today),
        )
    elif match := _DAYS_APART.fullmatch(text):
        count, unit, days = _days_in(match["amounts"]), "days", [today, today + timedelta(days=1)]
    else:
        return None
    return (count, unit, days) if count > 1 else None


def _days_in(text: str) -> int:
    """Return the number of days in "2 weeks" or "three days"; 0 for anything else."""
    amounts = read_amounts(text) or {}
    return amounts.get("w", 0) * 7 + amounts.get("d", 0)


def _next_dates(number: int, today: date) -> list[date]:
    """Return the date with this number in this month and in the next."""
    if not 1 <= number <= 28:
        raise PhraseError("choose a day from 1 to 28: shorter months have no other in common")
    first = today.replace(day=1)
    later = (first + timedelta(days=32)).replace(day=1)
    return [first.replace(day=number), later.replace(day=number)]
