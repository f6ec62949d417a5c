"""What did the person mean? Phrases, ISO times and delays become moments and triggers."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from schedules.when.triggers import Cron, Interval, Once, Trigger, TriggerError, load_zone

MAX_LENGTH = 200
MAX_DELAY = timedelta(days=5 * 366)

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS: tuple[str, ...] = ("january", "february", "march", "april", "may", "june")
_MONTHS += ("july", "august", "september", "october", "november", "december")
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
_NUMBERS |= {"eight": 8, "nine": 9, "ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30}
_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}


def _names(names: tuple[str, ...]) -> str:
    return "(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in names) + ")"


_WEEKDAY = _names(_WEEKDAYS)
_MONTH = _names(_MONTHS)
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_CLOCK = r"(?:noon|midnight|\d{1,2}(?::\d\d)? ?[ap]m|\d{1,2}:\d\d)"
_AT_CLOCK = rf"(?:at (?:{_CLOCK}|\d{{1,2}})|{_CLOCK})"

_CLOCK_LAST = re.compile(
    rf"(?:(?!at )(?P<day>.+?),? )?(?P<clock>{_AT_CLOCK}(?:(?:,| and) (?:{_AT_CLOCK}|\d{{1,2}}))*)"
)
_CLOCK_FIRST = re.compile(rf"(?P<clock>{_AT_CLOCK}),? (?P<day>.+)")
_ONE_CLOCK = re.compile(r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?: ?(?P<half>[ap]m))?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?P<offset>z|[+-]\d\d:?\d\d)?")
_DELAY = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?")
_AMOUNT = re.compile(
    rf"(?P<number>\d+|{'|'.join(_NUMBERS)}) ?"
    r"(?P<unit>w(?:eeks?)?|d(?:ays?)?|h(?:ours?|rs?)?|m(?:inutes?|ins?)?|s(?:econds?|ecs?)?)(?![a-z])"
    r"(?P<more>(?:,? and|,)? ?)"
)
_NUMERIC_DATE = re.compile(
    r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4})"
)
_NAMED_DATE = re.compile(
    rf"(?:(?P<month>{_MONTH}) (?P<day>{_NTH})|(?:the )?(?P<day2>{_NTH})(?: of)? (?P<month2>{_MONTH}))"
    r"(?:,? (?P<year>\d{4}))?"
)

_MOMENT_EXAMPLES = 'try "tomorrow at 9am", "in 20 minutes", "friday at noon" or "2026-12-24 18:00"'
_PAST_EXAMPLES = 'try "yesterday at 9:00", "2 hours ago", "sunday 18:00" or "2026-11-14 18:00"'
_TRIGGER_EXAMPLES = 'try "every weekday at 8:30", "every 15 minutes", "tomorrow at 9am" or "30 8 * * 1-5"'
_DELAY_EXAMPLES = 'try "1d2h30m10s", "2h30m" or "90m"'
_TOO_FAR = "that is too far away: at most five years"
_VAGUE = {
    r"twice .*": 'which hours? Try "every day at 9am and 9pm"',
    r"every other .*|.*fortnight.*|biweekly.*": 'it depends on the first day: try "every 2 days" or a weekday',
    r"(?:every |each )?quarter.*": 'on which day? Try the cron expression "0 9 1 1,4,7,10 *"',
}


class PhraseError(ValueError):
    """The text is refused; the message says why and shows what is understood."""


class NotUnderstoodError(PhraseError):
    """The text says nothing that could be a time."""


class _Clock(NamedTuple):
    hour: int
    minute: int
    # "exact" (8am, 08:30), "plain" (8:30, read on the 24-hour clock), "bare" (8) or "midnight"
    kind: str = "exact"


def parse_moment(text: str, *, now: datetime, timezone: str, past: bool = False) -> datetime:
    """Return the moment a phrase or an ISO time means, in the zone.

    A naive time is read in the zone; one that clocks show twice is the first of the two, or the one still ahead. With
    `past` it is asked what was: "sunday 9:00" is the last one, a day alone its beginning, and "2 hours ago" is understood.
    """
    phrase = _clean(text, _PAST_EXAMPLES if past else _MOMENT_EXAMPLES)
    try:
        moment = _moment(phrase, now.astimezone(load_zone(timezone)), past=past)
    except TriggerError as error:
        raise PhraseError(str(error)) from error
    except OverflowError as error:
        raise PhraseError(_TOO_FAR) from error
    if moment - now > MAX_DELAY:
        raise PhraseError(_TOO_FAR)
    return moment


def parse_trigger(text: str, *, now: datetime, timezone: str) -> Trigger:
    """Return the trigger that a phrase, a cron expression or a moment means."""
    phrase = _clean(text, _TRIGGER_EXAMPLES)
    try:
        load_zone(timezone)
        if re.match(r"@|[\d*][\d*/,-]* [\d*][\d*/,-]* \S+ \S", phrase):
            return Cron(text, timezone)
        trigger = _interval(phrase, now, timezone) or _recurring(phrase, timezone)
        if trigger is None and re.match(r"every |each |twice ", phrase):
            raise PhraseError(f"this rhythm is not understood: {_TRIGGER_EXAMPLES}")
        return trigger or Once(parse_moment(text, now=now, timezone=timezone), timezone)
    except TriggerError as error:
        raise PhraseError(str(error)) from error


def parse_delay(text: str) -> timedelta:
    """Return the elapsed time that a text like "1d2h30m10s" means."""
    delay = _delay(_clean(text, _DELAY_EXAMPLES))
    if delay is None:
        raise PhraseError(f"this is not a delay: {_DELAY_EXAMPLES}")
    return delay


def _clean(text: object, examples: str) -> str:
    """Return the text in lower case with single spaces, or refuse what cannot be a phrase."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise NotUnderstoodError(f"write a text of at most {MAX_LENGTH} characters")
    if not re.fullmatch(r"[ -~]*", text):
        raise NotUnderstoodError("write plain English letters, digits and punctuation only")
    phrase = " ".join(text.lower().split()).rstrip(" .!")
    if not phrase:
        raise NotUnderstoodError(f"nothing is written here: {examples}")
    return re.sub(r"\b([ap])\.m\b\.?", r"\1m", phrase)


