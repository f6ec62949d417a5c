"""Arguments that several tools share: their types and descriptions, and how they are read."""

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from schedules import clock
from schedules.models.triggers import columns_of
from schedules.result import Code, Err, Ok, Result
from schedules.when.cron import NeverRunsError
from schedules.when.durations import HORIZON_IN_WORDS
from schedules.when.phrases import NotUnderstoodError, PhraseError, TooFarError, parse_delay, parse_moment
from schedules.when.triggers import Cron, Interval, Once, Trigger, TriggerError, load_zone

Columns: TypeAlias = dict[str, Any]

KEYS = {"once": ("run_at",), "interval": ("seconds", "minutes", "hours", "days"), "cron": ("expression",)}
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
# Large enough to be refused later, small enough for an exact sum.
MOST = 10**12
EXAMPLES = (
    'Give exactly one of: datetime ("2026-02-05T15:00:00+01:00"); '
    'time with timezone and perhaps date (date "2026-02-05", time "15:00", timezone "Europe/Berlin"); '
    'delay ("1d2h30m10s").'
)

# fromisoformat() also accepts 20260205, 2026-W06-4, 15 and 15:00+01:00.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
PAGE = 100
LONGEST_PAGE = 1000


def _only_numbers(kind: str) -> BeforeValidator:
    """Refuse booleans and strings, which Pydantic would convert: true would cancel task #1."""

    def check(value: Any) -> Any:
        if isinstance(value, bool | str):
            raise PydanticCustomError("number_type", "Input should be a valid {kind}", {"kind": kind})
        return value

    return BeforeValidator(check)


Whole = Annotated[int, _only_numbers("integer")]
Number = Annotated[float, _only_numbers("number")]


def _reference(value: Any) -> Any:
    """Accept a job's number as a number; refuse booleans, which would be the number of a job: true is 1."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise PydanticCustomError("reference_type", "Input should be a valid integer or string")
    return str(value)


Reference = Annotated[str, BeforeValidator(_reference)]
JobId = Annotated[Reference, Field(description="The job's id, #number or exact name.")]
TaskId = Annotated[
    Reference,
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    Field(description="The task's number, id or exact name."),
]
TriggerType = Annotated[
    str,
    Field(description="once, interval or cron.", json_schema_extra={"enum": ["once", "interval", "cron"]}),
]
TriggerConfig = Annotated[
    dict[str, Any],
    Field(
        description='once: {"run_at": "2026-02-05T15:00:00"}. interval: any of seconds, minutes, hours, days, '
        'like {"hours": 1}. cron: {"expression": "0 9 * * 1-5"} (five fields, or a macro like @daily).'
    ),
]
Timezone = Annotated[
    str | None,
    Field(
        description="IANA time zone of the times, like Europe/Berlin. Default: the user's zone; ask if unsure."
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Field(
        description="Any text unique to this request. Repeating it returns the first job instead of creating another."
    ),
]

PageLimit = Annotated[Whole | None, Field(description="Maximum number of results, 1 to 1000. Default: 100.")]
PageOffset = Annotated[
    Whole | None, Field(description="Number of results to skip, to page through a long list.")
]


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
    text: str, timezone: str, now: datetime, field: str, *, past: bool = False, has_horizon: bool = True
) -> Result[datetime]:
    """Read an ISO time or a phrase; a time without an offset is read in the given zone."""
    try:
        load_zone(timezone)
        return Ok(parse_moment(text, now=now, timezone=timezone, past=past, has_horizon=has_horizon))
    except TriggerError as error:
        return refuse(error.field, error.reason)
    except TooFarError as error:
        return Err(Code.TOO_FAR, f"{field}: {error}", errors={field: [str(error)]})
    except NotUnderstoodError as error:
        return refuse(field, str(error))
    except PhraseError as error:
        return refuse(field, str(error), hint=str(error))


def read_one_moment(when: Mapping[str, str], zone: str) -> Result[datetime]:
    """Read a moment given in one of three ways; refuse missing and contradictory arguments."""
    now = clock.now()
    ways = [
        name
        for name, names in {"datetime": {"datetime"}, "time": {"date", "time"}, "delay": {"delay"}}.items()
        if names & when.keys()
    ]
    if len(ways) > 1:
        clash = ", ".join(name for name in ("datetime", "date", "time", "delay") if name in when)
        return refuse("when", f"these clash: {clash}. {EXAMPLES}")
    if not ways:
        return refuse("when", f"missing: datetime, or time with timezone, or delay. {EXAMPLES}")
    match ways[0]:
        case "delay":
            try:
                return Ok(now + parse_delay(when["delay"]))
            except PhraseError as error:
                return refuse("delay", str(error))
        case "datetime":
            return read_moment(when["datetime"], zone, now, "datetime")
    if missing := [name for name in ("time", "timezone") if name not in when]:
        return refuse("when", f"missing: {' and '.join(missing)}. {EXAMPLES}")
    try:
        today = now.astimezone(load_zone(zone)).date()
    except TriggerError as error:
        return refuse(error.field, error.reason)
    day, hour = _date(when.get("date", str(today))), _time(when["time"])
    if day is None:
        return refuse("date", 'write YYYY-MM-DD, like "2026-02-05", or leave it out for today')
    if hour is None:
        return refuse("time", 'write HH:MM or HH:MM:SS, like "15:00"; the zone goes into timezone')
    return read_moment(f"{day} {hour}", zone, now, "date and time")


def refuse(field: str, why: str, *, hint: str = "") -> Err:
    """Refuse one argument; the hint is for a family whose fixed sentence does not give the reason."""
    return Err(Code.INVALID, f"{field}: {why}", errors={field: [why]}, hint=hint)


def page_problem(size: int, start: int) -> Err | None:
    """Return an error if the limit or the offset is out of range."""
    if not 1 <= size <= LONGEST_PAGE:
        return refuse("limit", f"choose 1 to {LONGEST_PAGE}")
    return None if 0 <= start <= 10**9 else refuse("offset", "choose 0 or more")


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
            raise TriggerError(
                "trigger_config", f"{unit} must be positive and not longer than {HORIZON_IN_WORDS}"
            )
        total += number * SECONDS[unit]
    if not total:
        raise TriggerError("trigger_config", 'the interval is zero: write {"minutes": 15}')
    # 0.1 minutes must be exactly six seconds, despite binary fractions.
    return Interval(round(total, 6), now)


def _expression(config: Mapping[str, Any], timezone: str) -> Cron:
    text = config.get("expression")
    if not isinstance(text, str):
        what = "must be text" if "expression" in config else "is missing"
        raise TriggerError("trigger_config", f'expression {what}: write {{"expression": "30 8 * * 1-5"}}')
    return Cron(text, timezone)


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _time(text: str) -> time | None:
    try:
        return time.fromisoformat(text if text[1:2] != ":" else f"0{text}") if _TIME.fullmatch(text) else None
    except ValueError:
        return None
