"""Phrases that repeat: "every weekday at 8:30" becomes a trigger.

`clean` and `_SYNONYMS` normalize the spelling, and `_VAGUE` asks about phrases with several meanings. Then the first of
`_RULES` that matches parses the phrase. A phrase that no rule matches is a moment.
"""

import re
from datetime import UTC, datetime, time, timedelta
from functools import partial

from schedules.when.cron import values_of
from schedules.when.durations import TICK
from schedules.when.event_times import AtEvents, read_event_times
from schedules.when.grammar import (
    MAX_LENGTH,
    MONTH,
    NUMBER,
    NotUnderstoodError,
    PhraseError,
    clean,
    is_month,
    read_amounts,
    read_count,
    seconds_of,
    understood,
    within_limit,
)
from schedules.when.phrases import parse_amount, read_moment
from schedules.when.repeated_days import (
    WEEKDAYS,
    WINDOW,
    are_days,
    days_apart,
    days_of,
    minute_field,
    read_clocks,
    read_window,
    split_clocks,
    weekday_numbers,
    window_fields,
)
from schedules.when.suggestions import not_understood
from schedules.when.triggers import (
    CalendarInterval,
    Cron,
    Interval,
    Once,
    Trigger,
    TriggerError,
    cron_trigger,
    load_zone,
)
from schedules.when.unplanned import After, AtStart, Ending, OnDemand, read_ending
from schedules.when.zones import wall_time

_EXAMPLES = 'Try "every weekday at 8:30", "every 15 minutes", "tomorrow at 9am" or "30 8 * * 1-5"'
_CRON = re.compile(r"@|[\d*][\d*/,-]* [\d*][\d*/,-]* \S+ \S")
# Synonyms at the start of a phrase, and what the grammar calls them.
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
_VAGUE = {
    rf"(?:twice|{NUMBER} times) (?:a|per|each|every) day": 'at which times? Write "at" and each of them',
    rf"(?:twice|{NUMBER} times) .*": "on which days, at which times? Write each of them",
    r"bi-?weekly.*": '"biweekly" has two meanings. Say how many weeks apart, or on which days',
    rf"every {NUMBER} months?\b(?! on|,? starting).*": 'on which day? Write "on the" and its number',
    r"(?:yearly|annually|every year)(?! on).*": 'on which day? Write "every year on", the day and the month',
}
_TIMES_A_DAY = re.compile(
    rf"(?P<count>twice|{NUMBER} times) (?:a|per|each|every) day,? at (?P<times>(?:(?!until|except|within|starting).)+)"
)
_AT_START = re.compile(
    r"(?:every time |whenever |each time |when )(?:the |this |my )?(?:machine|computer|server|system|host|cronty)"
    r" (?:starts|boots|reboots|restarts)(?: up)?|(?:at|on|after) (?:every |each )?(?:start-?up|start|boot|reboot)"
)
# A cheap test for phrases that may name the events of a calendar.
_EVENTS = re.compile(r"@event|\b(?:before|after|at)\b.* (?:in|of|from) ", re.IGNORECASE)
_ON_DEMAND = re.compile(r"only when (?:it is )?(?:started|asked)|on demand|manually|by hand")
_AFTER_JOB = re.compile(
    r'(?:(?P<delay>\S.*?) )?after (?:"(?P<quoted>[^"]+)"|(?P<job>\S.*?))'
    r' (?P<verb>(?:has )?(?:succeed(?:s|ed)|fail(?:s|ed)|end(?:s|ed)|finish(?:es|ed)))(?: as "?(?P<ending>[\w ]+)"?)?\.?',
    re.IGNORECASE,
)
_ENDINGS = {"suc": Ending.SUCCEEDED, "fai": Ending.FAILED, "end": Ending.ANY, "fin": Ending.ANY}
_FREQUENT = re.compile(
    r"(?:every|each) (?P<amounts>(?:\S+ ?)?(?:minutes?|mins?|m|hours?|hrs?|h))(?P<rest>(?:,| ).+)"
)
# Written by `phrase_of`: this start does not depend on when the phrase is parsed.
_EXACT_START = re.compile(
    r"every (?P<count>\d{1,4}) (?P<unit>day|week|month)s?,? starting (?P<start>\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d)?)"
)
_START = re.compile(r"(?P<repeat>.+?),? (?:starting|beginning)(?: on| at| from)? (?P<start>.+)")
_IN_MONTH = re.compile(rf"in (?P<month>{MONTH})(?: (?P<year>\d{{4}}))?")
_EXCEPT_WEEKDAYS = re.compile(
    rf"(?P<repeat>.+?),? (?:except|but not)(?: on| every)? (?P<names>(?:weekends|{WEEKDAYS}))(?P<times>,? at .+)?"
)
# Cron days that are also a calendar interval: every week, every day, every month or every year.
_STEPS = (
    (re.compile(r"\* \* [0-6]"), 7, "days"),
    (re.compile(r"\* \* \*"), 1, "days"),
    (re.compile(r"\d+ \* \*"), 1, "months"),
    (re.compile(r"\d+ \d+ \*"), 12, "months"),
)


