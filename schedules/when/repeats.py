"""Phrases that repeat: "every weekday at 8:30" becomes a trigger."""

import re
from datetime import datetime

from schedules.when.phrases import parse_moment
from schedules.when.triggers import Cron, Interval, Once, Trigger, TriggerError, load_zone
from schedules.when.vocabulary import (
    CLOCK_FIRST,
    CLOCK_LAST,
    NAMED_DATE,
    NTH,
    WEEKDAY,
    PhraseError,
    clean,
    month_number,
    read_amounts,
    read_clock,
    read_number,
    seconds_of,
    weekday_number,
    within_limit,
)

_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_EXAMPLES = 'try "every weekday at 8:30", "every 15 minutes", "tomorrow at 9am" or "30 8 * * 1-5"'
_VAGUE = {
    r"twice .*": 'which hours? Try "every day at 9am and 9pm"',
    r"every other .*|.*fortnight.*|biweekly.*": 'it depends on the first day: try "every 2 days" or a weekday',
    r"(?:every |each )?quarter.*": 'on which day? Try the cron expression "0 9 1 1,4,7,10 *"',
}


def parse_trigger(text: str, *, now: datetime, timezone: str) -> Trigger:
    """Return the trigger that a phrase, a cron expression or a moment means."""
    phrase = clean(text, _EXAMPLES)
    try:
        load_zone(timezone)
        if re.match(r"@|[\d*][\d*/,-]* [\d*][\d*/,-]* \S+ \S", phrase):
            return Cron(text, timezone)
        trigger = _interval(phrase, now, timezone) or _recurring(phrase, timezone)
        if trigger is None and re.match(r"every |each |twice ", phrase):
            raise PhraseError(f"this rhythm is not understood: {_EXAMPLES}")
        return trigger or Once(parse_moment(text, now=now, timezone=timezone), timezone)
    except TriggerError as error:
        raise PhraseError(str(error)) from error


def _interval(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every 15 minutes": as cron if it divides the hour or the day evenly, else as elapsed time."""
    phrase = {"hourly": "every hour"}.get(phrase, phrase)
    match = re.fullmatch(r"(?:every|each) (?P<amounts>.+)", phrase)
    if not match:
        return None
    text = match["amounts"]
    amounts = read_amounts(text) or read_amounts(f"1 {text}")
    # "Every day" and "every week" need a time of day; "every 2 days" counts from now.
    if not amounts or text.startswith(("a ", "an ")) or amounts in ({"d": 1}, {"w": 1}):
        return None
    seconds = seconds_of(amounts)
    minutes = seconds // 60
    if seconds % 60 == 0 and minutes and 60 % minutes == 0:
        return Cron({1: "* * * * *", 60: "0 * * * *"}.get(minutes, f"*/{minutes} * * * *"), timezone)
    if minutes and seconds % 3600 == 0 and minutes < 1440 and 1440 % minutes == 0:
        return Cron(f"0 */{minutes // 60} * * *", timezone)
    return Interval(seconds, now + within_limit(seconds))


def _recurring(phrase: str, timezone: str) -> Cron | None:
    """Read phrases like "every weekday at 8:30"; None if the phrase does not repeat."""
    for pattern, question in _VAGUE.items():
        if re.fullmatch(pattern, phrase):
            raise PhraseError(question)
    match = CLOCK_LAST.fullmatch(phrase) or CLOCK_FIRST.fullmatch(phrase)
    days = _recurring_days((match["day"] or "") if match else phrase)
    if days is None:
        return None
    if not match:
        raise PhraseError(f'at what time? Write "{phrase} at 9:00"')
    clocks = [read_clock(part) for part in re.split(r",? and |, ", match["clock"])]
    if any(clock.kind == "midnight" for clock in clocks) and days != "* * *":
        raise PhraseError("midnight at which end of that day? Write 00:00 or 23:59")
    if len({clock.minute for clock in clocks}) > 1:
        raise PhraseError("times with different minutes need a schedule each")
    hours = ",".join(str(hour) for hour in sorted({clock.hour for clock in clocks}))
    return Cron(f"{clocks[0].minute} {hours} {days}", timezone)


def _recurring_days(text: str) -> str | None:
    """Return the day-of-month, month and weekday fields of phrases like "mondays and thursdays"."""
    text = re.sub(r"\beach\b", "every", re.sub(r"\bthe ", "", text.removeprefix("on ")))
    text = text.replace("every month", "month")
    if text in {"every day", "daily"}:
        return "* * *"
    if re.fullmatch(r"every weekday|weekdays", text):
        return "* * 1-5"
    if re.fullmatch(r"every weekend|weekends", text):
        return "* * 0,6"
    return _weekday_fields(text) or _month_fields(text) or _year_fields(text)


def _weekday_fields(text: str) -> str | None:
    separator = r"(?:,? and |, )"
    every = rf"(?:every |weekly on |every week on )(?P<names>{WEEKDAY}s?(?:{separator}{WEEKDAY}s?)*)"
    plural = rf"(?P<names>{WEEKDAY}s(?:{separator}{WEEKDAY}s)*)"
    match = re.fullmatch(every, text) or re.fullmatch(plural, text)
    if not match:
        return None
    numbers = sorted({weekday_number(name) for name in re.split(separator, match["names"])})
    return "* * " + ",".join(str(number) for number in numbers)


def _month_fields(text: str) -> str | None:
    if re.fullmatch(r"(?:every )?last day of month|(?:month|monthly) on last day", text):
        return "L * *"
    nth = rf"(?P<nth>{'|'.join(_ORDINALS)}|last)"
    if match := re.fullmatch(rf"(?:every )?{nth} (?P<name>{WEEKDAY}) of month", text):
        weekday = weekday_number(match["name"])
        return f"* * {weekday}L" if match["nth"] == "last" else f"* * {weekday}#{_ORDINALS[match['nth']]}"
    day = rf"(?P<day>{NTH}|first)"
    if match := re.fullmatch(rf"{day} of month", text) or re.fullmatch(rf"(?:month|monthly) on {day}", text):
        return f"{1 if match['day'] == 'first' else read_number(match['day'])} * *"
    return None


def _year_fields(text: str) -> str | None:
    match = re.fullmatch(r"(?:every year on |yearly on |annually on |every )(?P<date>.+)", text)
    named = NAMED_DATE.fullmatch(match["date"]) if match else None
    if not named or named["year"]:
        return None
    return f"{read_number(named['day'] or named['day2'])} {month_number(named['month'] or named['month2'])} *"
