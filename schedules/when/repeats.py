"""Phrases that repeat: "every weekday at 8:30" becomes a trigger."""

import re
from datetime import datetime

from schedules.when.calendar_repeats import read_calendar_repeat
from schedules.when.phrases import read_moment
from schedules.when.repeated_days import days_of, read_clocks, split_clocks
from schedules.when.suggestions import MOMENTS, REPEATS, unread
from schedules.when.triggers import Cron, Interval, Once, Trigger, TriggerError, load_zone
from schedules.when.vocabulary import (
    NUMBER,
    Clock,
    NotUnderstoodError,
    PhraseError,
    clean,
    read_amounts,
    read_clock,
    seconds_of,
    within_limit,
)

_EXAMPLES = 'Try "every weekday at 8:30", "every 15 minutes", "tomorrow at 9am" or "30 8 * * 1-5"'
_VAGUE = {
    r"twice .*": 'at which times? Try "every day at 9:00 and 17:00"',
    r"bi-?weekly.*": '"biweekly" has two meanings. Try "every 2 weeks on monday at 9:00" or "mondays and thursdays at 9:00"',
    rf"every {NUMBER} months?\b(?! on|,? starting).*": 'on which day? Try "every 3 months on the 1st at 9:00"',
    r"(?:yearly|annually|every year)(?! on).*": 'on which day? Try "every year on 24 december at 18:00"',
}
# Other words for what the grammar knows, at the start of a phrase.
_SYNONYMS = {
    r"hourly|once an hour|every hour on the hour": "every hour",
    r"once a day": "daily",
    r"(?:once a week|weekly|every week)(?= at |$)": "mondays",
    r"once a (?=week on |month on )": "every ",
    r"(?:once a month|monthly|every month)(?= at |$)": "1st of every month",
    r"(?:every|each) (?:other|second|2nd) (?!.*\bof\b)": "every 2 ",
    r"fortnightly|every fortnight": "every 2 weeks",
    r"quarterly": "every quarter",
}
_CLOCK = r"(?:noon|midnight|\d{1,2}(?::\d\d)? ?(?:[ap]m)?)"
_WINDOW = re.compile(
    rf"(?:from |between )?(?P<start>{_CLOCK}) ?(?:-|to|until|till|and) ?(?P<end>{_CLOCK})(?![\d:])"
)
_FREQUENT = re.compile(
    r"(?:every|each) (?P<amounts>(?:\S+ ?)?(?:minutes?|mins?|m|hours?|hrs?|h))(?P<rest>(?:,| ).+)"
)


def parse_trigger(text: str, *, now: datetime, timezone: str) -> Trigger:
    """Return the trigger that a phrase, a cron expression or a moment means."""
    phrase = clean(text, _EXAMPLES)

    def read(phrase: str) -> Trigger:
        return _read(phrase, now, timezone)

    try:
        load_zone(timezone)
        if re.match(r"@|[\d*][\d*/,-]* [\d*][\d*/,-]* \S+ \S", phrase):
            return Cron(text, timezone)
        return read(phrase)
    except TriggerError as error:
        raise PhraseError(str(error)) from error
    except NotUnderstoodError as error:
        if str(error):
            raise
        known = (*REPEATS, *MOMENTS)
        raise NotUnderstoodError(unread("schedule", phrase, known, read, fallback=_EXAMPLES)) from error


def _read(phrase: str, now: datetime, timezone: str) -> Trigger:
    for words, meaning in _SYNONYMS.items():
        phrase = re.sub(rf"^(?:{words})", meaning, phrase)
    for pattern, question in _VAGUE.items():
        if re.fullmatch(pattern, phrase):
            raise PhraseError(question)
    trigger = _interval(phrase, now, timezone) or _frequent(phrase, timezone)
    trigger = trigger or read_calendar_repeat(phrase, now, timezone) or _recurring(phrase, timezone)
    if trigger is None and re.match(r"every |each ", phrase):
        raise NotUnderstoodError
    return trigger or Once(read_moment(phrase, now=now, timezone=timezone), timezone)


