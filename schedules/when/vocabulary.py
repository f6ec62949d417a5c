"""The parts of a phrase: weekdays, months, times of day, dates and amounts of time."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from schedules.when.durations import HORIZON, HORIZON_IN_WORDS

MAX_LENGTH = 200
MOMENT_EXAMPLES = 'Try "tomorrow at 9am", "in 20 minutes", "friday at noon" or "2026-12-24 18:00"'
TOO_FAR = f"that is too far ahead: the limit is {HORIZON_IN_WORDS}"

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS: tuple[str, ...] = ("january", "february", "march", "april", "may", "june")
_MONTHS += ("july", "august", "september", "october", "november", "december")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
_NUMBERS |= {"eight": 8, "nine": 9, "ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30}
UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}


# What people write for a time of day, by the part of the day: the default hour, and the half that "at 8" belongs to.
_PARTS_OF_DAY = {
    "morning": ("9am", "am"),
    "afternoon": ("3pm", "pm"),
    "evening": ("6pm", "pm"),
    "night": ("9pm", "pm"),
}
_TYPOGRAPHY = str.maketrans("\u2018\u2019\u2013\u2014\u00a0\u202f", "''--  ")
# Applied in this order to what was typed.
_SPELLINGS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\b([ap])\.m\b\.?", r"\1m"),
    # 8.30 is a time, and neither a date nor a fraction of a second.
    (r"(?<![\d.:/-])([01]?\d|2[0-3])\.([0-5]\d)(?![\d.])", r"\1:\2"),
    (r"(\d{1,2}:\d\d) ?h(?:rs)?\b", r"\1"),
    (r" o'?clock\b", ""),
    (r"\b(?:tmrw|tmr|tomo)\b", "tomorrow"),
    (r"\b(tue)s\b|\b(wed)s\b|\b(thu)rs?\b|\b(sep)t\b", lambda match: match[match.lastindex or 0]),
    (r"\b(\d{1,4})[.,]5 ?(?:hours?|hrs?|h)\b", lambda match: f"{int(match[1]) * 60 + 30} minutes"),
    (r"\bthis (morning|afternoon|evening)\b", r"today \1"),
    (r"\b(?:every|each) (morning|afternoon|evening|night)\b", r"every day \1"),
)


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
    """The text contains nothing that could be a time; without a message, the caller suggests what may be meant."""


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
        raise NotUnderstoodError(f"enter at most {MAX_LENGTH} characters")
    text = text.translate(_TYPOGRAPHY)
    if not re.fullmatch(r"[ -~]*", text):
        raise NotUnderstoodError("use English letters, digits and punctuation only")
    phrase = " ".join(text.lower().split()).rstrip(" .!")
    if not phrase:
        raise NotUnderstoodError(f"this is empty. {examples}")
    for pattern, spelling in _SPELLINGS:
        phrase = re.sub(pattern, spelling, phrase)
    return _with_part_of_day(phrase)


def _with_part_of_day(phrase: str) -> str:
    """Replace "in the evening" by a time: "monday evening at 8" is 8pm, "tomorrow morning" is 9am."""
    match = re.search(r",? ?\b(?:in the |at )?(morning|afternoon|evening|night)\b", phrase)
    if not match:
        return phrase
    default, half = _PARTS_OF_DAY[match[1]]
    rest = (phrase[: match.start()] + phrase[match.end() :]).strip()
    if not re.search(_CLOCK, rest) and not re.search(r"\bat \d{1,2}\b", rest):
        return f"{rest} at {default}".strip()
    # A time on the 24-hour clock and one with its half stay as they are.
    return re.sub(
        r"\b(at (?:[1-9]|1[0-2])|(?:[1-9]|1[0-2]):\d\d)(?![\d:]| ?[ap]m)", rf"\1{half}", rest, count=1
    )


def read_clock(text: str) -> Clock:
    """Return the time of day that "at 9am", "21:30" or "noon" means."""
    text = text.removeprefix("at ")
    if text in {"noon", "midnight"}:
        return Clock(12, 0) if text == "noon" else Clock(0, 0, "midnight")
    match = _ONE_CLOCK.fullmatch(text)
    if not match:
        raise PhraseError(f"enter one time only. {MOMENT_EXAMPLES}")
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
    if minute > 59 or hour > 23 or (half and not 1 <= hour <= 12):
        raise PhraseError(f'"{text}" is not a time. Write 9am, 9:30 pm or 21:30')
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
        raise PhraseError("the shortest time is 1 second")
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
