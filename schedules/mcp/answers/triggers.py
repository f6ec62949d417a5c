"""The schedule of a job as the `trigger_config` that tools take."""

from datetime import timedelta
from typing import Any

from schedules.mcp import answers
from schedules.models.triggers import CalendarUnit, TriggerType
from schedules.when import durations

# Units of elapsed time; days and weeks with a start would step on the wall clock.
_UNITS = {"hours": timedelta(hours=1), "minutes": timedelta(minutes=1), "seconds": timedelta(seconds=1)}


def trigger_config_of(job: Any) -> dict[str, Any]:
    """Return the trigger_config that makes the schedule of a job, or of a row with its columns, again."""
    config = _undelayed_config_of(job)
    return {**config, "spread": durations.typed(job.spread)} if job.spread else config


def _undelayed_config_of(job: Any) -> dict[str, Any]:
    match job.trigger_type:
        case TriggerType.ONCE:
            return {"run_at": answers.iso(job.run_at, job.timezone, "auto")}
        case TriggerType.CRON:
            return {"expression": job.cron}
    start = {"start": answers.iso(job.anchor_at, job.timezone, "auto")} if job.anchor_at else {}
    if job.calendar_unit:
        count = job.every // CalendarUnit(job.calendar_unit).length
        if job.calendar_unit == CalendarUnit.DAYS and count % 7 == 0:
            return {"weeks": count // 7, **start}
        return {job.calendar_unit: count, **start}
    for unit, length in _UNITS.items():
        if not job.every % length:
            return {unit: job.every // length, **start}
    return {"seconds": job.every.total_seconds(), **start}
