"""The days and times of day of a phrase that repeats: "mondays and thursdays at 7pm"."""

import re
from collections.abc import Callable

from schedules.when.grammar import (
    CLOCK_FIRST,
    CLOCK_LAST,
    DAY_AND_MONTH,
    NTH,
    WEEKDAY,
    Clock,
    read_clock,
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


def split_clocks(phrase: str, are_days: Callable[[str], bool]) -> tuple[str, str]:
    """Return the days and the times of a phrase; no times if there are none."""
    match = CLOCK_LAST.fullmatch(phrase) or CLOCK_FIRST.fullmatch(phrase)
    if match:
        return match["day"] or "", match["clock"]
    # "weekdays 9": an hour alone, if what stands before it are days.
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
    """Return whether people may mean the second half of the day: "at 3", "at 9 and 6", "at 8 and 10pm"."""
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


# The days that a text means, as the last three fields of a cron expression. The first pattern that matches counts.
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
