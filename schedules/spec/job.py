"""The fields of a job that people and programs set, described once for every door."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from schedules.limits import MAX_TAGS, NAME_LENGTH, TAG_LENGTH
from schedules.models.alert_rules import RULES_OF_JOB
from schedules.models.calendars import MAX_CALENDARS_PER_JOB
from schedules.result import Ok, Result, invalid_fields
from schedules.spec.readers import Alerts, End, Limit, Reader, Span, Zone, read_texts, reason_in
from schedules.tasks.grants import LONGEST_GRANT, MAX_GRANTS
from schedules.when.phrases import PhraseError
from schedules.when.triggers import TriggerError

Columns = dict[str, Any]
Place = tuple[int | str, ...]
OnClosed = Literal["skip", "next", "previous"]
Overlap = Literal["skip", "queue", "allow"]
CatchUp = Literal["once", "all", "none"]
Text = Annotated[str, StringConstraints(max_length=NAME_LENGTH)]
Tag = Annotated[str, StringConstraints(max_length=TAG_LENGTH)]
Grant = Annotated[str, StringConstraints(max_length=LONGEST_GRANT)]


def says(text: str, label: str, **options: Any) -> Any:
    """Describe a field: a sentence for people and programs, and its label on forms and in the activity."""
    return Field(None, title=label, description=text, **options)


class ScheduleSpec(BaseModel):
    """What belongs to a schedule besides its text; what is left out, or null, changes nothing."""

    model_config = ConfigDict(extra="forbid", strict=True)

    timezone: Zone = says(
        "An IANA zone or a city.",
        "Time zone",
        examples=["Europe/Berlin"],
    )
    spread: Span = says(
        'Start up to this much later, like "20m", by the same random delay each time; 0 for none.',
        "Random delay",
    )
    max_runs: Limit = says("Stop after so many scheduled runs; 0: never.", "Max runs")
    calendars: Annotated[list[Text] | None, Reader(read_texts)] = says(
        "The calendars that close times for it, by name; also public holidays, like DE-BY.",
        "Calendars",
        max_length=MAX_CALENDARS_PER_JOB,
    )
    on_closed: OnClosed | None = says("What to do with a run at a closed time.", "At a closed time")
    ends_at: End = says(
        'No run after it: a time, a day or a phrase; "none" removes it.', "End date", examples=["2030-12-24"]
    )

    @classmethod
    def read(cls, values: Mapping[str, Any], *, now: datetime, zone: str) -> Result[Columns]:
        """Read values that no schema has checked."""
        columns, problems = cls.read_each(values, now=now, zone=zone)
        return (
            invalid_fields({str(place[0]): [reason] for place, reason in problems})
            if problems
            else Ok(columns)
        )

    @classmethod
    def read_each(
        cls, values: Mapping[str, Any], *, now: datetime, zone: str
    ) -> tuple[Columns, list[tuple[Place, str]]]:
        """Read values that no schema has checked; return the columns, and what is wrong with the others."""
        try:
            spec, problems = cls.model_validate(dict(values)), []
        except ValidationError as error:
            problems = [(each["loc"], reason_of(each)) for each in error.errors()]
            wrong = {place[0] for place, _ in problems}
            spec = cls.model_validate({name: value for name, value in values.items() if name not in wrong})
        columns, errors = spec._read(now, zone)
        return columns, problems + [((name,), reason) for name, reason in errors.items()]

    def columns(self, *, now: datetime, zone: str) -> Result[Columns]:
        """Return the columns of the values that are set; times are in this zone, unless the values name another."""
        columns, errors = self._read(now, zone)
        return invalid_fields({name: [reason] for name, reason in errors.items()}) if errors else Ok(columns)

    def _read(self, now: datetime, zone: str) -> tuple[Columns, dict[str, str]]:
        columns: Columns = {}
        errors: dict[str, str] = {}
        # The zone is the first field, because the others are read in it.
        for name, field in self.of_columns().items():
            if (value := getattr(self, name)) is None:
                continue
            reader = next((each for each in field.metadata if isinstance(each, Reader)), None)
            try:
                columns[name] = reader.read(value, now, columns.get("timezone", zone)) if reader else value
            except (PhraseError, TriggerError) as error:
                errors[name] = reason_in(error)
        return columns, errors

    @classmethod
    def of_columns(cls) -> dict[str, Any]:
        """Return the fields that are columns of a job."""
        return {name: field for name, field in cls.model_fields.items() if field.title}


class JobSpec(ScheduleSpec):
    """What a person may set of a job besides its name, its schedule and its call."""

    label: Text | None = says("A short text beside the name.", "Label")
    tags: Annotated[list[Tag] | None, Reader(read_texts)] = says(
        "Tags to find and group jobs.", "Tags", max_length=MAX_TAGS, examples=[["home"]]
    )
    attempts: int | None = says("Tries per run, 1 to 10.", "Attempts", ge=1, le=10)
    backoff: Span = says(
        'Wait before the next try, like "10s"; it doubles each time.', "Wait before the first retry"
    )
    fixed_backoff: bool | None = says("Wait equally long before each try.", "Same wait before each retry")
    timeout: Span = says('Time limit of a run, like "5m".', "Timeout")
    overlap: Overlap | None = says(
        "What to do while the last run goes on.", "If the previous run is still running"
    )
    catch_up: CatchUp | None = says("Which missed runs to make up for.", "After downtime")
    pause_after_failures: int | None = says(
        "Pause the job after so many failed runs in a row; 0 never does.",
        "Automatic pause after failures",
        ge=0,
        le=1000,
    )
    at_most_once: bool | None = says(
        "Never start a run again that may have started, like a payment.", "Don't retry after a crash"
    )
    urgent: bool | None = says("Send its notifications in quiet hours, too.", "Urgent")
    alerts: Alerts = says(
        f'{RULES_OF_JOB}. "default" for the settings of its owner.',
        "Alerts",
        examples=["channel:phone, not late, at night"],
    )
    grants: Annotated[list[Grant] | None, Reader(read_texts)] = says(
        'Of a prompt: what its agent may use beyond what its runner allows, like "Bash(git push:*)".',
        "Permissions of its agent",
        max_length=MAX_GRANTS,
        examples=[["Bash(git push:*)"]],
    )


class FileSpec(JobSpec):
    """A job in a file, without its schedule."""

    name: Text | None = says("Default: the key.", "Name")
    task: Text | None = says("What runs.", "Task")
    arguments: dict[str, Any] | None = says("The arguments of the task, by name.", "Arguments")
    args: list[Any] | None = says("Further arguments, by position.", "Further arguments")
    paused: bool | None = says("Whether it is paused; left out, a pause is left alone.", "Paused")


def shown_type(field: Any) -> Any:
    """Return the type of a field's value in answers, where durations are texts."""
    kind = _kind_of(field)
    if get_origin(kind) is list:
        return list[str]
    return kind if kind in (bool, int) else str


def choices_of(field: Any) -> tuple[str, ...]:
    """Return the values that a field allows; empty if it is no choice."""
    kind = _kind_of(field)
    return get_args(kind) if get_origin(kind) is Literal else ()


def _kind_of(field: Any) -> Any:
    return next(kind for kind in get_args(field.annotation) if kind is not type(None))


# What pydantic says in its own terms, by the type of the error.
_REASONS = {
    "int_type": "give a whole number",
    "bool_type": "give true or false",
    "string_type": "give a text, in quotes if it looks like a number",
    "dict_type": "give values by name, like `message: Stand up`",
    "list_type": "give a list, like [home, backup]",
    "literal_error": "choose one of: {expected}",
    "greater_than_equal": "choose {ge} or more",
    "less_than_equal": "choose {le} or less",
    "extra_forbidden": "unknown field",
}


def reason_of(error: Any) -> str:
    """Say in a few words why pydantic refuses a value."""
    words = {name: str(value) for name, value in error.get("ctx", {}).items()}
    expected = words.get("expected", "").replace("'", "").replace(" or ", ", ")
    template = _REASONS.get(error["type"])
    return template.format(**{**words, "expected": expected}) if template else str(error["msg"])
