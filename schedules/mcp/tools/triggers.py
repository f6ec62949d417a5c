"""How trigger_type, trigger_config and policies become the columns of a job, and a job is made of them."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import Columns
from schedules.mcp.tools.moments import trigger_hint
from schedules.models import Job, Profile
from schedules.models.triggers import MONTH, columns_of
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.jobs.schedule_texts import ScheduleText, read_schedule
from schedules.services.jobs.validation import with_given
from schedules.spec.job import JobSpec
from schedules.when.cron import NeverRunsError
from schedules.when.durations import HORIZON_IN_WORDS, add_months
from schedules.when.phrases import NotUnderstoodError, PhraseError, parse_moment
from schedules.when.repeats import parse_trigger
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
from schedules.when.unplanned import Unplanned
from schedules.when.zones import first_pass, wall_time

# A random delay, fixed for each job, below which its runs start later.
SPREAD = "spread"
KEYS = {
    "once": ("run_at",),
    "interval": ("seconds", "minutes", "hours", "days", "weeks", "months", "start", SPREAD),
    "cron": ("expression", SPREAD),
}
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 7 * 86_400}
# Units that step on the wall clock if there is a start, in days.
CALENDAR_UNITS = {"days": 1, "weeks": 7}
# Large enough to be refused later, small enough for an exact sum.
MAX_AMOUNT = 10**12
# A local time is never the same moment in these zones, 11 hours apart, even if it recurs daily.
_DISTANT_ZONES = ("Etc/GMT+5", "Etc/GMT-6")
# No cron expression begins like this, so what is wrong with the words matters.
_IN_WORDS = re.compile(r"\s*(?:every|each)\b", re.IGNORECASE)
_LONG_STEP = re.compile(
    r"\s*(?:(?P<first>\*|[0-9]+)/(?P<minutes>[0-9]{1,6})\s|\S+\s+(?P<hour>\*|[0-9]+)/(?P<hours>[0-9]{1,6})\s)"
)

TriggerType = Annotated[
    str,
    Field(description="Kind of schedule.", json_schema_extra={"enum": ["once", "interval", "cron"]}),
]
# A cron expression alone says enough.
Config = Annotated[
    dict[str, Any],
    BeforeValidator(lambda value: {"expression": value} if isinstance(value, str) else value),
]
TriggerConfig = Annotated[
    Config,
    Field(
        description='once: {"run_at": "2026-02-05T15:00"}. interval: {"minutes": 90} (seconds to months), or with a '
        'first run {"weeks": 2, "start": "2027-03-02T09:00"}. cron: {"expression": "30 8 * * 1-5"}, or "10m after JOB fails" (succeeds, ends), "@event 5m before any in work".'
    ),
]


def read_trigger(
    trigger_type: str,
    config: Mapping[str, Any],
    timezone: str,
    now: datetime,
    *,
    owner_id: int | None = None,
    takes_phrases: bool = True,
) -> Result[Columns]:
    """Turn a trigger type and its configuration into the columns of a job, and perhaps the days that it skips.

    An expression may be a phrase with calendars, which are those of the caller or of another owner.
    """
    if trigger_type not in KEYS:
        return invalid("trigger_type", f"Unknown trigger type: {trigger_type[:70]}")
    if trigger_type == "once" and config.keys() == {"expression"}:
        # A text alone is read as an expression.
        config = {"run_at": config["expression"]}
    if unknown := [key for key in config if key not in KEYS[trigger_type]]:
        keys = ", ".join(KEYS[trigger_type])
        return invalid("trigger_config", f"unknown key {ascii(unknown[0])[:70]}; {trigger_type} takes {keys}")
    spread = _read_spread(config)
    if isinstance(spread, Err):
        return spread
    config = {key: value for key, value in config.items() if key != SPREAD}
    try:
        load_zone(timezone)
        match trigger_type:
            case "once":
                trigger: Trigger = Once(_read_run_at(config, timezone, now))
            case "interval":
                trigger = _read_interval(config, timezone, now)
            case _:
                read = None
                if takes_phrases:
                    owner = owner_id or current_actor().user.pk
                    read = partial(read_schedule, owner_id=owner, now=now, timezone=timezone)
                found = _read_expression(config, timezone, now, read)
                if isinstance(found, ScheduleText):
                    return with_given(found.fields | {"timezone": timezone}, spread.value)
                trigger = found
    except TriggerError as error:
        if isinstance(error.__cause__, NeverRunsError):
            return Err(Code.NEVER_RUNS, errors={error.field: [error.reason]})
        return invalid(error.field, error.reason)
    columns = columns_of(trigger) | {"timezone": timezone} | spread.value
    if isinstance(trigger, Interval) and "start" in config:
        columns["anchor_at"] = trigger.start
    return Ok(columns)


def implied_type(config: Mapping[str, Any]) -> str | None:
    """Return the type of trigger whose keys these are, or None."""
    return next((kind for kind, keys in KEYS.items() if config and config.keys() <= set(keys)), None)


def local_text(trigger_type: str, config: Mapping[str, Any]) -> str | None:
    """Return the time that a trigger names, which may depend on the zone; None if it names none."""
    text = {"once": config.get("run_at"), "cron": "9:00"}.get(trigger_type, config.get("start"))
    return text if isinstance(text, str) else None


def zone_notes(profile: Profile, timezone: str | None, text: str | None) -> list[str]:
    """Return a note if this time was read in a zone that neither the caller nor the user has named."""
    if timezone is not None or profile.timezone or text is None or not _is_local(text):
        return []
    return [answers.no_zone(profile.zone, "this was")]


def _is_local(text: str) -> bool:
    now = clock.now()
    try:
        moments = {parse_moment(text, now=now, timezone=zone, may_be_day=True) for zone in _DISTANT_ZONES}
    except PhraseError:
        return True
    return len(moments) > 1


def changed_trigger(
    job: Job, trigger_type: str | None, config: Mapping[str, Any] | None, zone: str
) -> Result[Columns]:
    """Turn a job's new trigger into columns; an interval keeps the start or length that is left out."""
    if trigger_type is None and config is None:
        return Ok({})
    if config is None:
        return invalid("trigger_config", "give trigger_config together with trigger_type")
    if trigger_type is None and config.keys() == {SPREAD}:
        return _read_spread(config)
    kind = trigger_type or implied_type(config) or job.trigger_type
    spread = {key: config[key] for key in config if key == SPREAD}
    config = {key: value for key, value in config.items() if key != SPREAD}
    if kind == job.trigger_type == Job.TriggerType.INTERVAL:
        if config.keys() == {"start"}:
            config = {**_interval_of(job), **config}
        elif config.keys() <= {"days", "weeks", "months"}:
            config = {**_start_of(job), **config}
    return read_trigger(kind, {**config, **spread}, zone, clock.now(), owner_id=job.owner_id)