def _delay(phrase: str) -> timedelta | None:
    match = _DELAY.fullmatch(phrase)
    return _within_limit(sum(int(n) * _UNITS[u] for u, n in match.groupdict("0").items())) if match else None


def _within_limit(seconds: int) -> timedelta:
    if seconds <= 0:
        raise PhraseError("a delay is at least one second")
    if seconds > MAX_DELAY.total_seconds():
        raise PhraseError(_TOO_FAR)
    return timedelta(seconds=seconds)


def _moment(phrase: str, now: datetime, *, past: bool) -> datetime:
    if match := _ISO.fullmatch(phrase):
        return _iso_moment(phrase, now, has_offset=bool(match["offset"]), past=past)
    if delay := _delay(phrase):
        return _later(now, -delay if past else delay)
    if phrase.startswith("in ") and (amounts := _amounts(phrase[3:])):
        return _after_amounts(now, amounts)
    match = _CLOCK_LAST.fullmatch(phrase) or _CLOCK_FIRST.fullmatch(phrase)
    if match:
        return _on_day(match["day"], _clock(match["clock"]), now, past=past)
    if not past:
        raise NotUnderstoodError(f"this is not a date with a time: {_MOMENT_EXAMPLES}")
    if phrase == "now":
        return now
    if phrase.endswith(" ago") and (amounts := _amounts(phrase.removesuffix(" ago"))):
        return _after_amounts(now, amounts, sign=-1)
    beginnings = [_beginning(day, now) for day in _days(phrase, now.date(), past=True)]
    return next((moment for moment in beginnings if moment <= now), beginnings[0])


def _iso_moment(phrase: str, now: datetime, *, has_offset: bool, past: bool) -> datetime:
    try:
        moment = datetime.fromisoformat(phrase.upper())
    except ValueError as error:
        raise NotUnderstoodError(f"there is no such date and time: {_MOMENT_EXAMPLES}") from error
    if has_offset:
        return moment.astimezone(now.tzinfo)
    return _local(moment.date(), moment.time(), now, past=past)


