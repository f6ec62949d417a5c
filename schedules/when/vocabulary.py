"""The parts of a phrase: weekdays, months, times of day, dates and amounts of time."""

import re
from datetime import timedelta
from typing import NamedTuple

from schedules.when.durations import HORIZON, HORIZON_IN_WORDS

MAX_LENGTH = 200
MOMENT_EXAMPLES = 'try "tomorrow at 9am", "in 20 minutes", "friday at noon" or "2026-12-24 18:00"'
TOO_FAR = f"that is too far away: at most {HORIZON_IN_WORDS} ahead"

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS: tuple[str, ...] = ("january", "february", "march", "april", "may", "june")
_MONTHS += ("july", "august", "september", "october", "november", "december")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
_NUMBERS |= {"eight": 8, "nine": 9, "ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30}
UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}


def _names(names: tuple[str, ...]) -> str:
    return "(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in names) + ")"


WEEKDAY = _names(_WEEKDAYS)
_MONTH = _names(_MONTHS)
NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_CLOCK = r"(?:noon|midnight|\d{1,2}(?::\d\d)? ?[ap]m|\d{1,2}:\d\d)"
_AT_CLOCK = rf"(?:at (?:{_CLOCK}|\d{{1,2}})|{_CLOCK})"

CLOCK_LAST = re.compile(
    rf"(?:(?!at )(?P<day>.+?),? )?(?P<clock>{_AT_CLOCK}(?:(?:,| and) (?:{_AT_CLOCK}|\d{{1,2}}))*)"
)
CLOCK_FIRST = re.compile(rf"(?P<clock>{_AT_CLOCK}),? (?P<day>.+)")
_ONE_CLOCK = re.compile(r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?: ?(?P<half>[ap]m))?")
_AMOUNT = re.compile(
    rf"(?P<number>\d+|{'|'.join(_NUMBERS)}) ?"
    r"(?P<unit>w(?:eeks?)?|d(?:ays?)?|h(?:ours?|rs?)?|m(?:inutes?|ins?)?|s(?:econds?|ecs?)?)(?![a-z])"
    r"(?P<more>(?:,? and|,)? ?)"
)
NAMED_DATE = re.compile(
    rf"(?:(?P<month>{_MONTH}) (?P<day>{NTH})|(?:the )?(?P<day2>{NTH})(?: of)? (?P<month2>{_MONTH}))"
    r"(?:,? (?P<year>\d{4}))?"
)


class PhraseError(ValueError):
    """The text is refused; the message says why and shows what is understood."""


class NotUnderstoodError(PhraseError):
    """The text contains nothing that could be a time."""


class TooFarError(PhraseError):
    """The moment is understood, but lies beyond the horizon."""

    def __init__(self) -> None:
        super().__init__(TOO_FAR)


class Clock(NamedTuple):
    """A time of day, and how precisely it was written."""

    hour: int
    minute: int
    # "exact" (8am, 08:30), "plain" (8:30, read on the 24-hour clock), "bare" (8) or "midnight"
    kind: str = "exact"


def clean(text: object, examples: str) -> str:
    """Return the text in lower case with single spaces, or refuse what cannot be a phrase."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise NotUnderstoodError(f"write a text of at most {MAX_LENGTH} characters")
    if not re.fullmatch(r"[ -~]*", text):
        raise NotUnderstoodError("write plain English letters, digits and punctuation only")
    phrase = " ".join(text.lower().split()).rstrip(" .!")
    if not phrase:
        raise NotUnderstoodError(f"nothing is written here: {examples}")
    return re.sub(r"\b([ap])\.m\b\.?", r"\1m", phrase)


def read_clock(text: str) -> Clock:
    """Return the time of day that "at 9am", "21:30" or "noon" means."""
    text = text.removeprefix("at ")
    if text in {"noon", "midnight"}:
        return Clock(12, 0) if text == "noon" else Clock(0, 0, "midnight")
    match = _ONE_CLOCK.fullmatch(text)
    if not match:
        raise PhraseError(f"one time at a time here: {MOMENT_EXAMPLES}")
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
    if minute > 59 or hour > 23 or (half and not 1 <= hour <= 12):
        raise PhraseError(f'there is no time "{text}": write 9am, 9:30 pm or 21:30')
    if half:
        return Clock(hour % 12 + (12 if half == "pm" else 0), minute)
    if text.startswith("0") or hour > 12:
        return Clock(hour, minute)
    return Clock(hour, minute, "plain" if match["minute"] else "bare")


def read_amounts(phrase: str) -> dict[str, int] | None:
    """Return how many of each unit a phrase like "2 hours and 30 minutes" names."""
    phrase = re.sub(r"\bhalf (?:an )?hour$", "30 minutes", phrase)
    phrase = re.sub(r"\b(an|one|1) hour and a half$", "1 hour 30 minutes", phrase)
    amounts: dict[str, int] = {}
    position, more = 0, "start"
    while position < len(phrase):
        match = _AMOUNT.match(phrase, position)
        if not match or any(UNITS[unit] <= UNITS[match["unit"][0]] for unit in amounts):
            return None
        number = match["number"]
        amounts[match["unit"][0]] = _NUMBERS.get(number) or int(number)
        position, more = match.end(), match["more"]
    return None if more else amounts


def seconds_of(amounts: dict[str, int]) -> int:
    """Return the elapsed time of these amounts in seconds."""
    return sum(number * UNITS[unit] for unit, number in amounts.items())


def within_limit(seconds: int) -> timedelta:
    """Return the delay, or refuse one that is zero or too long."""
    if seconds <= 0:
        raise PhraseError("a delay is at least one second")
    if seconds > HORIZON.total_seconds():
        raise TooFarError
    return timedelta(seconds=seconds)


def weekday_number(name: str) -> int:
    """Return the number of a weekday as cron has it: Sunday is 0."""
    return next(number for number, weekday in enumerate(_WEEKDAYS) if weekday.startswith(name[:3]))


def month_number(name: str) -> int:
    """Return the number of a month; January is 1."""
    return next(number for number, month in enumerate(_MONTHS, start=1) if month.startswith(name[:3]))


def read_number(text: str) -> int:
    """Return the number in "24th"."""
    return int(re.sub(r"\D", "", text))
