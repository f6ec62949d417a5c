"""Schemas of previews, upcoming runs, rehearsals, tasks, and the token of the caller."""

from typing import Any

from pydantic import Field

from schedules.api.schemas.common import SCHEDULE, Filter, Output, Text
from schedules.api.schemas.jobs import SchedulePolicies


class PreviewIn(SchedulePolicies):
    """A schedule to look at."""

    schedule: str = SCHEDULE
    count: int = Field(5, ge=1, le=100)


class UpcomingFilter(Filter):
    """Which runs ahead to list."""

    hours: float = Field(24, gt=0, le=744)
    limit: int = Field(50, ge=1, le=200)
    job: str = Field("", max_length=200, description="The id, number or exact name of a job.")


class RehearsalFilter(Filter):
    """Which period and which jobs to rehearse."""

    from_: str = Field(
        "", alias="from", max_length=200, description='Where it begins, like "next week". Default: now.'
    )
    to: str = Field(
        "", max_length=200, description="Where it ends, at most 31 days later. Default: 7 days later."
    )
    job: str = Field("", max_length=200, description="The id, number or exact name of a job.")
    tag: Text = Field("", description="Only jobs with this tag.")
    limit: int = Field(100, ge=1, le=1000, description="How many jobs to list.")


class PreviewOut(Output):
    """A schedule in words, with its next runs."""

    description: str
    timezone: str
    next_runs: list[str]
    warnings: list[str]
    waits_for_start: bool


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


class LeftOutOut(Output):
    """Runs that do not start, for the same reason."""

    reason: str
    count: int
    first: str
    last: str


class JobSpendOut(Output):
    """What the agents of a job will use, by their last runs; null where those do not tell."""

    runs: int
    tokens: int | None
    money: float | None = Field(description="In US dollars, as the programs report it.")
    minutes: float | None


class RehearsedJobOut(Output):
    """What becomes of one job."""

    id: str
    name: str
    task: str
    runs: int
    first: str | None
    last: str | None
    left_out: list[LeftOutOut]
    waiting: int = Field(description="Runs that wait for the one before.")
    usual_seconds: float | None = Field(description="How long a run takes.")
    problem: str | None
    after: str | None = Field(description="The name of the job that starts it.")
    has_gate: bool = Field(description="Whether a gate may leave out more runs.")
    spend: JobSpendOut | None


class CrowdOut(Output):
    """A minute in which many runs start."""

    at: str
    starts: int
    jobs: list[str]


class QueueOut(Output):
    """Runs that wait for a free place."""

    lane: str
    capacity: int
    waiting: int
    longest_seconds: float
    at: str


class SpendOut(Output):
    """What the agents of all listed jobs will use."""

    runs: int
    tokens: int
    money: float
    minutes: float
    jobs_unknown: int = Field(description="Jobs without past runs, which are not counted.")
    jobs_without_money: int = Field(description="Jobs whose programs report no money.")


class RehearsalOut(Output):
    """What a period will bring if nothing changes, and whether a worker is running that will start it."""

    from_: str = Field(alias="from")
    to: str
    timezone: str
    runs: int
    left_out: int
    jobs: list[RehearsedJobOut]
    crowded_minutes: int
    crowds: list[CrowdOut]
    queues: list[QueueOut]
    spend: SpendOut | None
    notes: list[str]
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
    default_channel: str
    alert_topic: str
    alert_channel: str
    version: str
    is_worker_running: bool
