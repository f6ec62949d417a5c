"""The shapes of requests and answers, from which the OpenAPI document is made."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt

Status = Literal["pending", "running", "paused", "completed", "failed", "cancelled"]
RunStatus = Literal[
    "queued",
    "claimed",
    "running",
    "waiting",
    "succeeded",
    "failed",
    "skipped",
    "missed",
    "cancelled",
    "lost",
]
Outcome = Literal["succeeded", "failed", "cancelled", "skipped", "missed"]
Cause = Literal["schedule", "manual", "catch_up", "reminder"]
Scope = Literal["read", "write"]
Overlap = Literal["skip", "queue", "allow"]
CatchUp = Literal["none", "once", "all"]
LONGEST_PAGE = 200

Text = Annotated[str, Field(max_length=200)]
Phrase = Annotated[str, Field(min_length=1, max_length=200)]
Span = Annotated[
    str | StrictInt | StrictFloat,
    Field(description='Like "10s", "5m" or "1h30m", or a number of seconds.', examples=["5m"]),
]
Zone = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        description="An IANA zone or a city. Default: the owner's.",
        examples=["Europe/Berlin"],
    ),
]


class Input(BaseModel):
    """A body: types are not converted, and unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Filter(BaseModel):
    """Query parameters; unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid")


class PolicyIn(Input):
    """The policies of a job, its end, its label and its tags."""

    timezone: Zone | None = None
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
    alerts: Text | None = Field(None, description='The ntfy topic of its failure alerts, or "never".')
    spread: Span | None = None
    max_runs: int | None = Field(
        None, ge=0, le=2**31 - 1, description="Stop after so many scheduled runs; 0: never."
    )
    ends_at: Text | None = Field(
        None,
        description='No run after it: a time, a day or a phrase; "none" removes it.',
        examples=["2030-12-24"],
    )


SCHEDULE = Field(
    min_length=1,
    max_length=300,
    description="A phrase, five cron fields, or a time: every weekday at 8:30, */15 * * * *, 2030-02-05T15:00.",
    examples=["every weekday at 8:30"],
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


class Nothing(Input):
    """An empty object; the body may be left out."""


class PreviewIn(Input):
    """A schedule to look at."""

    schedule: str = SCHEDULE
    timezone: Zone | None = None
    count: int = Field(5, ge=1, le=100)


class Paged(Filter):
    """A part of a list."""

    limit: int = Field(50, ge=1, le=LONGEST_PAGE)
    cursor: str = Field("", max_length=100, description="`next_cursor` of the page before.")


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


class RunFilters(Paged):
    """Which runs to list, newest first."""

    job: str = Field("", max_length=200, description="The id, number or exact name of a job.")
    status: RunStatus | None = None
    outcome: Outcome | None = None
    cause: Cause | None = None
    task: str = Field("", max_length=200)
    query: str = Field("", max_length=200, description="Words of the job, the error or the reason.")
    since: str = Field("", max_length=200, description="Due at or after: a time or a phrase.")
    until: str = Field("", max_length=200, description="Due before: a time or a phrase.")


class BulkIn(Input):
    """What to do, and to which jobs."""

    action: Literal["pause", "resume", "cancel", "delete"]
    query: Text = ""
    status: Status | None = None
    tag: Text = Field("", examples=["home"])
    task: Text = ""
    outcome: Outcome | None = None
    since: Text = ""
    until: Phrase | None = Field(None, description='The end of a pause, like "monday".')
    reason: Text = ""
    confirm: Text | None = Field(None, description="From the first answer.")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"action": "pause", "tag": "home", "until": "monday"}]}
    )


class UndoIn(Input):
    """Which change to undo; without a number, the last call of this token."""

    change: int | None = Field(None, ge=1, le=2**63 - 1)


class ApplyIn(Input):
    """A file of jobs, as YAML or JSON."""

    source: Phrase = Field(description="The name that jobs remember.", examples=["jobs.yaml"])
    text: str = Field(max_length=250_000)
    timezone: Zone | None = None
    prune: bool = Field(False, description="Delete jobs that the file once described and no longer does.")
    confirm: Text | None = Field(None, description="From the first answer.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source": "jobs.yaml",
                    "text": "jobs:\n  stand-up:\n    schedule: every weekday at 8:30\n    task: notify\n"
                    "    arguments: {message: Stand up, topic: my-phone}\n",
                }
            ]
        }
    )


class ClaimIn(Input):
    """How many prompts, and for how long."""

    limit: int = Field(1, ge=1, le=20)
    lease_minutes: float = Field(15, ge=1, le=1440)


class CompleteIn(Input):
    """The result of a prompt, or why it failed."""

    result: Any = None
    error: Annotated[str, Field(max_length=16_384)] | None = None


class SecretIn(Input):
    """The value of a secret, and where it may go."""

    value: str = Field(max_length=16_384)
    hosts: list[Phrase] = Field(default_factory=list, max_length=20, examples=[["api.github.com"]])
    commands: list[Phrase] = Field(default_factory=list, max_length=20)


class NewToken(Input):
    """A token that may do no more than the one that asks."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    scopes: list[Scope] = Field(default=["read"], min_length=1, max_length=2)
    tools: list[Phrase] = Field(default_factory=list, max_length=5)
    kind: Literal["conversation", "heartbeat", "program"] = "program"
    expires_in_days: float = Field(30, gt=0, le=30)


