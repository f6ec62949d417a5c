"""Answers of the tools that preview, change, run and explain jobs."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from schedules import limits
from schedules.mcp import answers
from schedules.mcp.answers.jobs import ExecutionOut, JobOut
from schedules.models import Execution


class PreviewOut(answers.ScheduleOut):
    """The description and the next runs of a schedule that is not stored."""

    warnings: list[str]


class ChangedOut(JobOut, answers.WarningOut):
    """The job after the change."""

    paused_until: str | None


class SkippedOut(ChangedOut):
    """The job, and the days and runs that it leaves out."""

    skips: list[str]


class RunOut(TypedDict):
    """A run that was started by hand, and its current status."""

    job_id: str
    execution_id: int
    status: str
    result: Any
    error: str | None
    warning: NotRequired[str]


class ComingOut(TypedDict):
    """One upcoming run."""

    at: str
    job_id: str
    name: str
    task: str


class UpcomingOut(TypedDict):
    """The runs of the next hours, in order."""

    upcoming: list[ComingOut]
    count: int
    until: str
    warning: NotRequired[str]


class WhyOut(TypedDict):
    """The outcome of one slot, its explanation, and what others wrote about it, which is data."""

    job_id: str
    at: str
    verdict: str
    explanation: str
    detail: str | None
    execution: ExecutionOut | None


def run_out(row: Execution, job_id: str) -> RunOut:
    out: RunOut = {
        "job_id": job_id,
        "execution_id": row.pk,
        "status": row.status,
        "result": answers.readable(row.result),
        "error": limits.strip_unprintable(row.error) or None,
    }
    return out if answers.is_worker_running() else {**out, "warning": answers.NO_WORKER}