def _later(now: datetime, delay: timedelta) -> datetime:
    return (now.astimezone(UTC) + delay).astimezone(now.tzinfo)


def _amounts(phrase: str) -> dict[str, int] | None:
    """Return how many of each unit a phrase like "2 hours and 30 minutes" names."""
    phrase = re.sub(r"\bhalf (?:an )?hour$", "30 minutes", phrase)
    phrase = re.sub(r"\b(an|one|1) hour and a half$", "1 hour 30 minutes", phrase)
    amounts: dict[str, int] = {}
    position, more = 0, "start"
    while position < len(phrase):
        match = _AMOUNT.match(phrase, position)
        if not match or any(_UNITS[unit] <= _UNITS[match["unit"][0]] for unit in amounts):
            return None
        number = match["number"]
        amounts[match["unit"][0]] = _NUMBERS.get(number) or int(number)
        position, more = match.end(), match["more"]
    return None if more else amounts


def _seconds(amounts: dict[str, int]) -> int:
    return sum(number * _UNITS[unit] for unit, number in amounts.items())


def _after_amounts(now: datetime, amounts: dict[str, int], *, sign: int = 1) -> datetime:
    """Add days on the calendar, so that the clock time stays, and the rest as elapsed time; or take them away."""
    _within_limit(_seconds(amounts))
    clock = {unit: number for unit, number in amounts.items() if unit in "hms"}
    if clock != amounts:
        calendar = {unit: number for unit, number in amounts.items() if unit not in clock}
        day = now.date() + sign * timedelta(seconds=_seconds(calendar))
        now = _local(day, now.time(), now, past=sign < 0)
    return _later(now, sign * timedelta(seconds=_seconds(clock)))


def _clock(text: str) -> _Clock:
    text = text.removeprefix("at ")
    if text in {"noon", "midnight"}:
        return _Clock(12, 0) if text == "noon" else _Clock(0, 0, "midnight")
    match = _ONE_CLOCK.fullmatch(text)
    if not match:
        raise PhraseError(f"one time at a time here: {_MOMENT_EXAMPLES}")
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
    if minute > 59 or hour > 23 or (half and not 1 <= hour <= 12):
        raise PhraseError(f'there is no time "{text}": write 9am, 9:30 pm or 21:30')
    if half:
        return _Clock(hour % 12 + (12 if half == "pm" else 0), minute)
    if text.startswith("0") or hour > 12:
        return _Clock(hour, minute)
    return _Clock(hour, minute, "plain" if match["minute"] else "bare")


def _on_day(day: str | None, clock: _Clock, now: datetime, *, past: bool) -> datetime:
    if day == "tonight":
        day, clock = "today", _tonight(clock)
    if clock.kind == "bare":
        raise PhraseError(
            f"morning or evening? Write {clock.hour}am, {clock.hour}pm or 24-hour time like 20:00"
        )
    if clock.kind == "midnight" and day:
        raise PhraseError("midnight at which end of that day? Write 00:00 or 23:59")
    days = _days(day, now.date(), past=past)
    at = time(clock.hour, clock.minute)
    meant = [day for day in days if (_readings(day, at, now)[0 if past else 1] <= now) == past]
    return _local((meant or days)[0], at, now, past=past)


def _tonight(clock: _Clock) -> _Clock:
    if clock.hour >= 17:
        return clock
    if 5 <= clock.hour <= 11 and clock.kind != "exact":
        return _Clock(clock.hour + 12, clock.minute)
    raise PhraseError('tonight is from 17:00 to 23:59: write "tonight at 8" or "tomorrow at 1am"')


