"""Descriptions of cron expressions, and warnings about surprising ones."""

import re
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim
from cronsim.explain import explain

from schedules.when import cron
from schedules.when.zones import clock_changes

_LOOK_AHEAD = timedelta(days=400)
_TICK = timedelta(microseconds=1)
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# What a clock change does to a run, by whether the job's time of day is fixed.
_SKIPPED = {True: "that run comes at {end}.", False: "there is no run then."}
_DOUBLED = {True: "it runs once, the first time.", False: "it runs both times."}


@lru_cache(maxsize=4096)
def describe_cron(expression: str) -> str:
    """Describe a cron expression: "Every 15 minutes", "Every day at 09:00"."""
    fields = cron.split(expression)
    return _simple_words(fields) or _explained(fields) or expression


def cron_warnings(expression: str, timezone: str, after: datetime | None) -> list[str]:
    """List warnings about an expression; those about clock changes only if `after` is given."""
    fields = cron.split(expression)
    found = [*_day_warnings(fields), *_step_warnings(fields), *_month_warnings(fields)]
    if after is not None:
        found += _clock_warnings(fields, timezone, after)
    return found


def _simple_words(fields: list[str]) -> str | None:
    """Describe the most common expressions better than cronsim does."""
    minute, hour, *days = fields
    if days != ["*", "*", "*"]:
        return None
    if hour == "*" and minute in {"*", "*/1"}:
        return "Every minute"
    if minute == "0" and hour in {"*", "*/1"}:
        return "Every hour"
    if hour == "*" and (step := _even_step(minute, 60)):
        return f"Every {step} minutes"
    if minute == "0" and (step := _even_step(hour, 24)):
        return f"Every {step} hours"
    if minute.isdigit() and hour.isdigit():
        return f"Every day at {int(hour):02}:{int(minute):02}"
    return None


def _even_step(value: str, size: int) -> int | None:
    step = _star_step(value)
    return step if step and 1 < step < size and size % step == 0 else None


def _star_step(term: str) -> int | None:
    match = re.fullmatch(r"\*/([0-9]+)", term)
    return int(match[1]) if match else None


def _explained(fields: list[str]) -> str | None:
    try:
        text = explain(" ".join(fields))
    except Exception:
        # A description is optional: if anything goes wrong here, the page shows the expression instead.
        return None
    # Only the two day fields are joined like this, and cron means either of them.
    text = text.replace(" and on ", " or on ")
    return re.sub(r"\b([0-9]+)th\b", lambda match: _ordinal(int(match[1])), text)


def _ordinal(number: int) -> str:
    suffixes = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in {11, 12, 13} else suffixes.get(number % 10, 'th')}"


def _day_warnings(fields: list[str]) -> list[str]:
    day, weekday = fields[2], fields[4]
    if "*" in {day, weekday}:
        return []
    if day.startswith("*") or weekday.startswith("*"):
        return ["Day-of-month and weekday must both match here, because one of them starts with *."]
    return ["Day-of-month and weekday are both given: it runs on days that match either of them."]


def _step_warnings(fields: list[str]) -> list[str]:
    """Warn about steps that do not divide their cycle evenly."""
    found = []
    for field, value in zip(cron.FIELDS, fields, strict=True):
        for term in value.split(","):
            step = _star_step(term)
            if step and step > 1 and (field.size % step or field.cycle == "month"):
                found.append(f"{term} starts again every {field.cycle}: it means {_listed(field, step)}.")
    return found


def _listed(field: cron.Field, step: int) -> str:
    """List the values of a step: "minute :00 and :45"."""
    mark = ":{:02}" if field.cycle == "hour" else "{}"
    values = [mark.format(number) for number in range(field.low, field.low + field.size, step)]
    return f"{field.name} {' and '.join(filter(None, [', '.join(values[:-1]), values[-1]]))}"


def _month_warnings(fields: list[str]) -> list[str]:
    """Warn about days that only some months have."""
    months = CronSim(" ".join(fields), cron.REFERENCE).months
    starts = [int(match[0]) for term in fields[2].split(",") if (match := re.match(r"[0-9]+", term))]
    missing = [day for day in starts if any(day > _DAYS_IN_MONTH[month - 1] for month in months)]
    if not missing:
        return []
    if months == {2}:
        return ["29 February comes only in leap years."]
    return [f"Months without a day {max(missing)} are skipped; L means the last day of every month."]


def _clock_warnings(fields: list[str], timezone: str, after: datetime) -> list[str]:
    """Warn about the next run that a clock change skips and the next one that it repeats."""
    if fields[1] == "*":
        return []
    found: dict[bool, str] = {}
    for change in clock_changes(ZoneInfo(timezone), after, after + _LOOK_AHEAD):
        first, last = sorted((change.old, change.new))
        match = cron.next_wall(" ".join(fields), first - _TICK)
        if match is None or match >= last or change.is_forward in found:
            continue
        effect = (_SKIPPED if change.is_forward else _DOUBLED)[cron.is_fixed(fields)]
        verb = "skip" if change.is_forward else "repeat"
        found[change.is_forward] = (
            f"On {match.day} {match:%b %Y} clocks in {timezone} {verb} {match:%H:%M}: "
            + effect.format(end=f"{change.new:%H:%M}")
        )
    return list(found.values())