def _interval(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every 15 minutes": as cron if it divides the hour or the day evenly, else as elapsed time."""
    match = re.fullmatch(r"(?:every|each) (?P<amounts>.+)", phrase)
    if not match:
        return None
    text = match["amounts"]
    amounts = read_amounts(text) or read_amounts(f"1 {text}")
    # "Every day" and "every week" have a time of day; "every 2 days" counts from now.
    if not amounts or text.startswith(("a ", "an ")) or amounts in ({"d": 1}, {"w": 1}):
        return None
    seconds = seconds_of(amounts)
    minutes = seconds // 60
    if seconds % 60 == 0 and minutes and 60 % minutes == 0:
        return Cron(f"{_minute_field(minutes)} * * * *", timezone)
    if minutes and seconds % 3600 == 0 and minutes < 1440 and 1440 % minutes == 0:
        return Cron(f"0 */{minutes // 60} * * *", timezone)
    return Interval(seconds, now + within_limit(seconds))


def _minute_field(minutes: int) -> str:
    return {1: "*", 60: "0"}.get(minutes, f"*/{minutes}")


def _frequent(phrase: str, timezone: str) -> Cron | None:
    """Read "every 20 minutes from 8 to 18 on weekdays": some hours, some days, or both."""
    match = _FREQUENT.fullmatch(phrase)
    amounts = match and (read_amounts(match["amounts"]) or read_amounts(f"1 {match['amounts']}"))
    if not match or not amounts:
        return None
    minutes, rest = seconds_of(amounts) // 60, match["rest"].strip(" ,")
    if minutes == 60 and (past := re.fullmatch(r"at :(?P<minute>[0-5]\d)", rest)):
        return Cron(f"{int(past['minute'])} * * * *", timezone)
    if minutes < 60 and rest == "starting on the hour":
        return Cron(f"*/{minutes} * * * *", timezone)
    window = _WINDOW.search(rest)
    if window:
        rest = f"{rest[: window.start()]} {rest[window.end() :]}"
    text = rest.replace(",", " ").strip().removeprefix("on ").strip() or "every day"
    # "Every hour on monday" means every Monday.
    days = days_of(text) or days_of(f"every {text}")
    if days is None:
        return None
    within_limit(minutes * 60)
    if minutes < 60 and 60 % minutes:
        raise PhraseError(f"{minutes} minutes don't divide an hour. Try every 10, 12, 15, 20 or 30 minutes")
    if minutes > 60 and (minutes % 60 or 24 % (minutes // 60)):
        raise PhraseError("this interval doesn't divide a day. Try every 2, 3, 4, 6, 8 or 12 hours")
    if not window:
        hours = "*" if minutes <= 60 else f"*/{minutes // 60}"
        return Cron(f"{_minute_field(min(minutes, 60))} {hours} {days}", timezone)
    return Cron(f"{_window_fields(minutes, *_window(window), is_daily=days == '* * *')} {days}", timezone)


def _window(match: re.Match[str]) -> tuple[Clock, Clock]:
    start, end = read_clock(match["start"].strip()), read_clock(match["end"].strip())
    if end.kind == "bare" and end.hour <= start.hour <= 12:
        raise PhraseError(f"morning or evening? Write {start.hour:02}:00 to {end.hour + 12:02}:00")
    if start.kind == end.kind == "bare" and start.hour < 6:
        raise start.question()
    if _is_end_open(start, end):
        raise end.question()
    if _is_start_open(start, end):
        raise start.question()
    return start, end


def _is_end_open(start: Clock, end: Clock) -> bool:
    """Return whether the end may be in the afternoon: "from 1pm to 5", but not "from 10pm to 6"."""
    is_mixed = end.kind == "bare" or (end.kind == "plain" and start.kind == "half")
    return is_mixed and 12 <= start.hour < end.hour + 12 < 24


def _is_start_open(start: Clock, end: Clock) -> bool:
    """Return whether the start may be in the afternoon: "from 1 to 5pm" and "from 10 to 6am", but not "from 9 to 5pm"."""
    if not start.is_open or end.kind != "half":
        return False
    return start.hour + 12 < end.hour or end.hour <= start.hour < 12


def _window_fields(minutes: int, start: Clock, end: Clock, *, is_daily: bool) -> str:
    """Return the minute and hour fields of a repetition within some hours; what starts at the end does not count."""
    if minutes < 60 and (start.minute or end.minute not in {0, 59}):
        raise PhraseError('write full hours, like "every 20 minutes from 8:00 to 18:00"')
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
        return f"{_minute_field(minutes)} {hours}"
    step = minutes // 60
    if step > 1 and not re.fullmatch(r"\d+-\d+", hours):
        raise PhraseError('over midnight, write the hours one by one, like "every day at 22:00 and 2:00"')
    return f"{start.minute} {hours}{f'/{step}' if step > 1 else ''}"


def _recurring(phrase: str, timezone: str) -> Cron | None:
    """Read phrases like "every weekday at 8:30"; None if the phrase does not repeat."""
    text, times = split_clocks(phrase, lambda days: days_of(days) is not None)
    days = days_of(text)
    if days is None:
        return None
    clocks = read_clocks(times)
    if any(clock.kind == "midnight" for clock in clocks) and days != "* * *":
        raise PhraseError("midnight at the start or the end of that day? Write 00:00 or 23:59")
    if len({clock.minute for clock in clocks}) > 1:
        raise PhraseError("times with different minutes need a job each")
    hours = ",".join(str(hour) for hour in sorted({clock.hour for clock in clocks}))
    return Cron(f"{clocks[0].minute} {hours} {days}", timezone)
