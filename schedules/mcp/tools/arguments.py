"""Arguments that several tools share: types and descriptions, and how they become jobs and queries."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, WithJsonSchema
from pydantic_core import PydanticCustomError

from schedules import clock
from schedules.mcp import answers
from schedules.models import Job
from schedules.result import RefusedError, invalid
from schedules.services import Actor
from schedules.services.job_list import STATUSES_OF_OUTCOME, JobQuery
from schedules.services.reading import job_query
from schedules.spec.job import JobSpec, choices_of, shown_type
from schedules.tasks import registry
from schedules.when.zone_names import zone_named

Columns: TypeAlias = dict[str, Any]
Group: TypeAlias = dict[str, Any]
"""Optional arguments, which a tool takes as its `**options`: the type of each, with its description."""
# Fifty jobs cost an agent about 4,000 tokens of context.
PAGE = 50
MAX_PAGE = 1000
NAME_LENGTH = 80


class MissingArgumentError(Exception):
    """A required argument that neither the call nor the user's preferences supply."""

    def __init__(self, name: str, way_out: str) -> None:
        super().__init__(f"{name}: Field required. {way_out}")


def _only_numbers(kind: str) -> BeforeValidator:
    """Refuse booleans and strings, which Pydantic would convert: true would cancel task #1."""

    def check(value: Any) -> Any:
        if isinstance(value, bool | str):
            raise PydanticCustomError("number_type", "Input should be a valid {kind}", {"kind": kind})
        return value

    return BeforeValidator(check)


def _split_text(value: Any) -> Any:
    """Accept one text, or several separated by commas, as a list."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _reference_text(value: Any) -> Any:
    """Accept a job's number as an integer, but no boolean: true would be job 1."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise PydanticCustomError("reference_type", "Input should be a valid integer or string")
    return str(value)