def _read_spread(config: Mapping[str, Any]) -> Result[Columns]:
    """Return the column of the random delay; none if the configuration names no delay."""
    if SPREAD not in config:
        return Ok({})
    text = config[SPREAD]
    if not isinstance(text, str):
        return invalid("trigger_config", 'spread must be text: write "20m", or "0" for none')
    spread = JobSpec.read({SPREAD: text}, now=clock.now(), zone="UTC")
    return invalid("trigger_config", f"spread: {spread.reasons}") if isinstance(spread, Err) else spread


def _interval_of(job: Job) -> dict[str, Any]:
    """Return the interval of a job as a configuration."""
    trigger = job.undelayed_trigger
    if isinstance(trigger, CalendarInterval):
        return {trigger.unit: trigger.count}
    return {"seconds": job.every.total_seconds()} if job.every else {}


def _start_of(job: Job) -> dict[str, Any]:
    """Return the start of a job that runs at a time of day, which a new interval keeps."""
    if not job.calendar_unit or job.anchor_at is None:
        return {}
    return {"start": answers.iso(job.anchor_at, job.timezone)}


def _read_run_at(config: Mapping[str, Any], timezone: str, now: datetime) -> datetime:
    text = config.get("run_at")
    if not isinstance(text, str):
        what = "must be text" if "run_at" in config else "is missing"
        raise TriggerError("trigger_config", f'run_at {what}: write {{"run_at": "tomorrow at 15:00"}}')
    try:
        return parse_moment(text, now=now, timezone=timezone)
    except PhraseError as error:
        raise TriggerError("trigger_config", f"run_at: {error}") from error


def _read_interval(config: Mapping[str, Any], timezone: str, now: datetime) -> Interval | CalendarInterval:
    amounts = {unit: number for unit, number in config.items() if unit != "start"}
    total = _total(amounts)
    start = _read_start(config, timezone, now)
    if not amounts.get("months") and (start is None or not amounts.keys() & CALENDAR_UNITS.keys()):
        # 0.1 minutes must be exactly six seconds, despite binary fractions.
        return Interval(round(total, 6), start or now)
    count = sum(number * CALENDAR_UNITS.get(unit, 1) for unit, number in amounts.items())
    unit = "months" if amounts.get("months") else "days"
    if count != int(count) or not (amounts.keys() <= CALENDAR_UNITS.keys() or amounts.keys() == {"months"}):
        raise TriggerError(
            "trigger_config", "give whole months alone, or with a start whole days and weeks alone"
        )
    return CalendarInterval(int(count), unit, start or _months_from(now, int(count), timezone), timezone)


def _months_from(now: datetime, count: int, timezone: str) -> datetime:
    """Return the first run some months from now."""
    zone = load_zone(timezone)
    wall = wall_time(now, zone)
    start = first_pass(add_months(wall, count), zone)
    first = wall_time(start, zone)
    # If a short month or a clock change moves it, count from now, so that later runs are not moved.
    return start if (first.day, first.time()) == (wall.day, wall.time()) else now


