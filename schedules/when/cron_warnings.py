"""Warnings about schedules that may surprise: uneven steps, missing days, clock changes."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from schedules.when import cron
from schedules.when.durations import TICK, listed
from schedules.when.words import ordinal
from schedules.when.zones import clock_changes

_LOOK_AHEAD = timedelta(days=400)
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# What a clock change does to a run; the key says whether the job's time of day is fixed.
_SKIPPED = {True: "the job runs at {end}", False: "the job doesn't run then"}
_REPEATED = {True: "the job runs the first time only", False: "the job runs both times"}


def cron_warnings(expression: str, timezone: str, after: datetime | None) -> list[str]:
    """List warnings about an expression; those about clock changes only if `after` is given."""
    fields = cron.split(expression)
    warnings = [*_day_warnings(fields), *_step_warnings(fields), *_month_warnings(fields)]
    if after is not None:
        warnings += _clock_warnings(fields, timezone, after)
    return warnings


def _open_step(term: str, field: cron.Field) -> tuple[int, int] | None:
    """Return the first value and the step of a term like */15 or 0/15."""
    match = re.fullmatch(r"(\*|[0-9]+)/([0-9]+)", term)
    return (field.low if match[1] == "*" else int(match[1]), int(match[2])) if match else None


def clock_warning(wall: datetime, timezone: str, effect: str, *, is_forward: bool) -> str:
    """Describe what a clock change does to a run at a wall time that is skipped or repeated."""
    way, happens = ("forward", "is skipped") if is_forward else ("back", "happens twice")
    return f"On {wall.day} {wall:%b %Y} clocks in {timezone} go {way}: {wall:%H:%M} {happens}, and {effect}."


def _day_warnings(fields: list[str]) -> list[str]:
    day, weekday = fields[2], fields[4]
    if "*" in {day, weekday}:
        return []
    if day.startswith("*") or weekday.startswith("*"):
        return ["The day of the month and the weekday must both match, because one of them starts with *."]
    return ["Day of the month and weekday are both set, so the job runs on days that match either of them."]


def _step_warnings(fields: list[str]) -> list[str]:
    """Warn about steps that do not divide their cycle evenly."""
    warnings = []
    for field, value in zip(cron.FIELDS, fields, strict=True):
        for term in value.split(","):
            first, step = _open_step(term, field) or (0, 1)
            if step > 1 and (field.size % step or field.cycle == "month"):
                values = _values_of(field, first, step)
                warnings.append(f"{term} restarts every {field.cycle}: it runs at {values}.")
    return warnings


def _values_of(field: cron.Field, first: int, step: int) -> str:
    """List the values of a step: "minute :00 and :45"."""
    pattern = ":{:02}" if field.cycle == "hour" else "{}"
    values = [pattern.format(number) for number in range(first, field.low + field.size, step)]
    return f"{field.name} {listed(values)}"


def _month_warnings(fields: list[str]) -> list[str]:
    """Warn about days that only some months have."""
    months = cron.months_of(fields)
    starts = [int(match[0]) for term in fields[2].split(",") if (match := re.match(r"[0-9]+", term))]
    missing = [day for day in starts if any(day > _DAYS_IN_MONTH[month - 1] for month in months)]
    if not missing:
        return []
    if months == {2}:
        return ["29 February exists only in leap years."]
    last = "working day of every month, use LW" if "W" in fields[2] else "day of every month, use L"
    return [f"Months without a {ordinal(max(missing))} are skipped. For the last {last}."]


def _clock_warnings(fields: list[str], timezone: str, after: datetime) -> list[str]:
    joined = " ".join(fields)

    def run_between(first: datetime, last: datetime) -> datetime | None:
        match = cron.next_wall(joined, first - TICK)
        return match if match and match < last else None

    is_hourly = fields[1] == "*"
    return [] if is_hourly else clock_warnings(timezone, after, run_between, is_fixed=cron.is_fixed(fields))


def clock_warnings(
    timezone: str,
    after: datetime,
    run_between: Callable[[datetime, datetime], datetime | None],
    *,
    is_fixed: bool,
) -> list[str]:
    """Warn about the next run that a clock change skips and the next one that it repeats.

    `run_between` returns the first run from one wall time to before another.
    """
    warnings: dict[bool, str] = {}
    for change in clock_changes(ZoneInfo(timezone), after, after + _LOOK_AHEAD):
        run = run_between(*sorted((change.old, change.new)))
        if run is None or change.is_forward in warnings:
            continue
        effects = _SKIPPED if change.is_forward else _REPEATED
        effect = effects[is_fixed].format(end=f"{change.new:%H:%M}")
        warnings[change.is_forward] = clock_warning(run, timezone, effect, is_forward=change.is_forward)
    return list(warnings.values())
