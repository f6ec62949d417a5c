"""Arguments that several tools share: their types and descriptions, and how they are read."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, TypeAlias, TypedDict, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, WithJsonSchema
from pydantic_core import PydanticCustomError

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.auth import current_actor
from schedules.models import Job, Profile
from schedules.result import Code, Err, Ok, Result
from schedules.services.people.calendars import ensure_holidays
from schedules.when.grammar import MOMENT_EXAMPLES
from schedules.when.phrases import (
    NotUnderstoodError,
    PhraseError,
    TooFarError,
    parse_delay,
    parse_end,
    parse_moment,
    parse_past,
)
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import CalendarInterval, Cron, Interval, TriggerError, load_zone
from schedules.when.zone_names import zone_named

Columns: TypeAlias = dict[str, Any]
M = TypeVar("M")

EXAMPLES = (
    'Give exactly one of: datetime ("2030-02-05T15:00:00+01:00"); '
    'time with timezone and perhaps date (date "2030-02-05", time "15:00", timezone "Europe/Berlin"); '
    'delay ("1d2h30m10s").'
)

# fromisoformat() also accepts 20260205, 2026-W06-4, 15 and 15:00+01:00.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
CHOICES = {"overlap": Job.Overlap.values, "catch_up": Job.CatchUp.values}
DEFAULT_ALERTS = "default"
_REPEATED = re.compile(r"\s*(?:every|each|daily|hourly|weekly|monthly|yearly|weekdays)\b", re.IGNORECASE)
REPEATS = "this repeats: use schedule_cron_notification for a reminder, else schedule_job"
# Fifty jobs take an agent about 4,000 tokens of context.
PAGE = 50
# Two zones in which every local time is another moment, also one that is the same every day.
_FAR_APART = ("Etc/GMT+5", "Etc/GMT-6")
LONGEST_PAGE = 1000
NAME_LENGTH = 80


class MissingArgumentError(Exception):
    """An argument was left out that the user's preferences do not supply either."""

    def __init__(self, name: str, way_out: str) -> None:
        super().__init__(f"{name}: Field required. {way_out}")


def _only_numbers(kind: str) -> BeforeValidator:
    """Refuse booleans and strings, which Pydantic would convert: true would cancel task #1."""

    def check(value: Any) -> Any:
        if isinstance(value, bool | str):
            raise PydanticCustomError("number_type", "Input should be a valid {kind}", {"kind": kind})
        return value

    return BeforeValidator(check)


def _words(value: Any) -> Any:
    """Accept one word, or several with commas between them, as a list."""
    return [word.strip() for word in value.split(",")] if isinstance(value, str) else value


Words = Annotated[list[str], BeforeValidator(_words)]
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
JobId = Annotated[Reference, Field(description="Id, #number or exact name.")]
TaskId = Annotated[
    Reference,
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    Field(description="Number, id or exact name."),
]
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
        'first run {"weeks": 2, "start": "2027-03-02T09:00"}. cron: {"expression": "30 8 * * 1-5"}.'
    ),
]
ZoneText = Annotated[str, AfterValidator(zone_named)]
Timezone = Annotated[
    ZoneText | None,
    Field(description="City or IANA zone. Default: the user's."),
]
IdempotencyKey = Annotated[
    str | None,
    Field(description="Unique text: a repeat makes no second job."),
]