def _read_start(config: Mapping[str, Any], timezone: str, now: datetime) -> datetime | None:
    if "start" not in config:
        return None
    if not isinstance(config["start"], str):
        raise TriggerError("trigger_config", 'start must be text: write "2027-03-02T09:00:00"')
    try:
        return parse_moment(config["start"], now=now, timezone=timezone, may_be_day=True)
    except PhraseError as error:
        raise TriggerError("trigger_config", f"start: {error}") from error


def _total(amounts: Mapping[str, Any]) -> float:
    """Return the seconds of these amounts, with 30 days for a month; refuse what is no positive number."""
    total: float = 0
    for unit, number in amounts.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TriggerError("trigger_config", f"{unit} must be a number")
        if not 0 <= number <= MAX_AMOUNT:
            raise TriggerError(
                "trigger_config", f"{unit} must be positive and not longer than {HORIZON_IN_WORDS}"
            )
        total += number * SECONDS.get(unit, MONTH.total_seconds())
    if not total:
        raise TriggerError("trigger_config", 'the interval is zero: write {"minutes": 15}')
    return total


def _read_expression(
    config: Mapping[str, Any],
    timezone: str,
    now: datetime,
    read: Callable[[str], ScheduleText] | None,
) -> Trigger | ScheduleText:
    """Read a cron expression; with this function, also a phrase with an end or exceptions, which no expression has."""
    text = config.get("expression")
    if not isinstance(text, str):
        what = "must be text" if "expression" in config else "is missing"
        raise TriggerError("trigger_config", f'expression {what}: write {{"expression": "30 8 * * 1-5"}}')
    _refuse_long_step(text)
    try:
        return cron_trigger(text, timezone)
    except TriggerError as error:
        reason = error
    if read:
        try:
            schedule = read(text)
            if schedule.has_clauses:
                return schedule
        except NotUnderstoodError as error:
            if _IN_WORDS.match(text):
                reason = TriggerError("cron", str(error))
        except PhraseError as error:
            # Otherwise, what is wrong with the expression is known already.
            if not isinstance(error.__cause__, TriggerError):
                raise TriggerError("cron", str(error)) from error
    trigger: Trigger | None = None
    with suppress(PhraseError, TriggerError):
        trigger = parse_trigger(text, now=now, timezone=timezone)
    match trigger:
        case Unplanned():
            return trigger
        case Cron(expression=expression):
            reason = TriggerError("cron", f'for this, write "{expression}"')
        case Interval() | CalendarInterval():
            reason = TriggerError("cron", f"cron cannot say this{trigger_hint(text, timezone, now)}")
        case Once():
            way = f"use trigger_type once with {json.dumps({'run_at': text})}"
            reason = TriggerError("cron", f"this is one moment: {way}")
    raise reason


def _refuse_long_step(text: str) -> None:
    """Refuse a step that is longer than its field, and so starts again every hour or day."""
    step = _LONG_STEP.match(text)
    if step is None:
        return
    unit, number = ("minutes", step["minutes"]) if step["minutes"] else ("hours", step["hours"])
    if int(number) < {"minutes": 60, "hours": 24}[unit]:
        return
    again = f"{step['first'] or step['hour']}/{number} starts again every {'hour' if unit == 'minutes' else 'day'}"
    first, *others = text.split()
    way = "list the times instead, with a job for each minute"
    if set(others[unit == "hours" :]) <= {"*"} and (unit == "minutes" or first.isdigit()):
        way = f'use trigger_type interval with {{"{unit}": {number}}}'
    raise TriggerError("cron", f"{again}: {way}")


def create(
    trigger: Result[Columns], given: Mapping[str, Any], timezone: str, **job: Any
) -> Result[services.Scheduled]:
    """Create a job, unless its trigger or one of its policies is refused."""
    if isinstance(trigger, Err):
        return trigger
    if given.get("max_runs") == 0:
        # To update_job, 0 removes the limit.
        return invalid("max_runs", "choose 1 or more, or leave it out")
    policies = read_policies(given, timezone, clock.now())
    if isinstance(policies, Err):
        return policies
    fields = with_given(trigger.value, policies.value)
    return fields if isinstance(fields, Err) else services.schedule(current_actor(), **fields.value, **job)


def read_policies(given: Mapping[str, Any], timezone: str, now: datetime) -> Result[Columns]:
    """Turn the policies among these options into columns of a job."""
    fields = {name: value for name, value in given.items() if name in JobSpec.of_columns()}
    if "calendars" in fields:
        entries = [entry for entry in fields["calendars"] or [] if entry]
        moved = [entry for entry in entries if entry in Job.OnClosed.values]
        fields["calendars"] = [entry for entry in entries if entry not in moved]
        fields["on_closed"] = moved[-1] if moved else Job.OnClosed.SKIP.value
    return JobSpec.read(fields, now=now, zone=timezone)


def once(moment: Result[datetime], timezone: str) -> Result[Columns]:
    """Return the columns of a trigger that fires once."""
    if isinstance(moment, Err):
        return moment
    return Ok({"trigger_type": Job.TriggerType.ONCE, "run_at": moment.value, "timezone": timezone})