def _days(text: str | None, today: date, *, past: bool) -> list[date]:
    """Return the days a text may mean, the likeliest first; the first one ahead is meant, or the first one behind."""
    if text is None:
        return [today, today + timedelta(days=-1 if past else 1)]
    text = text.removeprefix("on ")
    offsets = {
        "yesterday": -1,
        "today": 0,
        "tomorrow": 1,
        "the day after tomorrow": 2,
        "day after tomorrow": 2,
    }
    if text in offsets:
        return [today + timedelta(days=offsets[text])]
    if past and (match := re.fullmatch(rf"(?P<which>last )?(?P<name>{_WEEKDAY})", text)):
        return _past_weekday_dates(match["name"], match["which"], today)
    if match := re.fullmatch(rf"(?P<which>next |this )?(?P<name>{_WEEKDAY})", text):
        return _weekday_dates(match["name"], match["which"], today)
    if text.startswith("in ") and (amounts := _amounts(text[3:])) and set(amounts) <= {"w", "d"}:
        return [today + _within_limit(_seconds(amounts))]
    if match := _NUMERIC_DATE.fullmatch(text):
        year, month, day = (int(match[key] or match[f"{key}2"]) for key in "ymd")
        return [_date(year, month, day)]
    if match := _NAMED_DATE.fullmatch(text):
        return _named_dates(match, today, past=past)
    raise NotUnderstoodError(f"this day is not understood: {_PAST_EXAMPLES if past else _MOMENT_EXAMPLES}")


def _past_weekday_dates(name: str, which: str | None, today: date) -> list[date]:
    nearest = today - timedelta(days=(today.isoweekday() - _weekday(name)) % 7)
    before = nearest - timedelta(days=7)
    return [before] if which and nearest == today else [nearest, before]


def _weekday_dates(name: str, which: str | None, today: date) -> list[date]:
    nearest = today + timedelta(days=(_weekday(name) - today.isoweekday()) % 7)
    following = nearest + timedelta(days=7)
    if which == "this ":
        return [nearest]
    if which is None or nearest == today:
        return [nearest, following] if which is None else [following]
    if nearest.isocalendar().week == today.isocalendar().week:
        raise PhraseError(f"next could be {nearest} or {following}: write the date with the time")
    return [nearest]


def _named_dates(match: re.Match[str], today: date, *, past: bool) -> list[date]:
    month = _month(match["month"] or match["month2"])
    day = _number(match["day"] or match["day2"])
    if match["year"]:
        return [_date(int(match["year"]), month, day)]
    dates = []
    for year in (today.year, today.year + (-1 if past else 1)):
        with suppress(ValueError):
            dates.append(date(year, month, day))
    return dates or [_date(today.year, month, day)]


def _date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError as error:
        raise PhraseError(
            f"there is no day {year}-{month:02}-{day:02}: write one that is in the calendar"
        ) from error


def _local(day: date, at: time, now: datetime, *, past: bool) -> datetime:
    """Return the instant at which clocks show the time, or refuse one that they skip."""
    first, second = _readings(day, at, now)
    shown = second.astimezone(now.tzinfo)
    if shown.replace(tzinfo=None) != datetime.combine(day, at):
        raise PhraseError(
            f"clocks in {now.tzinfo} skip {at:%H:%M} on {day}: write {shown:%H:%M} or another time of that day"
        )
    return (second if first <= now < second and not past else first).astimezone(now.tzinfo)


def _beginning(day: date, now: datetime) -> datetime:
    """Return the first instant of a day, which is not midnight where clocks skip that."""
    readings = (moment.astimezone(now.tzinfo) for moment in _readings(day, time(0), now))
    return next(moment for moment in readings if moment.date() == day)


def _readings(day: date, at: time, now: datetime) -> list[datetime]:
    """Return the earlier and the later instant that the time may be: they differ where clocks are set."""
    folds = (datetime.combine(day, at.replace(fold=fold), tzinfo=now.tzinfo) for fold in (0, 1))
    return sorted(moment.astimezone(UTC) for moment in folds)


def _weekday(name: str) -> int:
    return next(number for number, weekday in enumerate(_WEEKDAYS) if weekday.startswith(name[:3]))


