"""Types and descriptions of the arguments that several tools share."""

from typing import Annotated, Any, TypeAlias, TypedDict

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, WithJsonSchema
from pydantic_core import PydanticCustomError

from schedules.models import Job
from schedules.result import Err, invalid
from schedules.when.zone_names import zone_named

Columns: TypeAlias = dict[str, Any]
# Fifty jobs cost an agent about 4,000 tokens of context.
PAGE = 50
MAX_PAGE = 1000


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


TextList = Annotated[list[str], BeforeValidator(_split_text)]
Whole = Annotated[int, _only_numbers("integer")]
Number = Annotated[float, _only_numbers("number")]


def _reference_text(value: Any) -> Any:
    """Accept a job's number as an integer, but no boolean: true would be job 1."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise PydanticCustomError("reference_type", "Input should be a valid integer or string")
    return str(value)


Reference = Annotated[str, BeforeValidator(_reference_text)]
JobId = Annotated[Reference, Field(description="Id, #number or exact name.")]
TaskId = Annotated[
    Reference,
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    Field(description="Number, id or exact name."),
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


def _with_unit(value: Any) -> Any:
    """Accept a number of seconds as a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}s" if is_number else value


Span = Annotated[str, BeforeValidator(_with_unit)]
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
    TextList | None,
    Field(
        description='Calendars or holidays: ["DE-BY catholic"]. They skip runs; "next" or "previous" in it moves them.'
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
    """The same for a job that exists, with policies that few jobs need: every argument costs an agent context."""

    fixed_backoff: FixedBackoff
    alerts: Alerts


class LimitedPolicies(Policies, total=False):
    """The same for jobs that may end by themselves."""

    max_runs: MaxRuns
    ends_at: EndsAt


PageLimit = Annotated[Whole | None, Field(description="1 to 1000. Default: 50.")]
PageOffset = Annotated[Whole | None, Field(description="next_offset of the last page.")]


def page_problem(size: int, start: int) -> Err | None:
    """Return an error if the limit or the offset is out of range."""
    if not 1 <= size <= MAX_PAGE:
        return invalid("limit", f"choose 1 to {MAX_PAGE}")
    return None if 0 <= start <= 10**9 else invalid("offset", "choose 0 or more")
