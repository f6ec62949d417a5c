"""When, in an agent's words: a trigger type with its configuration, or a moment."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

from schedules.models.triggers import columns_of
from schedules.result import Code, Err, Ok, Result
from schedules.when.cron import NeverRunsError
from schedules.when.phrases import NotUnderstoodError, PhraseError, parse_moment
from schedules.when.triggers import Cron, Interval, Once, Trigger, TriggerError, load_zone

Columns: TypeAlias = dict[str, Any]

KEYS = {"once": ("run_at",), "interval": ("seconds", "minutes", "hours", "days"), "cron": ("expression",)}
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
# Beyond any limit, but still an exact sum: an interval this long is refused further down.
MOST = 10**12


def read_trigger(
    trigger_type: str, config: Mapping[str, Any], timezone: str, now: datetime
) -> Result[Columns]:
    """Turn a trigger type and its configuration into the columns of a job."""
    if trigger_type not in KEYS:
        return refuse("trigger_type", f"Unknown trigger type: {trigger_type[:70]}")
    if unknown := [key for key in config if key not in KEYS[trigger_type]]:
        known = ", ".join(KEYS[trigger_type])
        return refuse("trigger_config", f"unknown key {ascii(unknown[0])[:70]}; {trigger_type} takes {known}")
    try:
        load_zone(timezone)
        match trigger_type:
            case "once":
                trigger: Trigger = Once(_run_at(config, timezone, now))
            case "interval":
                trigger = _every(config, now)
            case _:
                trigger = _expression(config, timezone)
    except TriggerError as error:
        if isinstance(error.__cause__, NeverRunsError):
            return Err(Code.NEVER_RUNS, error.reason, errors={error.field: [error.reason]})
        return refuse(error.field, error.reason)
    return Ok(columns_of(trigger) | {"timezone": timezone})


def read_moment(
    text: str, timezone: str, now: datetime, field: str, *, past: bool = False
) -> Result[datetime]:
    """Read an ISO time or a phrase; a naive time is meant in the zone."""
    try:
        load_zone(timezone)
        return Ok(parse_moment(text, now=now, timezone=timezone, past=past))
    except TriggerError as error:
        return refuse(error.field, error.reason)
    except NotUnderstoodError as error:
        return refuse(field, str(error))
    except PhraseError as error:
        return refuse(field, str(error), hint=str(error))


def refuse(field: str, why: str, *, hint: str = "") -> Err:
    """Refuse one argument; the hint is for a family whose own words would not say why."""
    return Err(Code.INVALID, f"{field}: {why}", errors={field: [why]}, hint=hint)


def _run_at(config: Mapping[str, Any], timezone: str, now: datetime) -> datetime:
    text = config.get("run_at")
    if not isinstance(text, str):
        what = "must be text" if "run_at" in config else "is missing"
        raise TriggerError("trigger_config", f'run_at {what}: write {{"run_at": "2026-02-05T15:00:00"}}')
    try:
        return parse_moment(text, now=now, timezone=timezone)
    except PhraseError as error:
        raise TriggerError("trigger_config", f"run_at: {error}") from error


def _every(config: Mapping[str, Any], now: datetime) -> Interval:
    total: float = 0
    for unit, number in config.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TriggerError("trigger_config", f"{unit} must be a number")
        if not 0 <= number <= MOST:
            raise TriggerError("trigger_config", f"{unit} must be positive and not longer than five years")
        total += number * SECONDS[unit]
    if not total:
        raise TriggerError("trigger_config", 'the interval is zero: write {"minutes": 15}')
    # A tenth of a minute is six seconds, whatever binary fractions make of it.
    return Interval(round(total, 6), now)


def _expression(config: Mapping[str, Any], timezone: str) -> Cron:
    text = config.get("expression")
    if not isinstance(text, str):
        what = "must be text" if "expression" in config else "is missing"
        raise TriggerError("trigger_config", f'expression {what}: write {{"expression": "30 8 * * 1-5"}}')
    return Cron(text, timezone)
