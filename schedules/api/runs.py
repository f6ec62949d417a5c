"""Schemas of runs, their output and their explanations."""

from typing import Any, Literal

from ninja import Router
from pydantic import Field

from schedules.api.common import Filter, Moment, Outcome, Output, Paged
from schedules.api.endpoints import route
from schedules.services import listing

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
Cause = Literal["schedule", "manual", "catch_up", "reminder", "after", "trigger", "event"]


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
    order: Literal["newest", "written"] = Field(
        "newest", description="`written` is one page of those last written, whenever they were due."
    )


class WhyFilter(Filter):
    """Which run to explain."""

    at: str = Field("", max_length=200, description='A time or a phrase like "yesterday at 9:00".')


class OutputFilter(Filter):
    """From where on to read an output."""

    position: int = Field(0, ge=0, le=2**53)
    attempt: int = Field(0, ge=0, le=2**31 - 1)


class RunOut(Output):
    """A run."""

    run: int
    job: str
    job_id: str | None
    task: str
    scheduled_for: Moment
    cause: str
    status: str
    attempt: int
    started_at: Moment | None
    finished_at: Moment | None
    seconds: float | None
    result: Any
    error: str | None
    reason: str | None
    explanation: str


class DenialOut(Output):
    """A call that an agent was not permitted to make, with the beginning of its arguments."""

    tool: str
    input: str


class AgentRunOut(Output):
    """What a runner's agent did in the last attempt of a run."""

    runner: str
    kind: str
    attempt: int
    verdict: str | None
    why: str | None
    turns: int
    tokens_in: int
    tokens_out: int
    money: float | None
    tool_calls: int
    denials: list[DenialOut]


class ShownRunOut(RunOut):
    """A run, and what its agent did if a runner got its prompt."""

    agent: AgentRunOut | None


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


class WhyOut(Output):
    """What became of a run, from the records."""

    id: str
    timezone: str
    at: Moment
    verdict: str
    explanation: str
    detail: str | None
    run: RunOut | None


router = Router(tags=["runs"])
route(router, "GET ", listing.list_runs, RunsOut, query=RunFilters)
route(router, "GET /{int:run}", listing.show_run, ShownRunOut)
route(router, "GET /{int:run}/output", listing.show_output, OutputOut, query=OutputFilter)
