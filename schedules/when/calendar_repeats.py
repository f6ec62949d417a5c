"""Phrases that repeat some days, weeks or months apart: "every other monday at 9", "every 3 months on the 1st"."""

import re
from datetime import date, datetime, time, timedelta

from schedules.when.months import add_months
from schedules.when.phrases import read_moment
from schedules.when.repeated_days import read_clocks, split_clocks
from schedules.when.triggers import CalendarInterval, load_zone
from schedules.when.vocabulary import (
    NTH,
    NUMBER,
    WEEKDAY,
    Clock,
    PhraseError,
    read_amounts,
    read_count,
    read_number,
    weekday_number,
)
from schedules.when.zones import first_pass, wall_time

_WEEKS = re.compile(
    rf"every (?:(?P<weeks>\S+) weeks? on (?P<name>{WEEKDAY})s?|(?P<count>\d+) (?P<name2>{WEEKDAY})s?)"
)
_DAYS = re.compile(r"every (?P<amounts>\S+ (?:days?|weeks?))")
_MONTHS = re.compile(rf"every (?P<count>{NUMBER}) months? on (?:the )?(?P<day>{NTH}|first)(?: day)?")

# Only a full date and time: a file, which may contain this phrase, means the same whenever it is applied.
_STARTING = re.compile(
    r"every (?P<count>\d{1,4}) (?P<unit>day|week|month)s?,? starting (?P<start>\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d)?)"
)


def phrase_of(trigger: CalendarInterval) -> str:
    """Return the phrase that is read as this trigger, without fractions of a second in its start."""
    count, unit = trigger.count, trigger.unit
    if unit == "days" and count % 7 == 0:
        count, unit = count // 7, "weeks"
    start = wall_time(trigger.start, load_zone(trigger.timezone))
    shown = start.isoformat(" ", "seconds" if start.second else "minutes")
    return f"every {count} {unit if count > 1 else unit[:-1]}, starting {shown}"


def read_calendar_repeat(phrase: str, now: datetime, timezone: str) -> CalendarInterval | None:
    """Read a repetition that has a start, or starts on the first day and time that fit; None for other phrases."""
    if match := _STARTING.fullmatch(phrase):
        step, unit = int(match["count"]), "months" if match["unit"] == "month" else "days"
        start = read_moment(match["start"], now=now, timezone=timezone)
        return CalendarInterval(step * 7 if match["unit"] == "week" else step, unit, start, timezone)
    text, times = split_clocks(phrase, lambda days: bool(_WEEKS.fullmatch(days) or _DAYS.fullmatch(days)))
    text = text.replace("each ", "every ", 1)
    zone = load_zone(timezone)
    wall = wall_time(now, zone)
    if match := _WEEKS.fullmatch(text):
        weeks = int(match["count"]) if match["count"] else _count(f"{match['weeks']} weeks") // 7
        weekday = weekday_number(match["name"] or match["name2"])
        first = wall.date() + timedelta(days=(weekday - wall.isoweekday()) % 7)
        step, unit, days = weeks * 7, "days", [first, first + timedelta(days=7)]
    elif match := _MONTHS.fullmatch(text):
        step, unit, days = (
            read_count(match["count"]),
            "months",
            _days_of_month(wall.date(), 1 if match["day"] == "first" else read_number(match["day"])),
        )
    elif match := _DAYS.fullmatch(text):
        step, unit = _count(match["amounts"]), "days"
        days = [wall.date(), wall.date() + timedelta(days=1)]
    else:
        return None
    if not step or step == 1:
        return None
    clock = _only(read_clocks(times))
    runs = (datetime.combine(day, time(clock.hour, clock.minute)) for day in days)
    first = next(run for run in runs if first_pass(run, zone) > now)
    start = first_pass(first, zone)
    if wall_time(start, zone) != first:
        # Clocks skip the time of the first run. The ones after it are not to run later for ever, so count from the one
        # before.
        start = first_pass(first - timedelta(days=step) if unit == "days" else add_months(first, -step), zone)
    return CalendarInterval(step, unit, start, timezone)


def _count(text: str) -> int:
    """Return the days that "2 weeks" or "three days" means; 0 if it is something else."""
    amounts = read_amounts(text) or {}
    return (
        amounts.get("w", 0) * 7 + amounts.get("d", 0)
        if text.endswith(("day", "days")) or "w" in amounts
        else 0
    )


def _only(clocks: list[Clock]) -> Clock:
    if len(clocks) > 1:
        raise PhraseError("enter one time only for this schedule")
    return clocks[0]


def _days_of_month(today: date, day: int) -> list[date]:
    """Return the next two months' days of that number, this month's included."""
    if not 1 <= day <= 28:
        raise PhraseError('choose a day from 1 to 28, or try "on the last day of every month at 17:00"')
    first = today.replace(day=1)
    later = (first + timedelta(days=32)).replace(day=1)
    return [first.replace(day=day), later.replace(day=day)]
