"""Schemas of jobs, and of what is done to one."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictFloat, StrictInt

from schedules.api.schemas.common import SCHEDULE, Input, Outcome, Output, Paged, Phrase, Text, Zone
from schedules.models.alert_rules import RULES_OF_JOB
from schedules.tasks.grants import LONGEST_GRANT, MAX_GRANTS

Status = Literal["pending", "running", "paused", "completed", "failed", "cancelled"]
Overlap = Literal["skip", "queue", "allow"]
OnClosed = Literal["skip", "next", "previous"]
CatchUp = Literal["none", "once", "all"]
Span = Annotated[
    str | StrictInt | StrictFloat,
    Field(description='Like "10s", "5m" or "1h30m", or a number of seconds.', examples=["5m"]),
]


class SchedulePolicies(Input):
    """What belongs to a schedule besides its text."""

    timezone: Zone | None = None
    spread: Span | None = None
    max_runs: int | None = Field(
        None, ge=0, le=2**31 - 1, description="Stop after so many scheduled runs; 0: never."
    )
    calendars: list[Text] | None = Field(
        None,
        max_length=10,
        description="The calendars that close times for it, by name; also public holidays, like DE-BY.",
    )
    on_closed: OnClosed | None = Field(None, description="What to do with a run at a closed time.")
    ends_at: Text | None = Field(
        None,
        description='No run after it: a time, a day or a phrase; "none" removes it.',
        examples=["2030-12-24"],
    )


class PolicyIn(SchedulePolicies):
    """The policies of a job, its end, its label and its tags."""

    label: Text | None = Field(None, description="A short text beside the name.")
    tags: list[Annotated[str, Field(max_length=50)]] | None = Field(None, max_length=20, examples=[["home"]])
    attempts: int | None = Field(None, ge=1, le=10, description="Tries per run.")
    backoff: Span | None = None
    fixed_backoff: bool | None = Field(None, description="Wait equally long before each try.")
    timeout: Span | None = None
    overlap: Overlap | None = Field(None, description="What to do while the last run goes on.")
    catch_up: CatchUp | None = Field(None, description="Which missed runs to make up for.")
    pause_after_failures: int | None = Field(None, ge=0, le=1000, description="0 never pauses it.")
    at_most_once: bool | None = Field(None, description="Never start a run again that may have started.")
    alerts: Text | None = Field(
        None,
        description=f'{RULES_OF_JOB}. "default" for the settings of its owner.',
        examples=["channel:phone, not late, at night"],
    )
    grants: list[Annotated[str, Field(max_length=LONGEST_GRANT)]] | None = Field(
        None,
        max_length=MAX_GRANTS,
        description="Of a prompt: what its agent may use beyond what its runner allows.",
        examples=[["Bash(git push:*)"]],
    )


class NewJob(PolicyIn):
    """A job to create."""

    name: Phrase = Field(examples=["Stand up"])
    schedule: str = SCHEDULE
    task: Phrase = Field(description="A registered task; GET /tasks lists them.", examples=["notify"])
    args: list[Any] = Field(default_factory=list, description="Its positional arguments.")
    kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="Its arguments by name.",
        examples=[{"message": "Stand up", "topic": "my-phone"}],
    )
    paused: bool = Field(False, description="Create it paused.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "Stand up",
                    "schedule": "every weekday at 8:30",
                    "task": "notify",
                    "kwargs": {"message": "Stand up", "topic": "my-phone"},
                    "timezone": "Europe/Berlin",
                }
            ]
        }
    )


class JobChange(PolicyIn):
    """What to change; what is left out, or null, stays."""

    name: Phrase | None = None
    schedule: Annotated[str, SCHEDULE] | None = None
    args: list[Any] | None = Field(None, description="New positional arguments.")
    kwargs: dict[str, Any] | None = Field(
        None, description="Arguments to change; others stay, null removes one."
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"schedule": "every weekday at 9:00"}]})


class Pause(Input):
    """How long, and why."""

    until: Phrase | None = Field(
        None, description='A time or a phrase like "monday", in the zone of the job.'
    )
    reason: Text = ""


class Skip(Input):
    """Which runs to leave out; without any, the next one."""

    dates: list[Phrase] = Field(
        default_factory=list,
        max_length=50,
        description='Days like "tomorrow" or "2030-12-24", or runs in ISO 8601.',
    )
    undo: bool = Field(False, description="Let them run after all; without dates, every skipped run.")


class ReminderAnswer(Input):
    """What to answer to the last reminder of a job."""

    answer: Literal["done", "snooze", "skip", "undo"] = Field(
        description="`skip` leaves out the next run, `undo` takes the last answer back."
    )
    until: Phrase | None = Field(
        None, description='Of a snooze: a time or a phrase like "1h". Default: in ten minutes.'
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"answer": "snooze", "until": "1h"}]})


class JobFilters(Paged):
    """Which jobs to list, by the same rules as the pages and tools."""

    query: str = Field("", max_length=200, description="Words of the name, message, tags, last error …")
    status: Status | None = None
    tag: str = Field("", max_length=200)
    task: str = Field("", max_length=200)
    outcome: Outcome | None = Field(None, description="How its last run ended; with since, any run.")
    since: str = Field("", max_length=200, description='Ran since: a time, or a phrase like "7 days ago".')
    source: str = Field("", max_length=200, description="The file or folder that describes it.")
    trash: bool = Field(False, description="Deleted jobs instead.")
    order: Literal["newest", "next"] = Field(
        "newest", description="`newest` pages without gaps or repeats; `next` puts the next to run first."
    )


class JobOut(Output):
    """A job in a list."""

    id: str
    number: int
    name: str
    status: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    schedule: str
    trigger_type: str
    timezone: str
    next_run: str | None
    last_run: str | None
    outcome: str | None
    run_count: int
    error: str | None
    paused_until: str | None
    pause_reason: str | None
    label: str | None
    tags: list[Any]
    made_by: str
    source: str | None
    revision: int
    deleted_at: str | None


class ReminderOut(Output):
    """The last notification of a job that asked for an answer."""

    run: int
    status: str
    asked_at: str
    reminders: int
    next_at: str | None
    answered_at: str | None
    answered_by: str | None


class WholeJobOut(JobOut):
    """A job with its policies, its next runs and its last reminder."""

    attempts: int
    backoff: str
    fixed_backoff: bool
    timeout: str
    overlap: str
    catch_up: str
    pause_after_failures: int
    at_most_once: bool
    alerts: str
    grants: list[str]
    spread: str
    max_runs: int | None
    ends_at: str | None
    skips: list[str]
    calendars: list[str]
    on_closed: str
    managed_by: str | None
    next_runs: list[str]
    warnings: list[str]
    reminder: str | None
    reminder_state: ReminderOut | None
    ping_url: str | None = Field(description="Where a heartbeat's pings go; null for other tasks.")


class NewJobOut(WholeJobOut):
    """A new job, and the active job that does the same on the same schedule."""

    similar: str | None = None


class JobsOut(Output):
    """A page of jobs."""

    jobs: list[JobOut]
    next_cursor: str | None
    note: str | None = None


class TriggerIn(Input):
    """How requests to a trigger address are checked."""

    scheme: Literal["", "github", "stripe", "standard", "cronty"] = Field(
        "", description="Who signs the requests; empty if the address itself is the secret."
    )
    secret: str = Field("", max_length=64, description="The name of your secret that checks signatures.")

    model_config = ConfigDict(json_schema_extra={"examples": [{"scheme": ""}]})


class TriggerOut(Output):
    """A new trigger address, which is shown once."""

    job: str
    url: str
    scheme: str
