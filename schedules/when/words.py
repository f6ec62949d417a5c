"""Schedules in words, as people say them: "Every weekday at 08:30", "On the 1st of every month at 06:00"."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from schedules.when import cron, durations
from schedules.when.cron import LAST, Values
from schedules.when.grammar import MONTHS, WEEKDAYS

_WEEKDAYS = tuple(name.capitalize() for name in WEEKDAYS)
_MONTHS = tuple(name.capitalize() for name in MONTHS)
_NTH = ("first", "second", "third", "fourth", "fifth")
# The largest count that is written in each unit: "Every 90 minutes", but "Every 2 hours and 30 minutes".
_INTERVALS = (
    ("week", 604_800, 999),
    ("day", 86_400, 9999),
    ("hour", 3600, 47),
    ("minute", 60, 119),
    ("second", 1, 119),
)
_AMBIGUOUS = {86_400: "Every 24 hours", 604_800: "Every 7 days"}
_FEW_TIMES = 3
_LONGEST_LIST = 8


class _Days(NamedTuple):
    """The days of a schedule in words, at the start of a sentence and after "Every 20 minutes"."""

    first: str
    after: str


def describe_once(local: datetime) -> str:
    """Describe a single run by its local time: "Once, on Thu 3 Dec 2026 at 08:30 UTC"."""
    return f"Once, on {local:%a} {_date(local)} at {_clock(local)} {local.tzname()}"


def describe_interval(step: timedelta) -> str:
    """Describe runs that are a fixed time apart: "Every 90 minutes", "Every 2 hours and 30 minutes"."""
    seconds = int(step.total_seconds())
    # "Every day" and "every week" would be read as a schedule with a time of day.
    if seconds in _AMBIGUOUS:
        return _AMBIGUOUS[seconds]
    for unit, size, limit in _INTERVALS:
        if seconds % size == 0:
            if seconds // size <= limit:
                return f"Every {_counted(seconds // size, unit)}"
            break
    parts = durations.in_words(step).split(" ")
    return f"Every {_listed([' '.join(parts[at : at + 2]) for at in range(0, len(parts), 2)])}"


def describe_calendar_interval(count: int, unit: str, first: datetime) -> str:
    """Describe runs some days or months apart: "Every 2 weeks on Tuesday at 09:00, starting 2 Mar 2027"."""
    day, start = "", _date(first)
    if unit == "days" and count % 7 == 0:
        count, unit, day = count // 7, "weeks", f" on {first:%A}"
    elif unit == "days":
        start = f"{first:%a} {start}"
    elif count % 12 == 0:
        count, unit, day = count // 12, "years", f" on {first.day} {first:%B}"
    else:
        day = f" on the {ordinal(first.day)}" + (" or the last day" if first.day > 28 else "")
    return f"Every {_counted(count, unit[:-1])}{day} at {_clock(first)}, starting {start}"


@lru_cache(maxsize=4096)
def describe_cron(expression: str) -> str:
    """Describe a valid cron expression, without its zone: "Every 15 minutes", "Wednesdays at 05:00"."""
    parsed, others, working = cron.parsed(expression)
    days = _days(parsed, working) if others else _on_dates([], working, sorted(parsed.months), has_last=False)
    minutes, hours = sorted(parsed.minutes), sorted(parsed.hours)
    if repetition := _repetition(minutes, hours):
        return f"{repetition}{days.after}"
    return f"{days.first} at {_times(minutes, hours)}"


def _repetition(minutes: list[int], hours: list[int]) -> str:
    """Describe evenly repeated times: "Every 20 minutes, 08:00–18:59"; empty if they are few or uneven."""
    if len(minutes) == 1:
        return _hourly(minutes[0], hours)
    is_even = _step(minutes) is not None and len(_runs(hours)) == 1
    if len(minutes) * len(hours) <= (_FEW_TIMES if is_even else _LONGEST_LIST):
        return ""
    phrase = _minutes_in_words(minutes)
    if len(hours) == 24:
        return phrase
    if len(_runs(hours)) > 1:
        phrase = phrase.replace("Every hour at", "At")
    return f"{phrase}, {_hour_spans(hours)}"


def _hourly(minute: int, hours: list[int]) -> str:
    """Describe one minute of several hours: "Every hour at :30", "Every 2 hours, 09:00–17:00"."""
    step = _step(hours)
    if len(hours) == 24:
        return f"Every hour at :{minute:02}" if minute else "Every hour"
    if not step:
        return ""
    if not hours[0] and not minute and step * len(hours) == 24:
        return f"Every {step} hours"
    if len(hours) <= _FEW_TIMES:
        return ""
    first, last = f"{hours[0]:02}:{minute:02}", f"{hours[-1]:02}:{minute:02}"
    every = f"Every {_counted(step, 'hour')}"
    if hours[0] >= step or hours[-1] + step < 24:
        return f"{every}, {first}–{last}"
    return f"{every}, starting at {first}"


def _minutes_in_words(minutes: list[int]) -> str:
    """Describe several minutes of an hour: "Every 7 minutes, starting on the hour", "Every hour at :05 and :35"."""
    step, first, last = _step(minutes), minutes[0], minutes[-1]
    if not step or (len(minutes) == 2 and step != 30):
        return f"Every hour at {_listed([f':{minute:02}' for minute in minutes])}"
    every = f"Every {_counted(step, 'minute')}"
    if first >= step or last + step < 60:
        return f"{every} from :{first:02} to :{last:02} of every hour"
    if first:
        return f"{every}, starting at :{first:02}"
    return f"{every}, starting on the hour" if 60 % step else every


def _hour_spans(hours: list[int]) -> str:
    """Describe the hours in which something repeats: "08:00–18:59", "in every 2nd hour, 00:00–22:59"."""
    step = _step(hours)
    if step and step > 1 and len(hours) > _FEW_TIMES:
        return f"in every {ordinal(step)} hour, {hours[0]:02}:00–{hours[-1]:02}:59"
    spans = [f"{low:02}:00–{high:02}:59" for low, high in _runs(hours)]
    return _listed(spans)


def _times(minutes: list[int], hours: list[int]) -> str:
    return _listed([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])


def _days(parsed: Values, working: Sequence[str]) -> _Days:
    """Describe the days that the last three fields match, and working days like 15W."""
    dates = {day for day in parsed.days if day != LAST}
    has_last = LAST in parsed.days
    all_dates = len(dates) == 31
    plain = sorted({day % 7 for day in parsed.weekdays if isinstance(day, int)})
    nths = sorted({(day[0] % 7, day[1]) for day in parsed.weekdays if isinstance(day, tuple)})
    all_weekdays = len(plain) == 7
    months = sorted(parsed.months)
    if (all_dates and all_weekdays) or (not parsed.is_and and (all_dates or all_weekdays)):
        return _every_day(months)
    if all_dates:
        return _on_weekdays(plain, nths, months)
    on_dates = _on_dates(sorted(dates), working, months, has_last=has_last)
    if all_weekdays:
        return on_dates
    if parsed.is_and:
        condition = f", if it is {_alternatives(plain, nths)}"
        return _Days(f"{on_dates.first}{condition},", on_dates.after + condition)
    weekdays = _on_weekdays(plain, nths, months).first
    on = "on " if weekdays.startswith(("Weekends", *(f"{name}s" for name in _WEEKDAYS))) else ""
    also = f" and also {on}{weekdays if on else _lower(weekdays)}"
    return _Days(on_dates.first + also, on_dates.after + also)


def _every_day(months: list[int]) -> _Days:
    span = _months_in_words(months)
    return _Days(f"Every day{span and f' {span}'}", span and f", {span}")


def _on_weekdays(days: list[int], nths: list[tuple[int, int]], months: list[int]) -> _Days:
    """Describe weekdays, and weekdays counted within a month like the first Monday."""
    span = _months_in_words(months)
    named = f"{_weekday_names(days)}{span and f' {span}'}" if days else ""
    if not nths:
        short = f", {_short_weekdays(days)}{span and f', {span}'}"
        return _Days(named, short)
    within = f"of {_month_names(months)}" if span else "of every month"
    counted = f"on the {_nth_names(nths)} {within}"
    text = f"{named} and {counted}" if named else counted
    return _Days(text[0].upper() + text[1:], f", {_lower(text)}")


def _on_dates(dates: list[int], working: Sequence[str], months: list[int], *, has_last: bool) -> _Days:
    """Describe days of the month: "On the 1st and 15th of every month", "Every year on 24 December"."""
    step = _step(dates)
    is_plain = not (has_last or working)
    if len(months) == 1 and dates and is_plain and len(dates) <= _FEW_TIMES:
        month = _MONTHS[months[0] - 1]
        if (dates, months) == ([29], [2]):
            return _Days("On 29 February of leap years", ", on 29 February of leap years")
        text = f"on {_listed([str(day) for day in dates])} {month}"
        return _Days(f"Every year {text}", f", {text}")
    within = f"of {_month_names(months)}" if len(months) < 12 else "of every month"
    is_long = len(dates) > _FEW_TIMES
    if is_long and step and step > 1 and is_plain and dates[-1] + step > 31:
        return _capitalised(f"every {step} days from the {ordinal(dates[0])} {within}")
    if is_long and step == 1 and is_plain:
        return _capitalised(f"from the {ordinal(dates[0])} to the {ordinal(dates[-1])} {within}")
    names = [
        f"{ordinal(low)}–{ordinal(high)}" if high > low else ordinal(low)
        for low, high in _runs(dates, shortest=3)
    ]
    names += ["last day"] if has_last else []
    names += [_working_day(term) for term in working]
    return _capitalised(f"on the {_listed(names, limit=12)} {within}")


def _working_day(term: str) -> str:
    """Return "last working day", or "working day nearest the 15th"."""
    special = {"1W": "first working day", "LW": "last working day"}
    return special.get(term) or f"working day nearest the {ordinal(int(term[:-1]))}"


def _capitalised(text: str) -> _Days:
    return _Days(text[0].upper() + text[1:], f", {text}")


def _months_in_words(months: list[int]) -> str:
    """Return "in December" or "from June to August"; empty for all months."""
    if len(months) == 12:
        return ""
    runs = _runs(months, shortest=3)
    if len(runs) == 1 and len(months) > 1 and runs[0][1] > runs[0][0]:
        return f"from {_MONTHS[runs[0][0] - 1]} to {_MONTHS[runs[0][1] - 1]}"
    return f"in {_month_names(months)}"


def _month_names(months: list[int]) -> str:
    names = [_MONTHS[month - 1] for month in months]
    if len(names) > _FEW_TIMES and _step(months) == 1:
        return f"every month from {names[0]} to {names[-1]}"
    return _listed(names if len(names) <= 4 else [name[:3] for name in names], limit=12)


def _weekday_names(days: list[int]) -> str:
    """Return "Every weekday", "Tuesday to Thursday" or "Mondays and Fridays"."""
    if days == [1, 2, 3, 4, 5]:
        return "Every weekday"
    if days == [0, 6]:
        return "Weekends"
    if len(days) == 6 and days not in ([1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5]):
        return f"Every day except {next(name for day, name in enumerate(_WEEKDAYS) if day not in days)}"
    ordered = _from_monday(days)
    if span := _weekday_span(ordered):
        return f"{_WEEKDAYS[span[0]]} to {_WEEKDAYS[span[1]]}"
    return _listed([f"{_WEEKDAYS[day]}s" for day in ordered])


def _short_weekdays(days: list[int]) -> str:
    """Return "Mon–Fri", "Sat and Sun" or "on Wednesdays", for the end of a sentence."""
    ordered = _from_monday(days)
    if len(days) == 1:
        return f"on {_WEEKDAYS[days[0]]}s"
    if span := _weekday_span(ordered):
        return f"{_WEEKDAYS[span[0]][:3]}–{_WEEKDAYS[span[1]][:3]}"
    return _listed([_WEEKDAYS[day][:3] for day in ordered])


def _weekday_span(ordered: list[int]) -> tuple[int, int] | None:
    """Return the ends of at least three days in a row, in a week that starts on Monday or on Sunday."""
    for days in (ordered, sorted(ordered)):
        places = [day % 7 if days is not ordered else (day - 1) % 7 for day in days]
        if len(days) >= 3 and _step(places) == 1:
            return days[0], days[-1]
    return None


def _from_monday(days: list[int]) -> list[int]:
    return sorted(days, key=lambda day: (day - 1) % 7)


def _nth_names(nths: list[tuple[int, int]]) -> str:
    """Return "first Monday", or "first and third Monday and last Friday"."""
    names = []
    for day in _from_monday(sorted({day for day, _ in nths})):
        places = sorted((nth for other, nth in nths if other == day), key=lambda nth: (nth < 0, nth))
        ordinals = ["last" if place == LAST else _NTH[place - 1] for place in places]
        names.append(f"{_listed(ordinals)} {_WEEKDAYS[day]}")
    return _listed(names)


def _alternatives(days: list[int], nths: list[tuple[int, int]]) -> str:
    """Return "a Monday or Friday", for days that must match a date as well."""
    names = [_WEEKDAYS[day] for day in _from_monday(days)]
    alternatives = [f"a {_listed(names, last=' or ')}"] if names else []
    return " or ".join([*alternatives, *([f"the {_nth_names(nths)} of the month"] if nths else [])])


def _step(values: Sequence[int]) -> int | None:
    """Return the distance between the values if it is the same everywhere, else None."""
    gaps = {later - earlier for earlier, later in pairwise(values)}
    return gaps.pop() if len(gaps) == 1 else None


def _runs(values: list[int], shortest: int = 2) -> list[tuple[int, int]]:
    """Group consecutive values as (first, last); groups shorter than the minimum stay single values."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return [
        pair
        for run in runs
        for pair in ([(run[0], run[-1])] if len(run) >= shortest else [(value, value) for value in run])
    ]


def _listed(items: list[str], *, last: str = " and ", limit: int = _LONGEST_LIST) -> str:
    """Join words: "a, b and c"; a long list is cut."""
    if len(items) > limit:
        items = [*items[:5], f"{len(items) - 5} more"]
    return durations.listed(items, last)


def _counted(count: int, unit: str) -> str:
    return unit if count == 1 else f"{count} {unit}s"


def ordinal(number: int) -> str:
    """Return an ordinal number: "1st", "22nd"."""
    suffixes = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in {11, 12, 13} else suffixes.get(number % 10, 'th')}"


def _lower(text: str) -> str:
    """Return a text with a lower-case first letter, unless it starts with the name of a day."""
    return text if text.startswith(_WEEKDAYS) else text[0].lower() + text[1:]


def _date(moment: datetime) -> str:
    return f"{moment.day} {moment:%b %Y}"


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