def parse_trigger(text: str, *, now: datetime, timezone: str) -> Trigger:
    """Return the trigger that a phrase, a cron expression or a moment means."""
    # First, because names of calendars and titles keep their case.
    if events := _at_events(text):
        return events
    if after := _after_job(text):
        return after
    phrase = clean(text, _EXAMPLES)

    def read(phrase: str) -> Trigger:
        return _read(phrase, now, timezone)

    try:
        load_zone(timezone)
        return (
            cron_trigger(text, timezone)
            if _CRON.match(phrase)
            else understood(phrase, read, partial(not_understood, "schedule"))
        )
    except TriggerError as error:
        raise PhraseError(str(error)) from error


def _read(phrase: str, now: datetime, timezone: str) -> Trigger:
    for pattern, spelling in _SYNONYMS.items():
        phrase = re.sub(rf"^(?:{pattern})", spelling, phrase)
    phrase = _without_times_a_day(phrase)
    for pattern, question in _VAGUE.items():
        if re.fullmatch(pattern, phrase):
            raise PhraseError(question)
    for rule in _RULES:
        if trigger := rule(phrase, now, timezone):
            return trigger
    if re.match(r"every |each ", phrase):
        raise NotUnderstoodError
    return Once(read_moment(phrase, now=now, timezone=timezone), timezone)


def _without_times_a_day(phrase: str) -> str:
    """Turn "3 times a day at 8, 14 and 20" into "every day at 8, 14 and 20"; refuse another number of times."""
    match = _TIMES_A_DAY.fullmatch(phrase)
    if not match:
        return phrase
    named = len(re.findall(r" and |, ", match["times"].replace(", and ", ", "))) + 1
    if named != (2 if match["count"] == "twice" else read_count(match["count"].removesuffix(" times"))):
        raise PhraseError(
            f"{match['count']} a day, but {named} {'time is' if named == 1 else 'times are'} named"
        )
    return f"every day at {match['times']}"


def _at_events(text: object) -> Trigger | None:
    if not isinstance(text, str) or len(text) > MAX_LENGTH or not _EVENTS.search(text):
        return None
    try:
        times = read_event_times(text)
    except TriggerError as error:
        raise PhraseError(error.reason) from error
    return AtEvents(times) if times else None


def _after_job(text: object) -> After | None:
    """Read "10 minutes after nightly backup fails", with the other job's name as typed."""
    match = _AFTER_JOB.fullmatch(" ".join(text.split())) if isinstance(text, str) else None
    if match is None:
        return None
    delay, verb = timedelta(0), match["verb"].lower().removeprefix("has ")
    try:
        if match["delay"] and not re.fullmatch(r"0 ?[a-z]+", match["delay"], re.IGNORECASE):
            delay = parse_amount(match["delay"])
        when = read_ending(match["ending"]) if match["ending"] else _ENDINGS[verb[:3]]
        return After(match["quoted"] or match["job"], when, delay)
    except TriggerError as error:
        raise PhraseError(error.reason) from error
    except PhraseError:
        return None


