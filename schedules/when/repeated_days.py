"""The days and times of day of a phrase that repeats: "mondays and thursdays at 7pm"."""

import re
from collections.abc import Callable

from schedules.when.vocabulary import (
    CLOCK_FIRST,
    CLOCK_LAST,
    NAMED_DATE,
    NTH,
    WEEKDAY,
    Clock,
    month_number,
    read_clock,
    read_number,
    weekday_number,
)

_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_ORDINALS |= {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5}
_DEFAULT_CLOCKS = [Clock(9, 0)]
_SEPARATOR = r"(?:,? and |, ?|/| )"
_WEEKDAYS = rf"{WEEKDAY}s?(?:{_SEPARATOR}{WEEKDAY}s?)*"


def split_clocks(phrase: str, is_known: Callable[[str], bool]) -> tuple[str, str]:
    """Return the days and the times of a phrase; no times if there are none."""
    match = CLOCK_LAST.fullmatch(phrase) or CLOCK_FIRST.fullmatch(phrase)
    if match:
        return match["day"] or "", match["clock"]
    # "weekdays 9": an hour alone, if what stands before it are days.
    bare = re.fullmatch(r"(?P<day>.+?),? (?P<clock>\d{1,2})", phrase)
    return (bare["day"], bare["clock"]) if bare and is_known(bare["day"]) else (phrase, "")


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


def days_of(text: str) -> str | None:
    """Return the day-of-month, month and weekday fields of phrases like "mondays and thursdays"."""
    text = re.sub(r"\beach\b", "every", re.sub(r"\bthe ", "", text.removeprefix("on ")))
    text = text.replace("every month", "month")
    if text in {"every day", "daily"}:
        return "* * *"
    if re.fullmatch(r"every quarter", text):
        return "1 1,4,7,10 *"
    if re.fullmatch(r"(?:every )?(?:week|work|business |working )days?", text):
        return "* * 1-5" if text != "weekday" else None
    if re.fullmatch(r"every weekend|weekends?", text):
        return "* * 0,6"
    return _weekday_fields(text) or _month_fields(text) or _year_fields(text)


def _weekday_fields(text: str) -> str | None:
    every = r"(?:every |weekly on |every week on )"
    if match := re.fullmatch(rf"every day,? (?:except|but)(?: on)? (?P<names>{_WEEKDAYS})", text):
        left_out = _weekday_numbers(match["names"])
        return "* * " + ",".join(str(number) for number in range(7) if number not in left_out)
    if match := re.fullmatch(
        rf"{every}?(?P<first>{WEEKDAY})s? ?(?:-|to|through) ?(?P<last>{WEEKDAY})s?", text
    ):
        return f"* * {_weekday_range(weekday_number(match['first']), weekday_number(match['last']))}"
    # One weekday without "every" and without an s is a single day.
    several = rf"{WEEKDAY}s?(?:{_SEPARATOR}{WEEKDAY}s?)+|{WEEKDAY}s"
    match = re.fullmatch(rf"{every}(?P<names>{_WEEKDAYS})", text) or re.fullmatch(
        rf"(?P<names>{several})", text
    )
    if not match:
        return None
    return "* * " + ",".join(str(number) for number in sorted(_weekday_numbers(match["names"])))


def _weekday_numbers(names: str) -> set[int]:
    return {weekday_number(name) for name in re.split(_SEPARATOR, names)}


def _weekday_range(first: int, last: int) -> str:
    if first < last:
        return f"{first}-{last}"
    days = [*range(first, 7), *range(last + 1)]
    return ",".join(str(day) for day in sorted(set(days)))


def _month_fields(text: str) -> str | None:
    if re.fullmatch(r"(?:every )?last day of month|(?:month|monthly) on last day", text):
        return "L * *"
    text = text.replace("first day of", "first of").removesuffix(" day")
    nth = rf"(?P<nth>{'|'.join(_ORDINALS)}|last)"
    if match := re.fullmatch(rf"(?:every )?{nth} (?P<name>{WEEKDAY}) of month", text):
        weekday = weekday_number(match["name"])
        return f"* * {weekday}L" if match["nth"] == "last" else f"* * {weekday}#{_ORDINALS[match['nth']]}"
    day = rf"(?:{NTH}|first)"
    days = rf"(?P<days>{day}(?:(?:,? and |, ){day})*)"
    match = re.fullmatch(rf"(?:every )?{days} of month", text) or re.fullmatch(
        rf"(?:month|monthly) on {days}", text
    )
    if not match:
        return None
    numbers = {1 if each == "first" else read_number(each) for each in re.split(r",? and |, ", match["days"])}
    return f"{','.join(str(number) for number in sorted(numbers))} * *"


def _year_fields(text: str) -> str | None:
    match = re.fullmatch(r"(?:every year on |yearly on |annually on |every )(?P<date>.+)", text)
    named = NAMED_DATE.fullmatch(match["date"]) if match else None
    if not named or named["year"]:
        return None
    return f"{read_number(named['day'] or named['day2'])} {month_number(named['month'] or named['month2'])} *"