def _with_unit(value: Any) -> Any:
    """Accept a number of seconds as a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}s" if is_number else value


TextList = Annotated[list[str], BeforeValidator(_split_text)]
Whole = Annotated[int, _only_numbers("integer")]
Number = Annotated[float, _only_numbers("number")]
Reference = Annotated[str, BeforeValidator(_reference_text)]
JobId = Annotated[Reference, Field(description="Id, #number or exact name.")]
TaskId = Annotated[
    Reference,
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    Field(description="Number, id or exact name."),
]
ZoneText = Annotated[str, AfterValidator(zone_named)]
Timezone = Annotated[ZoneText | None, Field(description="City or IANA zone. Default: the user's.")]
IdempotencyKey = Annotated[str | None, Field(description="Unique text: a repeat makes no second job.")]
PageLimit = Annotated[Whole | None, Field(description="1 to 1000. Default: 50.")]
PageOffset = Annotated[Whole | None, Field(description="next_offset of the last page.")]

# Every word costs an agent context, so these are shorter than what other programs read about the same fields.
_DESCRIPTIONS = {
    "attempts": "Tries per run, up to 10.",
    "backoff": "Wait before a retry (10m); doubles.",
    "fixed_backoff": "No doubling.",
    "catch_up": "Missed runs to make up.",
    "timeout": "Longest run, like 5m.",
    "overlap": "While one still runs.",
    "alerts": "never, default or a topic.",
    "calendars": 'Calendars or holidays: ["DE-BY catholic"]. They skip runs; "next" or "previous" in it moves them.',
    "max_runs": "Stop after so many runs.",
    "ends_at": "Last moment or whole day.",
    "label": "A new label.",
    "tags": "New tags, instead of all old.",
}
_TYPES: Mapping[Any, Any] = {int: Whole, bool: StrictBool, list[str]: TextList}
_SPANS = ("backoff", "timeout")


def one_of(description: str, choices: Any) -> Any:
    """Describe a text that is one of several words; the tool refuses others itself."""
    return Annotated[str | None, Field(description=description, json_schema_extra={"enum": [*choices, None]})]


def options(*names: str, **descriptions: str) -> Group:
    """Return fields of a job as arguments, some with a description of their own."""
    group: Group = {}
    for name in (*names, *descriptions):
        field = JobSpec.model_fields[name]
        words = descriptions.get(name) or _DESCRIPTIONS[name]
        if choices := choices_of(field):
            group[name] = one_of(words, choices)
            continue
        kind = Annotated[str, BeforeValidator(_with_unit)] if name in _SPANS else str
        group[name] = Annotated[_TYPES.get(shown_type(field), kind) | None, Field(description=words)]
    return group


Query = Annotated[str | None, Field(description="Words in its name, message, tags …")]
TaskName = Annotated[str | None, Field(description="Its task, like notify.")]
Outcome = one_of("How the run ended.", STATUSES_OF_OUTCOME)
FILTERS: Group = {
    "status": one_of("failed: its last run failed.", Job.Status.values),
    "query": Query,
    "tag": Annotated[str | None, Field(description="One of its tags.")],
    "task": TaskName,
    "outcome": one_of("How its last run ended; with since, any run.", STATUSES_OF_OUTCOME),
    "since": Annotated[str | None, Field(description="Ran since, like 7 days ago or monday.")],
}
# Periods that people name, and when each begins.
_PERIODS = {
    "this week": "monday",
    "last week": "7 days ago",
    "past week": "7 days ago",
    "a week": "7 days ago",
    "last month": "30 days ago",
    "past month": "30 days ago",
    "last night": "yesterday at 18:00",
    "this morning": "today",
}
RETRIES = options("attempts", "backoff", "catch_up")
POLICIES = options(*RETRIES, "timeout", "overlap", "calendars")
LIMITED_POLICIES = POLICIES | options("max_runs", "ends_at")


def page_of(limit: int | None, offset: int | None = None) -> tuple[int, int]:
    """Return the size and the start of a page; refuse what is out of range."""
    size, start = PAGE if limit is None else limit, offset or 0
    if not 1 <= size <= MAX_PAGE:
        raise RefusedError(invalid("limit", f"choose 1 to {MAX_PAGE}"))
    if not 0 <= start <= 10**9:
        raise RefusedError(invalid("offset", "choose 0 or more"))
    return size, start


def checked_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters of jobs in the words of services; refuse an unknown status, task or outcome."""
    status, task, outcome = (filters.get(name) for name in ("status", "task", "outcome"))
    if status is not None and status not in Job.Status.values:
        raise RefusedError(invalid("status", "unknown"))
    if task and registry.get(task) is None:
        raise RefusedError(invalid("task", f"Unknown task: {task}"))
    if outcome and outcome not in STATUSES_OF_OUTCOME:
        raise RefusedError(invalid("outcome", f"choose one of: {', '.join(STATUSES_OF_OUTCOME)}"))
    since = filters.get("since") or ""
    return {**filters, "since": _PERIODS.get(" ".join(since.lower().split()), since)}


def read_filter(actor: Actor, filters: Mapping[str, Any]) -> JobQuery:
    """Turn the arguments that select jobs into a query."""
    return job_query(actor, checked_filters(filters), clock.now())


def derived_name(task: str, kwargs: Mapping[str, Any], args: Any = (), label: str = "") -> str | None:
    """Return the default name of a job with these arguments, or None if its caller must name it."""
    job = Job(task=task, args=list(args), kwargs=kwargs)
    match task:
        case "notify":
            text = label or job.argument("title") or job.argument("message")
            return answers.line(str(text or ""), NAME_LENGTH) or "Notification"
        case "prompt":
            return answers.line(str(job.argument("prompt") or ""), NAME_LENGTH) or "Prompt"
    return None


def name_of_job(job: Job, **changes: Any) -> str | None:
    """Return the default name of a job after these changes."""
    new = {name: changes.get(name, getattr(job, name)) for name in ("kwargs", "args", "label")}
    return derived_name(job.task, **new)