def _span(value: Any) -> Any:
    """Accept a number of seconds as a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}s" if is_number else value


Span = Annotated[str, BeforeValidator(_span)]
MaxRuns = Annotated[Whole | None, Field(description="Stop after so many runs.")]
EndsAt = Annotated[str | None, Field(description="Last moment or whole day.")]
Attempts = Annotated[Whole | None, Field(description="Tries per run, up to 10.")]
Backoff = Annotated[Span | None, Field(description="Wait before a retry (10m); doubles.")]
FixedBackoff = Annotated[StrictBool | None, Field(description="No doubling.")]
Alerts = Annotated[str | None, Field(description="never, default or a topic.")]
Timeout = Annotated[Span | None, Field(description="Longest run, like 5m.")]
Overlap = Annotated[
    str | None,
    Field(
        description="While one still runs.",
        json_schema_extra={"enum": [*Job.Overlap.values, None]},
    ),
]
CatchUp = Annotated[
    str | None,
    Field(
        description="Missed runs to make up.",
        json_schema_extra={"enum": [*Job.CatchUp.values, None]},
    ),
]


Calendars = Annotated[
    Words | None,
    Field(
        description='Calendars that close days, or holidays: ["DE-BY catholic"]. Runs are skipped; with "next" or '
        '"previous" in it, moved.'
    ),
]


class Retries(TypedDict, total=False):
    """How often a run is tried, and which missed runs are made up for."""

    attempts: Attempts
    backoff: Backoff
    catch_up: CatchUp


class TimedRetries(Retries, total=False):
    """The same for runs with a time limit."""

    timeout: Timeout


class Policies(TimedRetries, total=False):
    """The same for jobs whose runs may overlap."""

    overlap: Overlap
    calendars: Calendars


class ChangedPolicies(Policies, total=False):
    """The same for a job that exists, with what few jobs need: every argument costs an agent context."""

    fixed_backoff: FixedBackoff
    alerts: Alerts


class LimitedPolicies(Policies, total=False):
    """The same for jobs that may end by themselves."""

    max_runs: MaxRuns
    ends_at: EndsAt


PageLimit = Annotated[Whole | None, Field(description="1 to 1000. Default: 50.")]
PageOffset = Annotated[Whole | None, Field(description="next_offset of the last page.")]


def read_moment(text: str, timezone: str, now: datetime, field: str, **rules: bool) -> Result[datetime]:
    """Read an ISO time or a phrase, with the rules of `parse_moment`; without an offset, it is read in the zone."""
    return read_with(lambda: parse_moment(text, now=now, timezone=timezone, **rules), text, timezone, field)


def read_end(text: str, timezone: str, now: datetime, field: str) -> Result[datetime]:
    """Read the end of a period; a date alone includes its whole day."""
    return read_with(lambda: parse_end(text, now=now, timezone=timezone), text, timezone, field)


def read_past(text: str, timezone: str, now: datetime, field: str) -> Result[datetime | date]:
    """Read a moment or a day, now or before."""
    return read_with(lambda: parse_past(text, now=now, timezone=timezone), text, timezone, field)


def read_with(parse: Callable[[], M], text: str, timezone: str, field: str) -> Result[M]:
    """Read a text with this function, which may refuse it."""
    try:
        load_zone(timezone)
        return Ok(parse())
    except TriggerError as error:
        return refuse(error.field, error.reason)
    except TooFarError as error:
        return Err(Code.TOO_FAR, errors={field: [str(error)]})
    except PhraseError as error:
        if _REPEATED.match(text):
            words = REPEATS + _as_trigger(text, timezone, clock.now())
            return refuse(field, words, hint=words)
        # The usual examples are in the descriptions; anything else is about this text.
        is_general = isinstance(error, NotUnderstoodError) and str(error).endswith(MOMENT_EXAMPLES)
        return refuse(field, str(error), hint="" if is_general else str(error))


def _as_trigger(text: str, timezone: str, now: datetime) -> str:
    """Say which arguments a repeating schedule in words would be; an empty text if it is not understood."""
    try:
        trigger = parse_trigger(text, now=now, timezone=timezone)
    except (PhraseError, TriggerError):
        return ""
    match trigger:
        case Cron(expression=expression):
            return f'; the cron is "{expression}"'
        case Interval(seconds=seconds):
            config: dict[str, Any] = (
                {"minutes": int(seconds // 60)} if seconds % 60 == 0 else {"seconds": seconds}
            )
        case CalendarInterval(count=count, unit=unit, start=start):
            config = {unit: count, "start": answers.iso(start, timezone)}
        case _:
            return ""
    return f"; for schedule_job, trigger_type interval with trigger_config {json.dumps(config)}"


def read_policies(options: Mapping[str, Any], timezone: str, now: datetime) -> Result[Columns]:
    """Turn the policies among these options into the columns of a job; an end of "none" is no end."""
    columns: Columns = {
        name: value
        for name, value in options.items()
        if name in LimitedPolicies.__annotations__ or name in ChangedPolicies.__annotations__
    }
    for name in columns.keys() & {"backoff", "timeout"}:
        span = read_span(columns[name], name)
        if isinstance(span, Err):
            return span
        columns[name] = span.value
    if "calendars" in columns:
        columns |= _calendars(columns.pop("calendars"))
    if columns.get("alerts") == DEFAULT_ALERTS:
        columns["alerts"] = ""
    for name, choices in CHOICES.items():
        if name in columns and columns[name] not in choices:
            return refuse(name, f"choose one of: {', '.join(choices)}")
    match columns.get("ends_at"):
        case None:
            return Ok(columns)
        case "none" | "":
            return Ok(columns | {"ends_at": None})
        case text:
            end = read_end(text, timezone, now, "ends_at")
            return end if isinstance(end, Err) else Ok(columns | {"ends_at": end.value})


def _calendars(words: list[str] | None) -> Columns:
    """Return the columns for calendars and the word that says what happens to runs which they close."""
    given = [word for word in words or [] if word]
    chosen = [word for word in given if word in Job.OnClosed.values]
    names = [word for word in given if word not in chosen]
    ensure_holidays(current_actor(), names)
    return {"calendars": names, "on_closed": chosen[-1] if chosen else Job.OnClosed.SKIP.value}


def once(moment: Result[datetime], timezone: str) -> Result[Columns]:
    """Return the columns of a trigger that fires once."""
    if isinstance(moment, Err):
        return moment
    return Ok({"trigger_type": Job.TriggerType.ONCE, "run_at": moment.value, "timezone": timezone})


def create(
    trigger: Result[Columns], options: Mapping[str, Any], timezone: str, **job: Any
) -> Result[services.Scheduled]:
    """Create a job, unless its trigger or one of its policies is refused."""
    if isinstance(trigger, Err):
        return trigger
    policies = read_policies(options, timezone, clock.now())
    if isinstance(policies, Err):
        return policies
    return services.schedule(current_actor(), **trigger.value, **policies.value, **job)


def read_span(text: str, field: str) -> Result[timedelta]:
    if re.fullmatch(r"0+(?:\.0+)?s?", text.strip()):
        return Ok(timedelta(0))
    try:
        return Ok(_delay(text))
    except PhraseError as error:
        return refuse(field, str(error))


def _delay(text: str) -> timedelta:
    """Read "1h30m", or a duration in words, like "ten minutes"."""
    try:
        return parse_delay(text)
    except PhraseError:
        now = clock.now()
        try:
            return parse_moment(f"in {text}", now=now, timezone="UTC") - now
        except PhraseError:
            pass
        raise


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
                return Ok(now + _delay(when["delay"]))
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
    day, hour = _date(when.get("date", str(today))), read_time(when["time"])
    if day is None:
        return refuse("date", 'write YYYY-MM-DD, like "2030-02-05", or leave it out for today')
    if hour is None:
        return refuse("time", 'write HH:MM or HH:MM:SS, like "15:00"; the zone goes into timezone')
    return read_moment(f"{day} {hour}", zone, now, "date and time")


def refuse(field: str, why: str, *, hint: str = "") -> Err:
    """Refuse one argument; the hint is for a family whose fixed sentence does not give the reason."""
    return Err(Code.INVALID, errors={field: [why]}, hint=hint)


def page_problem(size: int, start: int) -> Err | None:
    """Return an error if the limit or the offset is out of range."""
    if not 1 <= size <= LONGEST_PAGE:
        return refuse("limit", f"choose 1 to {LONGEST_PAGE}")
    return None if 0 <= start <= 10**9 else refuse("offset", "choose 0 or more")


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def read_time(text: str) -> time | None:
    try:
        return time.fromisoformat(text if text[1:2] != ":" else f"0{text}") if _TIME.fullmatch(text) else None
    except ValueError:
        return None


def zone_notes(profile: Profile, timezone: str | None, text: str | None) -> list[str]:
    """Return a note if neither the caller nor the user has named the zone in which this text was read as a time."""
    if timezone is not None or profile.timezone or text is None or not _is_local(text):
        return []
    return [answers.no_zone(profile.zone, "this was")]


def _is_local(text: str) -> bool:
    now = clock.now()
    try:
        moments = {parse_moment(text, now=now, timezone=zone, may_be_day=True) for zone in _FAR_APART}
    except PhraseError:
        return True
    return len(moments) > 1


def derived_name(job: Job) -> str | None:
    """Return the name that a job of these arguments gets by itself, or None if its caller must name it."""
    match job.task:
        case "notify":
            text = job.label or job.argument("title") or job.argument("message")
            return answers.line(str(text or ""), NAME_LENGTH) or "Notification"
        case "prompt":
            return answers.line(str(job.argument("prompt") or ""), NAME_LENGTH) or "Prompt"
    return None
