"""Schemas of jobs, and of what is done to one."""

from functools import partial
from typing import Annotated, Any, Literal

from ninja import Router
from pydantic import ConfigDict, Field, create_model

from schedules.api.common import SCHEDULE, Input, Moment, Outcome, Output, Paged, Phrase, Text
from schedules.api.endpoints import route
from schedules.api.runs import RunOut, WhyFilter, WhyOut
from schedules.services.jobs import operations
from schedules.services.listing import list_jobs
from schedules.spec.job import JobSpec, shown_type

Status = Literal["pending", "running", "paused", "completed", "failed", "cancelled"]


class NewJob(JobSpec):
    """A job to create; without a time zone, it has that of its owner."""

    name: Phrase | None = Field(
        None, description="Default: its task and its first text.", examples=["Stand up"]
    )
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


class JobChange(JobSpec):
    """Fields to change. Omitted or null fields keep their value."""

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
    next_run: Moment | None
    last_run: Moment | None
    outcome: str | None
    run_count: int
    error: str | None
    paused_until: Moment | None
    pause_reason: str | None
    label: str | None
    tags: list[Any]
    made_by: str
    source: str | None
    revision: int
    deleted_at: Moment | None


_SHOWN: dict[str, Any] = {"ends_at": Moment | None, "max_runs": int | None}


class ReminderOut(Output):
    """The last notification of a job that asked for an answer."""

    run: int
    status: str
    asked_at: Moment
    reminders: int
    next_at: Moment | None
    answered_at: Moment | None
    answered_by: str | None


_settings: dict[str, Any] = {
    name: (_SHOWN.get(name) or shown_type(field), ...)
    for name, field in JobSpec.of_columns().items()
    if name not in JobOut.model_fields
}


class WholeJobOut(create_model("_Settings", __base__=JobOut, **_settings)):  # type: ignore[misc]
    """A job with its policies, its next runs and its last reminder."""

    skips: list[str]
    managed_by: str | None
    description: str = Field(description="The schedule with its end and the days that it leaves out.")
    waits_for: str | None = Field(description="What starts its next run, if no time does.")
    next_runs: list[Moment]
    warnings: list[str]
    reminder: str | None
    reminder_state: ReminderOut | None
    ping_url: str | None = Field(description="Where a heartbeat's pings go; null for other tasks.")


class NamedJob(Output):
    """A job by its name."""

    id: str
    name: str


class FollowerOut(NamedJob):
    """A job that runs after another one."""

    schedule: str


class TriggerAddressOut(Output):
    """An open trigger address without its key, which is not stored."""

    scheme: str
    opened_at: Moment
    rotated_at: Moment | None


class ShownJobOut(WholeJobOut):
    """A job with its neighbours, its open alert and its last runs."""

    trigger_address: TriggerAddressOut | None
    runs_after: NamedJob | None
    followers: list[FollowerOut]
    alert: str | None
    runs: list[RunOut]


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


router = Router(tags=["jobs"])
_declare = partial(route, router)

_declare("GET ", list_jobs, JobsOut, query=JobFilters)
_declare("POST ", operations.create_job, NewJobOut, body=NewJob, status=201, location="jobs/{id}")
_declare("GET /{job}", operations.show_job, ShownJobOut)
_declare("PATCH /{job}", operations.change_job, WholeJobOut, body=JobChange, match="required")
_declare("DELETE /{job}", operations.delete_job, None, match="optional")
_declare("POST /{job}/pause", operations.pause_job, WholeJobOut, body=Pause, is_optional=True)
_declare("POST /{job}/resume", operations.resume_job, WholeJobOut)
_declare("POST /{job}/confirm", operations.confirm_job, WholeJobOut, match="optional")
_declare("POST /{job}/cancel", operations.cancel_job, WholeJobOut)
_declare("POST /{job}/restore", operations.restore_job, WholeJobOut)
_declare("POST /{job}/skip", operations.skip_runs, WholeJobOut, body=Skip, is_optional=True)
_declare("POST /{job}/answer", operations.answer_reminder, WholeJobOut, body=ReminderAnswer)
_declare("POST /{job}/run", operations.run_job, RunOut, status=202, location="runs/{run}")
_declare(
    "POST /{job}/trigger",
    operations.open_trigger,
    TriggerOut,
    body=TriggerIn,
    is_optional=True,
    status=201,
    repeatable=False,
)
_declare("DELETE /{job}/trigger", operations.close_trigger, None)
_declare("GET /{job}/why", operations.explain_run, WhyOut, query=WhyFilter)
