"""Phrases, ISO times and delays that mean a moment: "tomorrow at 9am", "2 hours ago", "1d2h"."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial

from schedules.when.durations import HORIZON, TICK, add_months
from schedules.when.grammar import (
    CLOCK_FIRST,
    CLOCK_LAST,
    DAY_AND_MONTH,
    MAX_LENGTH,
    MOMENT_EXAMPLES,
    NTH,
    UNITS,
    WEEKDAY,
    Clock,
    NotUnderstoodError,
    PhraseError,
    TooFarError,
    clean,
    read_amounts,
    read_clock,
    read_day_and_month,
    read_ordinal,
    seconds_of,
    understood,
    weekday_number,
    within_limit,
)
from schedules.when.suggestions import not_understood
from schedules.when.triggers import TriggerError, load_zone

__all__ = ["MAX_LENGTH", "NotUnderstoodError", "PhraseError", "TooFarError", "parse_delay", "parse_moment"]

_ISO = re.compile(r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?P<offset>z|[+-]\d\d:?\d\d)?")
_DELAY = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?")
_ZERO = re.compile(r"0+(?:\.0+)?s?")
# fromisoformat() also accepts 15 and 15:00+01:00.
_CLOCK_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
_NUMERIC_DATE = re.compile(
    r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4})"
)
_NAMED_DATE = re.compile(rf"{DAY_AND_MONTH}(?:,? (?P<year>\d{{4}}))?")
_DATE_WITHOUT_YEAR = re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.")
_DATE_WITH_WEEKDAY = re.compile(rf"(?P<name>{WEEKDAY}),? (?P<date>\d.*|(?:the )?\d.*|[a-z]+ \d.*)")
_WEEKS_FROM = re.compile(
    rf"(?P<amounts>\S+ \S+) from (?P<day>today|tomorrow|(?:the )?day after tomorrow|{WEEKDAY})|(?P<weekday>{WEEKDAY}) week"
)
_DATE_OF_MONTH = re.compile(
    rf"(?P<which>next|this) month,? on (?:the )?(?P<day>{NTH})|(?:the )?(?P<day2>{NTH}) of (?P<which2>next|this) month"
)
_SLASHED_DATE = re.compile(r"(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>\d{4})")

_BARE_HOUR = re.compile(
    rf"(?P<day>(?:the )?(?:day after )?tomorrow|yesterday|(?:next |this |last )?{WEEKDAY}|\d{{4}}-\d\d-\d\d),? "
    r"(?P<clock>\d{1,2})"
)
# When a day is named without a time.
_DEFAULT_CLOCK, _TONIGHT = Clock(9, 0), Clock(20, 0)
_AT_ONCE = timedelta(seconds=1)
_PAST_EXAMPLES = 'Try "yesterday at 9:00", "2 hours ago", "sunday 18:00" or "2026-11-14 18:00"'
_DAY_EXAMPLES = 'Try "tomorrow", "friday", "24 december" or "2026-12-24"'
_DELAY_EXAMPLES = 'Try "2h30m", "90m" or "1d2h30m10s"'


def parse_moment(
    text: str,
    *,
    now: datetime,
    timezone: str,
    past: bool = False,
    has_horizon: bool = True,
    may_be_day: bool = False,
) -> datetime:
    """Return the moment a phrase or an ISO time means, in the zone.

    A naive time is in the zone; if clocks show it twice, it is the first of the two that is still ahead. With `past`,
    the text names a moment before now: "sunday 9:00" is last Sunday, a bare day is its start, and "2 hours ago" is
    understood. A schedule may not lie beyond the horizon; pass `has_horizon=False` for the bounds of a search. A date
    like 2026-12-24 is the start of that day; "monday" is Monday at 09:00, or with `may_be_day` the start of Monday.
    """
    examples = _PAST_EXAMPLES if past else MOMENT_EXAMPLES
    phrase = clean(text, examples)
    read = partial(
        read_moment, now=now, timezone=timezone, past=past, has_horizon=has_horizon, may_be_day=may_be_day
    )
    moment: datetime = understood(phrase, read, partial(not_understood, "date and time"))
    return moment


def parse_past(text: str, *, now: datetime, timezone: str) -> datetime | date:
    """Return the past moment that a text means, or the day if it names only a day."""
    moment = parse_moment(text, now=now, timezone=timezone, past=True, has_horizon=False)
    today = now.astimezone(load_zone(timezone)).date()
    with suppress(PhraseError):
        days = _days(clean(text, _PAST_EXAMPLES), today, past=True)
        return next((day for day in days if day <= today), days[0])
    return moment


def parse_end(text: str, *, now: datetime, timezone: str) -> datetime:
    """Return the end that a phrase or an ISO time means, in the zone; a bare day is included as a whole."""
    if not clean(text, MOMENT_EXAMPLES).startswith("in "):
        with suppress(NotUnderstoodError):
            return end_of_day(parse_day(text, now=now, timezone=timezone), timezone)
    return parse_moment(text, now=now, timezone=timezone, has_horizon=False)


def end_of_day(day: date, timezone: str) -> datetime:
    """Return the last moment of a day in a zone; clocks may show it twice."""
    zone = load_zone(timezone)
    try:
        following = _beginning(day + timedelta(days=1), zone)
    except OverflowError:
        # The last day of the calendar.
        return datetime.combine(day, time.max, zone)
    return (following.astimezone(UTC) - TICK).astimezone(zone)


def read_moment(
    phrase: str,
    *,
    now: datetime,
    timezone: str,
    past: bool = False,
    has_horizon: bool = True,
    may_be_day: bool = False,
) -> datetime:
    """Return the moment that a cleaned phrase means; NotUnderstoodError may have no message."""
    try:
        moment = _moment(phrase, now.astimezone(load_zone(timezone)), past=past, may_be_day=may_be_day)
    except TriggerError as error:
        raise PhraseError(str(error)) from error
    except OverflowError as error:
        raise TooFarError from error
    if has_horizon and moment - now > HORIZON:
        raise TooFarError
    return moment


def parse_day(text: str, *, now: datetime, timezone: str) -> date:
    """Return the day that a text like "2026-12-24", "tomorrow" or "24 december" means, not before today."""
    today = now.astimezone(load_zone(timezone)).date()
    try:
        days = _days(clean(text, _DAY_EXAMPLES), today, past=False)
    except NotUnderstoodError as error:
        raise NotUnderstoodError(str(error) or "couldn't read that day. Write it as YYYY-MM-DD") from error
    return next((day for day in days if day >= today), days[0])


def parse_delay(text: str) -> timedelta:
    """Return the elapsed time that a text like "1d2h30m10s" means."""
    delay = _delay(clean(text, _DELAY_EXAMPLES))
    if delay is None:
        # An example would change the amount that was written.
        example = (
            "Write it as days, hours, minutes and seconds" if re.search(r"\d", text) else _DELAY_EXAMPLES
        )
        raise PhraseError(f"couldn't read that duration. {example}")
    return delay


def parse_amount(text: str) -> timedelta:
    """Return the elapsed time of "1h30m", or of words like "ten minutes"."""
    if amounts := read_amounts(clean(text, _DELAY_EXAMPLES).removesuffix(" from now")):
        return within_limit(seconds_of(amounts))
    return parse_delay(text)


def parse_span(text: str) -> timedelta:
    """Return the duration that a text means, which may be zero."""
    return timedelta(0) if _ZERO.fullmatch(text.strip()) else parse_amount(text)


def parse_clock_time(text: str) -> time | None:
    """Return the time of day of "8:30" or "15:00:00", or None."""
    with suppress(ValueError):
        if _CLOCK_TIME.fullmatch(text):
            return time.fromisoformat(f"0{text}" if text[1] == ":" else text)
    return None


def _delay(phrase: str) -> timedelta | None:
    match = _DELAY.fullmatch(phrase)
    return within_limit(sum(int(n) * UNITS[u] for u, n in match.groupdict("0").items())) if match else None


def _moment(phrase: str, now: datetime, *, past: bool, may_be_day: bool) -> datetime:
    if match := _ISO.fullmatch(phrase):
        return _iso_moment(phrase, now, has_offset=bool(match["offset"]), past=past)
    if phrase == "now":
        # A second later, because a schedule must lie ahead.
        return now if past else _later(now, _AT_ONCE)
    if delay := _delay(phrase):
        return _later(now, -delay if past else delay)
    if amounts := read_amounts(phrase.removeprefix("in ").removesuffix(" from now")):
        is_ago = past and not phrase.startswith("in ") and not phrase.endswith(" from now")
        return _after_amounts(now, amounts, sign=-1 if is_ago else 1)
    match = CLOCK_LAST.fullmatch(phrase) or CLOCK_FIRST.fullmatch(phrase) or _BARE_HOUR.fullmatch(phrase)
    if match:
        return _on_day(match["day"], read_clock(match["clock"]), now, past=past)
    if not past and (may_be_day or _NUMERIC_DATE.fullmatch(phrase)):
        beginnings = [_beginning(day, now.tzinfo) for day in _days(phrase, now.date(), past=False)]
        return next((moment for moment in beginnings if moment > now), beginnings[0])
    if not past:
        if phrase == "today":
            raise PhraseError('at what time? Write "today at HH:MM"')
        return _on_day(phrase, _TONIGHT if phrase == "tonight" else _DEFAULT_CLOCK, now, past=False)
    if phrase.endswith(" ago") and (amounts := read_amounts(phrase.removesuffix(" ago"))):
        return _after_amounts(now, amounts, sign=-1)
    beginnings = [_beginning(day, now.tzinfo) for day in _days(phrase, now.date(), past=True)]
    return next((moment for moment in beginnings if moment <= now), beginnings[0])


def _iso_moment(phrase: str, now: datetime, *, has_offset: bool, past: bool) -> datetime:
    try:
        moment = datetime.fromisoformat(phrase.upper())
    except ValueError as error:
        raise NotUnderstoodError("that date or time doesn't exist") from error
    if has_offset:
        return moment.astimezone(now.tzinfo)
    return _local(moment.date(), moment.time(), now, past=past)


def _later(now: datetime, delay: timedelta) -> datetime:
    return (now.astimezone(UTC) + delay).astimezone(now.tzinfo)


def _after_amounts(now: datetime, amounts: dict[str, int], *, sign: int = 1) -> datetime:
    """Add or subtract days on the calendar, so that the time of day stays, and the rest as elapsed time."""
    within_limit(seconds_of(amounts))
    clock = {unit: number for unit, number in amounts.items() if unit in "hms"}
    if clock != amounts:
        calendar = {unit: number for unit, number in amounts.items() if unit not in clock}
        day = now.date() + sign * timedelta(seconds=seconds_of(calendar))
        now = _local(day, now.time(), now, past=sign < 0)
    return _later(now, sign * timedelta(seconds=seconds_of(clock)))


def _on_day(day: str | None, clock: Clock, now: datetime, *, past: bool) -> datetime:
    if day == "tonight":
        day, clock = "today", _tonight(clock)
    days = _days(day, now.date(), past=past)
    # On another day, 6 to 12 is the morning: people who mean the evening write it.
    if clock.kind == "bare" and not (day not in (None, "today") and 6 <= clock.hour <= 12):
        raise clock.question()
    if clock.kind == "midnight" and day:
        raise PhraseError("midnight at the start or the end of that day? Write 00:00 or 23:59")
    at = time(clock.hour, clock.minute)
    suitable = [day for day in days if (_readings(day, at, now.tzinfo)[0 if past else 1] <= now) == past]
    return _local((suitable or days)[0], at, now, past=past)


def _tonight(clock: Clock) -> Clock:
    if clock.hour >= 17:
        return clock
    if 5 <= clock.hour <= 11 and clock.is_open:
        return Clock(clock.hour + 12, clock.minute)
    raise PhraseError('"tonight" is from 17:00 to 23:59. Write the day and the time')


def _days(text: str | None, today: date, *, past: bool) -> list[date]:
    """Return the days a text may mean, the most likely first; the caller chooses one in the future or in the past."""
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
    if past and (match := re.fullmatch(rf"(?P<which>last )?(?P<name>{WEEKDAY})", text)):
        return _past_weekday_dates(match["name"], match["which"], today)
    if match := re.fullmatch(rf"(?P<which>next |this )?(?P<name>{WEEKDAY})", text):
        return _weekday_dates(match["name"], match["which"], today)
    if match := _WEEKS_FROM.fullmatch(text):
        return _days_from(match, today)
    if match := _DATE_OF_MONTH.fullmatch(text):
        first = add_months(
            datetime.combine(today.replace(day=1), time()),
            1 if "next" in (match["which"], match["which2"]) else 0,
        )
        return [_date(first.year, first.month, read_ordinal(match["day"] or match["day2"]))]
    if text.startswith("in ") and (amounts := read_amounts(text[3:])) and set(amounts) <= {"w", "d"}:
        return [today + within_limit(seconds_of(amounts))]
    if match := _NUMERIC_DATE.fullmatch(text):
        year, month, day = (int(match[key] or match[f"{key}2"]) for key in "ymd")
        return [_date(year, month, day)]
    if match := _NAMED_DATE.fullmatch(text):
        return _named_dates(match, today, past=past)
    if match := _DATE_WITHOUT_YEAR.fullmatch(text):
        return _dates_of_year(int(match["month"]), int(match["day"]), today, past=past)
    if match := _DATE_WITH_WEEKDAY.fullmatch(text):
        return _on_weekday(match["name"], _days(match["date"], today, past=past), today)
    if match := _SLASHED_DATE.fullmatch(text):
        raise PhraseError(_which_slashed_date(int(match["first"]), int(match["second"]), match["year"]))
    raise NotUnderstoodError


def _days_from(match: re.Match[str], today: date) -> list[date]:
    """Return the day that "a week from monday" or "friday week" means."""
    day, amounts = match["day"] or match["weekday"], read_amounts(match["amounts"] or "1 week")
    if not amounts or not set(amounts) <= {"w", "d"}:
        raise NotUnderstoodError
    shift = within_limit(seconds_of(amounts))
    if weekdays := re.fullmatch(WEEKDAY, day):
        nearest, following = _weekday_dates(weekdays[0], None, today)
        if nearest == today:
            raise PhraseError(
                f'"{match[0]}" could be {nearest + shift} or {following + shift}. Write the date'
            )
        return [nearest + shift]
    return [each + shift for each in _days(day, today, past=False)]


def _on_weekday(name: str, days: list[date], today: date) -> list[date]:
    """Return the days that fall on this weekday; refuse a date that does not."""
    if matching := [day for day in days if day.isoweekday() % 7 == weekday_number(name)]:
        return matching
    likely = next((day for day in days if day >= today), days[0])
    raise PhraseError(f"{likely} is a {likely:%A}. Check the day and the date")


def _which_slashed_date(first: int, second: int, year: str) -> str:
    readings = [f"{year}-{m:02}-{d:02}" for m, d in ((first, second), (second, first)) if m <= 12]
    return f"dates with slashes are read differently around the world. Write {' or '.join(dict.fromkeys(readings)) or 'YYYY-MM-DD'}"


def _past_weekday_dates(name: str, which: str | None, today: date) -> list[date]:
    nearest = today - timedelta(days=(today.isoweekday() - weekday_number(name)) % 7)
    before = nearest - timedelta(days=7)
    return [before] if which and nearest == today else [nearest, before]


def _weekday_dates(name: str, which: str | None, today: date) -> list[date]:
    nearest = today + timedelta(days=(weekday_number(name) - today.isoweekday()) % 7)
    following = nearest + timedelta(days=7)
    if which == "this ":
        return [nearest]
    if which is None or nearest == today:
        return [nearest, following] if which is None else [following]
    if nearest.isocalendar().week == today.isocalendar().week:
        raise PhraseError(f'"next {name}" could be {nearest} or {following}. Write the date')
    return [nearest]


def _named_dates(match: re.Match[str], today: date, *, past: bool) -> list[date]:
    day, month = read_day_and_month(match)
    if match["year"]:
        return [_date(int(match["year"]), month, day)]
    return _dates_of_year(month, day, today, past=past)


def _dates_of_year(month: int, day: int, today: date, *, past: bool) -> list[date]:
    """Return the day in this year, and in the next or the last one."""
    dates = []
    for year in (today.year, today.year + (-1 if past else 1)):
        with suppress(ValueError):
            dates.append(date(year, month, day))
    return dates or [_date(today.year, month, day)]


def _date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError as error:
        raise PhraseError(f"{year}-{month:02}-{day:02} doesn't exist. Check the day and the month") from error


def _local(day: date, at: time, now: datetime, *, past: bool) -> datetime:
    """Return the moment at which clocks show the time, or refuse a time that they skip."""
    first, second = _readings(day, at, now.tzinfo)
    shown = second.astimezone(now.tzinfo)
    if shown.replace(tzinfo=None) != datetime.combine(day, at):
        raise PhraseError(
            f"clocks in {now.tzinfo} skip {at:%H:%M} on {day}. Write {shown:%H:%M} or another time of that day"
        )
    return (second if first <= now < second and not past else first).astimezone(now.tzinfo)


def _beginning(day: date, zone: tzinfo | None) -> datetime:
    """Return the first moment of a day, which is not midnight if clocks skip that."""
    readings = [moment.astimezone(zone) for moment in _readings(day, time(0), zone)]
    # A zone may leave out a whole day.
    return next((moment for moment in readings if moment.date() == day), readings[-1])


def _readings(day: date, at: time, zone: tzinfo | None) -> list[datetime]:
    """Return the two moments that a wall time may mean; they differ only at a clock change."""
    folds = (datetime.combine(day, at.replace(fold=fold), tzinfo=zone) for fold in (0, 1))
    return sorted(moment.astimezone(UTC) for moment in folds)