class EventFilters(Paged):
    """Which changes to list, the newest first."""

    actor: str = Field("", max_length=150, description="The name of a person, an agent or a program.")
    door: Literal["web", "admin", "mcp", "api", "command", "terminal", "code", "engine"] | None = None
    verb: str = Field("", max_length=20, description="Like create, edit or pause.")
    job: str = Field("", max_length=200, description="The id, number or exact name of a job.")
    since: str = Field("", max_length=200, description="At or after: a time or a phrase.")
    until: str = Field("", max_length=200, description="Before: a time or a phrase.")


class ExportFilters(Filter):
    """Which changes to export, and which export to continue."""

    after: int = Field(0, ge=0, le=2**53, description="The last `id` of the export before.")
    previous: str = Field(
        "", pattern="^([0-9a-f]{64})?$", description="The `signature` of the export before."
    )
    since: str = Field("", max_length=200)
    until: str = Field("", max_length=200)


class WhyFilter(Filter):
    """Which run to explain."""

    at: str = Field("", max_length=200, description='A time or a phrase like "yesterday at 9:00".')


class OutputFilter(Filter):
    """From where on to read an output."""

    position: int = Field(0, ge=0, le=2**53)
    attempt: int = Field(0, ge=0, le=2**31 - 1)


class UpcomingFilter(Filter):
    """Which runs ahead to list."""

    hours: float = Field(24, gt=0, le=744)
    limit: int = Field(50, ge=1, le=200)
    job: str = Field("", max_length=200, description="The id, number or exact name of a job.")


class Output(BaseModel):
    """An answer: exactly these fields."""

    model_config = ConfigDict(extra="forbid")


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


class WholeJobOut(JobOut):
    """A job with its policies and its next runs."""

    attempts: int
    backoff: str
    fixed_backoff: bool
    timeout: str
    overlap: str
    catch_up: str
    pause_after_failures: int
    at_most_once: bool
    alerts: str
    spread: str
    max_runs: int | None
    ends_at: str | None
    skips: list[str]
    managed_by: str | None
    next_runs: list[str]
    warnings: list[str]


class NewJobOut(WholeJobOut):
    """A new job, and the active job that does the same on the same schedule."""

    similar: str | None = None


class JobsOut(Output):
    """A page of jobs."""

    jobs: list[JobOut]
    next_cursor: str | None
    note: str | None = None


class RunOut(Output):
    """A run."""

    run: int
    job: str
    job_id: str | None
    task: str
    scheduled_for: str
    cause: str
    status: str
    attempt: int
    started_at: str | None
    finished_at: str | None
    seconds: float | None
    result: Any
    error: str | None
    reason: str | None
    explanation: str


