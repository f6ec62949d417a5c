"""The vocabulary of all phrases: spelling, weekdays, months, times of day, numbers and amounts of time."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, TypeVar

from schedules.when.durations import HORIZON, HORIZON_IN_WORDS

Meaning = TypeVar("Meaning")

MAX_LENGTH = 200
MOMENT_EXAMPLES = 'Try "tomorrow at 9am", "in 20 minutes", "friday at noon" or "2026-12-24 18:00"'
TOO_FAR = f"that is too far ahead: the limit is {HORIZON_IN_WORDS}"

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_FIRST_MONTHS = ("january", "february", "march", "april", "may", "june")
MONTHS = (*_FIRST_MONTHS, "july", "august", "september", "october", "november", "december")
_SMALL_NAMES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_SMALL = {name: number for number, name in enumerate(_SMALL_NAMES.split(), start=1)}
_TENS_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {name: 10 * number for number, name in enumerate(_TENS_NAMES.split(), start=2)}
_NUMBERS = {"a": 1, "an": 1, **_SMALL, **_TENS}
_NUMBERS |= {
    f"{tens}{hyphen}{small}": _TENS[tens] + number
    for tens in _TENS
    for small, number in list(_SMALL.items())[:9]
    for hyphen in "- "
}
# The longest first, so that "forty-five" is not read as "forty".
NUMBER = rf"(?:\d+|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}

# The time of a part of the day that is named without one.
_PARTS_OF_DAY = {"morning": "9am", "afternoon": "3pm", "evening": "6pm", "night": "9pm"}
_TYPOGRAPHY = str.maketrans("\u2018\u2019\u2013\u2014\u00a0\u202f", "''--  ")
# Applied in this order to what was typed.
_SPELLINGS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\b([ap])\.m\b\.?", r"\1m"),
    # 8.30 is a time, and neither a date nor a fraction of a second.
    (r"(?<![\d.:/-])([01]?\d|2[0-3])\.([0-5]\d)(?![\d.])", r"\1:\2"),
    (r"(\d{1,2}:\d\d) ?h(?:rs)?\b", r"\1"),
    (r" o'?clock\b", ""),
    (r"\ba quarter (?=past |to )", "quarter "),
    (
        rf"\b(at|(?:half|quarter) past|quarter to) ({'|'.join(list(_SMALL)[:12])})\b",
        lambda match: f"{match[1]} {_SMALL[match[2]]}",
    ),
    (r"\b(?:a )?fortnight\b", "2 weeks"),
    (r"\b(?:tmrw|tmr|tomo)\b", "tomorrow"),
    (r"\b(tue)s\b|\b(wed)s\b|\b(thu)rs?\b|\b(sep)t\b", lambda match: match[match.lastindex or 0]),
    (r"\b(\d{1,4})[.,]5 ?(?:hours?|hrs?|h)\b", lambda match: f"{int(match[1]) * 60 + 30} minutes"),
    (r"^nightly\b", "every night"),
    (r"\bthis (morning|afternoon|evening)\b", r"today \1"),
    (r"\b(?:every|each) (morning|afternoon|evening|night)\b", r"every day \1"),
)


def _names(names: tuple[str, ...]) -> str:
    return "(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in names) + ")"


WEEKDAY = _names(WEEKDAYS)
MONTH = _names(MONTHS)
NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_PART_HOUR = r"(?P<part>half past|quarter past|quarter to) "
_CLOCK = rf"(?:noon|midnight|{_PART_HOUR.replace('?P<part>', '?:')}\d{{1,2}}(?: ?[ap]m)?|\d{{1,2}}(?::\d\d)? ?[ap]m|\d{{1,2}}:\d\d)"
_AT_CLOCK = rf"(?:at (?:{_CLOCK}|\d{{1,2}})|{_CLOCK})"

_END_OF_NIGHT = 6
_NAMES_A_DAY = re.compile(
    rf"\b(?:{WEEKDAY}s?|(?:week|work|business |working )days?|weekends?|today|tomorrow|yesterday|{MONTH}|month|"
    r"\d{1,2}(?:st|nd|rd|th))\b|\d{4}-\d\d-\d\d|\d\.\d"
)
# 24.12. is a date; in any other text, the last dot ends a sentence.
_ENDS_WITH_DATE = re.compile(rf"(?:^|\bon |\b{WEEKDAY},? )(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.$")
CLOCK_LAST = re.compile(
    rf"(?:(?!at |half past |quarter )(?P<day>.+?),? )?(?P<clock>{_AT_CLOCK}(?:(?:,|,? and) (?:{_AT_CLOCK}|\d{{1,2}}))*)"
)
CLOCK_FIRST = re.compile(rf"(?P<clock>{_AT_CLOCK}),? (?P<day>.+)")
_PARTS_OF_HOUR = {"half past": 30, "quarter past": 15, "quarter to": -15}
_ONE_CLOCK = re.compile(
    rf"(?:{_PART_HOUR})?" r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?: ?(?P<half>[ap]m))?"
)
_TIMES = re.compile(
    rf"(?:(?:at|from|between) (?:{_CLOCK}|\d{{1,2}})|{_CLOCK})"
    rf"(?:(?: ?-|,|,? and| to| until| till) ?(?:at )?(?:{_CLOCK}|\d{{1,2}}(?![\w:])))*"
)
_HALFLESS_TIME = re.compile(r"(?<![\d:])(?P<hour>[1-9]|1[0-2])(?P<minutes>:\d\d)?(?![\d:]| ?[ap]m)")
_AMOUNT = re.compile(
    rf"(?P<number>{NUMBER}) ?"
    r"(?P<unit>w(?:eeks?)?|d(?:ays?)?|h(?:ours?|rs?)?|m(?:inutes?|ins?)?|s(?:econds?|ecs?)?)(?![a-z])"
    r"(?P<more>(?:,? and|,)? ?)"
)
DAY_AND_MONTH = rf"(?:(?P<month>{MONTH}) (?P<day>{NTH})|(?:the )?(?P<day2>{NTH})(?: of)? (?P<month2>{MONTH}))"


class PhraseError(ValueError):
    """The text is refused; the message says why and gives examples."""


class NotUnderstoodError(PhraseError):
    """The text contains nothing that could be a time; without a message, the caller adds a suggestion."""


def understood(
    phrase: str, read: Callable[[str], Meaning], why_not: Callable[[str, Callable[[str], Meaning]], str]
) -> Meaning:
    """Return what a phrase means; a refusal without a message gets that of `why_not`."""
    try:
        return read(phrase)
    except NotUnderstoodError as error:
        if str(error):
            raise
        raise NotUnderstoodError(why_not(phrase, read)) from error


class TooFarError(PhraseError):
    """The moment is understood, but lies beyond the horizon."""

    def __init__(self) -> None:
        super().__init__(TOO_FAR)


class Clock(NamedTuple):
    """A time of day, and how precisely it was written."""

    hour: int
    minute: int
    # "exact" (08:30), "half" (8am), "plain" (8:30, read on the 24-hour clock), "bare" (8) or "midnight"
    kind: str = "exact"

    @property
    def is_open(self) -> bool:
        """Whether it could also mean the other half of the day."""
        return self.kind in ("bare", "plain")

    def question(self) -> PhraseError:
        """Return the error for a time that could be am or pm."""
        minutes = f":{self.minute:02}" if self.kind == "plain" or self.minute else ""
        return PhraseError(f"morning or evening? Write {self.hour}{minutes}am or {self.hour}{minutes}pm")


def clean(text: object, examples: str) -> str:
    """Return the text in lower case with single spaces, or refuse what cannot be a phrase."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise NotUnderstoodError(f"enter at most {MAX_LENGTH} characters")
    text = text.translate(_TYPOGRAPHY)
    if not re.fullmatch(r"[ -~]*", text):
        raise NotUnderstoodError("use English letters, digits and punctuation only")
    phrase = " ".join(text.lower().split()).rstrip(" !")
    if not _ENDS_WITH_DATE.search(phrase):
        phrase = phrase.rstrip(" .!")
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
    part = match[1]
    rest = (phrase[: match.start()] + phrase[match.end() :]).strip()
    if not _TIMES.search(rest):
        return f"{rest} at {_PARTS_OF_DAY[part]}".strip()

    def with_half(time: re.Match[str]) -> str:
        return f"{time[0]}{_half_of(part, int(time['hour']))}"

    # Times on the 24-hour clock, and those with am or pm, stay as they are.
    timed = _TIMES.sub(lambda times: _HALFLESS_TIME.sub(with_half, times[0]), rest)
    if part in ("evening", "night") and _NAMES_A_DAY.search(timed):
        _refuse_early_hours(timed)
    return timed