def _month(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, start=1) if month.startswith(name[:3]))


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def _interval(phrase: str, now: datetime, timezone: str) -> Trigger | None:
    """Read "every 15 minutes": by the clock where that comes out even, else as elapsed time."""
    phrase = {"hourly": "every hour"}.get(phrase, phrase)
    match = re.fullmatch(r"(?:every|each) (?P<amounts>.+)", phrase)
    if not match:
        return None
    text = match["amounts"]
    amounts = _amounts(text) or _amounts(f"1 {text}")
    # "Every day" and "every week" lack their time; "every 2 days" counts from now.
    if not amounts or text.startswith(("a ", "an ")) or amounts in ({"d": 1}, {"w": 1}):
        return None
    seconds = _seconds(amounts)
    minutes = seconds // 60
    if seconds % 60 == 0 and minutes and 60 % minutes == 0:
        return Cron({1: "* * * * *", 60: "0 * * * *"}.get(minutes, f"*/{minutes} * * * *"), timezone)
    if minutes and seconds % 3600 == 0 and minutes < 1440 and 1440 % minutes == 0:
        return Cron(f"0 */{minutes // 60} * * *", timezone)
    return Interval(seconds, now + _within_limit(seconds))


def _recurring(phrase: str, timezone: str) -> Cron | None:
    """Read "every weekday at 8:30" and its like, or None if it is no rhythm."""
    for pattern, question in _VAGUE.items():
        if re.fullmatch(pattern, phrase):
            raise PhraseError(question)
    match = _CLOCK_LAST.fullmatch(phrase) or _CLOCK_FIRST.fullmatch(phrase)
    days = _recurring_days((match["day"] or "") if match else phrase)
    if days is None:
        return None
    if not match:
        raise PhraseError(f'at what time? Write "{phrase} at 9:00"')
    clocks = [_clock(part) for part in re.split(r",? and |, ", match["clock"])]
    if any(clock.kind == "midnight" for clock in clocks) and days != "* * *":
        raise PhraseError("midnight at which end of that day? Write 00:00 or 23:59")
    if len({clock.minute for clock in clocks}) > 1:
        raise PhraseError("times with different minutes need a schedule each")
    hours = ",".join(str(hour) for hour in sorted({clock.hour for clock in clocks}))
    return Cron(f"{clocks[0].minute} {hours} {days}", timezone)


def _recurring_days(text: str) -> str | None:
    """Return the day-of-month, month and weekday fields for "mondays and thursdays" and its like."""
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
    every = rf"(?:every |weekly on |every week on )(?P<names>{_WEEKDAY}s?(?:{separator}{_WEEKDAY}s?)*)"
    plural = rf"(?P<names>{_WEEKDAY}s(?:{separator}{_WEEKDAY}s)*)"
    match = re.fullmatch(every, text) or re.fullmatch(plural, text)
    if not match:
        return None
    numbers = sorted({_weekday(name) for name in re.split(separator, match["names"])})
    return "* * " + ",".join(str(number) for number in numbers)


def _month_fields(text: str) -> str | None:
    if re.fullmatch(r"(?:every )?last day of month|(?:month|monthly) on last day", text):
        return "L * *"
    nth = rf"(?P<nth>{'|'.join(_ORDINALS)}|last)"
    if match := re.fullmatch(rf"(?:every )?{nth} (?P<name>{_WEEKDAY}) of month", text):
        weekday = _weekday(match["name"])
        return f"* * {weekday}L" if match["nth"] == "last" else f"* * {weekday}#{_ORDINALS[match['nth']]}"
    day = rf"(?P<day>{_NTH}|first)"
    if match := re.fullmatch(rf"{day} of month", text) or re.fullmatch(rf"(?:month|monthly) on {day}", text):
        return f"{1 if match['day'] == 'first' else _number(match['day'])} * *"
    return None


def _year_fields(text: str) -> str | None:
    match = re.fullmatch(r"(?:every year on |yearly on |annually on |every )(?P<date>.+)", text)
    named = _NAMED_DATE.fullmatch(match["date"]) if match else None
    if not named or named["year"]:
        return None
    return f"{_number(named['day'] or named['day2'])} {_month(named['month'] or named['month2'])} *"
