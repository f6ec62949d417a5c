"""Answers of the tools that change one job: the job, what has changed, and how to undo it."""

from typing import NotRequired

from typing_extensions import TypedDict

from schedules.mcp import answers
from schedules.mcp.answers.jobs import JobOut, job_out, reminder_out
from schedules.models import Job
from schedules.services.activity import summary_of
from schedules.services.jobs.creation import SimilarJob
from schedules.services.permissions import read_activity

MAX_SUMMARY_LENGTH = 400
UNCHANGED = "Nothing was changed: the job is like this already."


class ChangeOut(TypedDict):
    """What has changed, as "old → new", and the call that undoes it."""

    changed: NotRequired[str]
    undo: NotRequired[str]
    note: NotRequired[str]


class ChangedOut(JobOut, answers.WarningOut, ChangeOut):
    """The job after the change."""

    paused_until: str | None
    reminder: NotRequired[str]


class SkippedOut(ChangedOut):
    """The job, and the days and runs that it leaves out."""

    skips: list[str]


def changed_out(job: Job, look_alike: SimilarJob | None = None) -> ChangedOut:
    """Return a job that was just changed."""
    is_pending = job.status == Job.Status.PENDING
    if is_pending:
        read_activity(job)
    return {
        **job_out(job),
        "paused_until": answers.iso_or_none(job.paused_until, job.timezone),
        **_change_of(job),
        **reminder_out(job),
        **(answers.warning_on if is_pending else answers.pause_warning_on)(job, look_alike=look_alike),
    }


def _change_of(job: Job) -> ChangeOut:
    """Return what the call has changed in this job, and how to undo it."""
    if job.event is None:
        return {"changed": "", "note": UNCHANGED}
    event = job.event
    event.job = job
    match event.verb:
        case "pause" if not event.before:
            summary = "pending → paused"
        case "resume":
            summary = "paused → pending"
        case "restore":
            summary = f"stopped → {job.status}"
        case _:
            summary = summary_of(event)
    return {"changed": answers.line(summary, MAX_SUMMARY_LENGTH), "undo": answers.undo_call(event.pk)}