def _half_of(part: str, hour: int) -> str:
    """Return whether "at 8" is am or pm in a part of the day."""
    if part in ("evening", "night") and hour == 12:
        return "am"
    return "am" if part == "morning" or (part == "night" and hour < _END_OF_NIGHT) else "pm"


def _refuse_early_hours(phrase: str) -> None:
    """Refuse the hours after midnight of "friday night": are they on Friday or on Saturday?"""
    for time in re.finditer(r"\d{1,2}(?::\d\d)?(?: ?[ap]m)|\d{1,2}:\d\d|midnight", phrase):
        if read_clock(time[0]).hour < _END_OF_NIGHT:
            raise PhraseError("on which day is that, after midnight? Write that day, without night")


def read_clock(text: str) -> Clock:
    """Return the time of day that "at 9am", "21:30" or "noon" means."""
    text = text.removeprefix("at ")
    if text in {"noon", "midnight"}:
        return Clock(12, 0) if text == "noon" else Clock(0, 0, "midnight")
    match = _ONE_CLOCK.fullmatch(text)
    if not match:
        raise PhraseError("enter one time only")
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
    if minute > 59 or hour > 23 or (half and not 1 <= hour <= 12) or (match["part"] and match["minute"]):
        raise PhraseError(f'"{text}" is not a time. Write HH:MM, from 00:00 to 23:59')
    kind = "plain" if match["minute"] else "bare"
    if half:
        hour, kind = hour % 12 + (12 if half == "pm" else 0), "half"
    elif match["hour"].startswith("0") or hour > 12:
        kind = "exact"
    if part := match["part"]:
        hour, minute = divmod((hour * 60 + _PARTS_OF_HOUR[part]) % 1440, 60)
        # "Quarter to 1"
        hour = hour or (12 if kind == "bare" else 0)
    return Clock(hour, minute, kind)