def _unplanned(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    if _AT_START.fullmatch(phrase):
        return AtStart()
    return OnDemand() if _ON_DEMAND.fullmatch(phrase) else None


def _interval(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every 15 minutes": as cron if it divides the hour or the day evenly, else as elapsed time."""
    amounts = _interval_amounts(phrase)
    if not amounts:
        return None
    seconds = seconds_of(amounts)
    minutes = seconds // 60
    if seconds % 60 == 0 and minutes and 60 % minutes == 0:
        return Cron(f"{minute_field(minutes)} * * * *", timezone)
    if minutes and seconds % 3600 == 0 and minutes < 1440 and 1440 % minutes == 0:
        return Cron(f"0 */{minutes // 60} * * *", timezone)
    return Interval(seconds, first_of_interval(within_limit(seconds), now, timezone))


def first_of_interval(step: timedelta, now: datetime, timezone: str) -> datetime:
    """Return the first run of an interval without a start: a round time, at most one step from now.

    It is on the quarter hour for 15 minutes, and on the full minute or second for steps that do not divide an hour or day.
    """
    midnight = datetime.combine(wall_time(now, load_zone(timezone)).date(), time())
    elapsed = wall_time(now, load_zone(timezone)) - midnight
    if is_even_step(int(step.total_seconds())):
        return now + step - elapsed % step
    return now + step - elapsed % timedelta(seconds=60 if step >= timedelta(minutes=1) else 1)


def is_even_step(seconds: int) -> bool:
    """Return whether an interval divides an hour, or a day into whole hours, so that its runs are at round times."""
    return 3600 % seconds == 0 or (seconds % 3600 == 0 and seconds < 86_400 and 86_400 % seconds == 0)


def _interval_amounts(phrase: str) -> dict[str, int] | None:
    text = re.sub(r"^(?:every|each) ", "", phrase)
    amounts = _amounts_of(text) if text != phrase else None
    # "Every day" and "every week" have a time of day; "every 2 days" counts from now.
    if not amounts or text.startswith(("a ", "an ")) or amounts in ({"d": 1}, {"w": 1}):
        return None
    return amounts


def _amounts_of(text: str) -> dict[str, int] | None:
    """Return the amounts in "15 minutes" or "minute"."""
    return read_amounts(text) or read_amounts(f"1 {text}")


def _frequent(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every 20 minutes from 8 to 18 on weekdays": limited to hours, days, or both."""
    match = _FREQUENT.fullmatch(phrase)
    amounts = match and _amounts_of(match["amounts"])
    if not match or not amounts:
        return None
    minutes, rest = seconds_of(amounts) // 60, match["rest"].strip(" ,")
    if minutes == 60 and (past := re.fullmatch(r"at :(?P<minute>[0-5]\d)", rest)):
        return Cron(f"{int(past['minute'])} * * * *", timezone)
    if minutes < 60 and rest == "starting on the hour":
        return Cron(f"*/{minutes} * * * *", timezone)
    window = WINDOW.search(rest)
    if window:
        rest = f"{rest[: window.start()]} {rest[window.end() :]}"
    text = rest.replace(",", " ").strip().removeprefix("on ").strip() or "every day"
    # "Every hour on monday" means every Monday.
    days = days_of(text) or days_of(f"every {text}")
    if days is None:
        return None
    within_limit(minutes * 60)
    if minutes < 60 and 60 % minutes:
        raise PhraseError(
            f"{minutes} minutes don't divide an hour: only 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30 can have hours or days"
        )
    if minutes > 60 and (minutes % 60 or 24 % (minutes // 60)):
        raise PhraseError(
            "this interval doesn't divide a day: only 2, 3, 4, 6, 8 or 12 hours can have a time or days"
        )
    if window:
        start, end = read_window(window)
        return Cron(f"{window_fields(minutes, start, end, is_daily=days == '* * *')} {days}", timezone)
    hours = "*" if minutes <= 60 else f"*/{minutes // 60}"
    return Cron(f"{minute_field(min(minutes, 60))} {hours} {days}", timezone)


def _with_exact_start(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every 2 weeks, starting 2026-11-23 09:00", which may lie in the past."""
    match = _EXACT_START.fullmatch(phrase)
    if not match:
        return None
    count, unit = int(match["count"]), "months" if match["unit"] == "month" else "days"
    start = read_moment(match["start"], now=now, timezone=timezone)
    return CalendarInterval(count * 7 if match["unit"] == "week" else count, unit, start, timezone)


def _with_start(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every second tuesday at 18:00 starting 1 december": from the first match at or after the start."""
    match = _START.fullmatch(phrase)
    if not match:
        return None
    text = _start_of(match["start"], now, timezone)
    start = read_moment(text, now=now, timezone=timezone, may_be_day=True)
    if amounts := _interval_amounts(match["repeat"]):
        seconds = int(within_limit(seconds_of(amounts)).total_seconds())
        if amounts.keys() <= {"d", "w"}:
            if not re.search(r":|\d ?[ap]m|noon|\bat \d|midnight|^in ", text):
                start = read_moment(f"{text} at 9:00", now=now, timezone=timezone)
            return CalendarInterval(seconds // 86_400, "days", start, timezone)
        return Interval(seconds, start)
    trigger = _read(match["repeat"], start - TICK, timezone)
    if not isinstance(trigger, Cron):
        return trigger
    first = trigger.next_after(start.astimezone(UTC) - TICK)
    if first is None or first == trigger.next_after(now):
        return trigger
    minute, hour, days = trigger.expression.split(" ", 2)
    if minute.isdecimal() and hour.isdecimal():
        for pattern, count, unit in _STEPS:
            if pattern.fullmatch(days):
                return CalendarInterval(count, unit, first, timezone)
    raise PhraseError("this schedule can't start later. Create the job without its start, paused until then")


def _start_of(text: str, now: datetime, timezone: str) -> str:
    """Return the start as a date or a time: "in december" is its first day."""
    if month := _IN_MONTH.fullmatch(text):
        if not month["year"] and is_month(month["month"], wall_time(now, load_zone(timezone)).month):
            raise PhraseError(f"{text[3:]} has begun already. Write the date of the start")
        return f"1 {text[3:]}"
    return text


def _except_weekdays(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every day at 9 except sundays": the weekdays of a schedule without some of them."""
    match = _EXCEPT_WEEKDAYS.fullmatch(phrase)
    if not match:
        return None
    trigger = _read(f"{match['repeat']}{match['times'] or ''}", now, timezone)
    if not isinstance(trigger, Cron) or not re.search(r" \* \* (?:\*|[0-6,-]+)$", trigger.expression):
        raise PhraseError("only days of the week can be left out this way, and only of days of the week")
    *times, days = trigger.expression.split(" ")
    names = match["names"]
    excluded = {0, 6} if names == "weekends" else weekday_numbers(names)
    weekdays = {day % 7 for day in values_of(f"0 0 * * {days}").weekdays if isinstance(day, int)}
    remaining = weekdays - excluded
    if not remaining:
        raise PhraseError("no day is left")
    return Cron(" ".join([*times, ",".join(map(str, sorted(remaining)))]), timezone)


def _on_days(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every weekday at 8:30", or "every 2 weeks on monday at 9:00", which starts on the first such day."""
    text, times = split_clocks(phrase, are_days)
    wall = wall_time(now, load_zone(timezone))
    if interval := days_apart(text.replace("each ", "every ", 1), wall.date()):
        count, unit, days = interval
        clocks = read_clocks(times)
        if len(clocks) > 1:
            raise PhraseError("enter one time only for this schedule")
        at = time(clocks[0].hour, clocks[0].minute)
        return CalendarInterval.first_after(
            now, [datetime.combine(day, at) for day in days], count, unit, timezone
        )
    fields = days_of(text)
    if fields is None:
        return None
    clocks = read_clocks(times)
    if any(clock.kind == "midnight" for clock in clocks) and fields != "* * *":
        raise PhraseError("midnight at the start or the end of that day? Write 00:00 or 23:59")
    times_of_day = {(clock.hour, clock.minute) for clock in clocks}
    hours, minutes = (
        sorted({hour for hour, _ in times_of_day}),
        sorted({minute for _, minute in times_of_day}),
    )
    if len(hours) * len(minutes) != len(times_of_day):
        raise PhraseError("create one job for each of these times")
    return Cron(f"{','.join(map(str, minutes))} {','.join(map(str, hours))} {fields}", timezone)


_RULES = (_unplanned, _interval, _with_exact_start, _frequent, _with_start, _on_days, _except_weekdays)