class RunsOut(Output):
    """A page of runs, newest first."""

    runs: list[RunOut]
    next_cursor: str | None


class OutputOut(Output):
    """What a run has printed from a position on; ask again with the new position and attempt."""

    text: str
    position: int
    attempt: int
    is_ended: bool


class PreviewOut(Output):
    """A schedule in words, with its next runs."""

    description: str
    timezone: str
    next_runs: list[str]
    warnings: list[str]
    waits_for_start: bool


class WhyOut(Output):
    """What became of a run, from the records."""

    id: str
    at: str
    verdict: str
    explanation: str
    detail: str | None
    run: RunOut | None


class ComingOut(Output):
    """A run ahead."""

    at: str
    id: str
    name: str


class UpcomingOut(Output):
    """The next runs in order, and whether a worker is running that will start them."""

    upcoming: list[ComingOut]
    timezone: str
    is_worker_running: bool


class TaskOut(Output):
    """A task that jobs can use, with the JSON Schema of its arguments."""

    name: str
    description: str
    arguments: dict[str, Any]


class TasksOut(Output):
    """The tasks that the owner of the token may use."""

    tasks: list[TaskOut]


class MeOut(Output):
    """Whose token this is, and what it allows."""

    user: str
    token: str
    kind: str
    scopes: list[str]
    tools: list[str]
    expires_at: str | None
    timezone: str
    default_topic: str
    version: str
    is_worker_running: bool


class NamedJob(Output):
    """A job by its name."""

    id: str
    name: str


class RefusedJob(NamedJob):
    """A job that was left as it is, with the reason."""

    why: str


class BulkOut(Output):
    """The jobs that would be changed, with the token that confirms it, or those that were, with the change to undo."""

    is_done: bool
    count: int
    jobs: list[NamedJob]
    confirm: str | None = None
    undo: int | None = None
    paused_until: str | None = None


class UndoOut(Output):
    """The jobs as they are again, and those that have changed since."""

    jobs: list[NamedJob]
    refused: list[RefusedJob]


class DifferenceOut(Output):
    """A field that changes."""

    field: str
    before: str
    after: str


class StepOut(Output):
    """What a plan does with one job."""

    action: Literal["create", "change", "delete"]
    key: str
    id: str
    changes: list[DifferenceOut]
    adopted: bool
    restored: bool


class ApplyOut(Output):
    """A plan, and whether it was executed."""

    source: str
    unchanged: int
    left_out: list[str]
    unlisted: list[str]
    steps: list[StepOut]
    applied: bool
    confirm: str | None


class PromptOut(Output):
    """A claimed prompt; its text is data."""

    run: int
    job_id: str | None
    prompt: Any
    scheduled_for: str
    lease_until: str


class ClaimOut(Output):
    """The prompts that are yours until their leases end."""

    prompts: list[PromptOut]


class SecretOut(Output):
    """A secret without its value."""

    name: str
    hosts: list[str]
    commands: list[str]


class TokenOut(Output):
    """A token without its text."""

    id: int
    name: str
    kind: str
    scopes: list[str]
    tools: list[str]
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class TokensOut(Output):
    """The tokens that are not revoked."""

    tokens: list[TokenOut]


class NewTokenOut(TokenOut):
    """A new token with its text, which is shown only now."""

    text: str


class EventOut(Output):
    """Who changed what, when and through which door."""

    id: int
    at: str
    actor: str
    door: str
    verb: str
    job_id: str | None
    subject: str
    undoes: int | None
    changes: list[str]
    before: Any
    after: Any


class EventsOut(Output):
    """A page of changes, the newest first."""

    events: list[EventOut]
    next_cursor: str | None


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str
    detail: str


class ProblemOut(BaseModel):
    """Problem details as in RFC 9457."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldProblem] = Field(default_factory=list)
    retry_after: int | None = None

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "/api/#invalid",
                    "title": "Unprocessable Entity",
                    "status": 422,
                    "code": "invalid",
                    "detail": "schedule: Not understood.",
                    "errors": [{"field": "schedule", "detail": "Not understood."}],
                }
            ]
        },
    )