def is_number(text: str) -> bool:
    return text in _NUMBERS


def read_count(text: str) -> int:
    """Return the number that "12" or "twelve" means."""
    return _NUMBERS.get(text) or int(text)


def read_ordinal(text: str) -> int:
    """Return the number in "24th" or "first"."""
    return 1 if text == "first" else int(re.sub(r"\D", "", text))


def read_day_and_month(match: re.Match[str]) -> tuple[int, int]:
    """Return the numbers of the day and the month that `DAY_AND_MONTH` matched."""
    name = match["month"] or match["month2"]
    month = next(number for number, month in enumerate(MONTHS, start=1) if month.startswith(name[:3]))
    return read_ordinal(match["day"] or match["day2"]), month


def is_month(name: str, number: int) -> bool:
    return MONTHS[number - 1].startswith(name[:3])


def read_amounts(phrase: str) -> dict[str, int] | None:
    """Return the number of each unit in a phrase like "2 hours and 30 minutes"."""
    phrase = re.sub(r"\bhalf (?:an )?hour$", "30 minutes", phrase)
    phrase = re.sub(r"\b(an|one|1) hour and a half$", "1 hour 30 minutes", phrase)
    amounts: dict[str, int] = {}
    position, more = 0, "start"
    while position < len(phrase):
        match = _AMOUNT.match(phrase, position)
        if not match or any(UNITS[unit] <= UNITS[match["unit"][0]] for unit in amounts):
            return None
        amounts[match["unit"][0]] = read_count(match["number"])
        position, more = match.end(), match["more"]
    return None if more else amounts


def seconds_of(amounts: dict[str, int]) -> int:
    """Return the elapsed time of these amounts in seconds."""
    return sum(number * UNITS[unit] for unit, number in amounts.items())


def within_limit(seconds: int) -> timedelta:
    """Return a duration, or refuse one that is zero or too long."""
    if seconds <= 0:
        raise PhraseError("the shortest time is 1 second")
    if seconds > HORIZON.total_seconds():
        raise TooFarError
    return timedelta(seconds=seconds)


def weekday_number(name: str) -> int:
    """Return the number of a weekday in cron, where Sunday is 0."""
    return next(number for number, weekday in enumerate(WEEKDAYS) if weekday.startswith(name[:3]))
