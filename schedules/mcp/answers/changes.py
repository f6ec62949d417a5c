"""What a call has changed, and the call that undoes it."""

from typing import NotRequired

from typing_extensions import TypedDict

from schedules.mcp import answers
from schedules.models import Job
from schedules.services.activity import summary_of

LONGEST = 400
UNCHANGED = "Nothing was changed: the job is like this already."


class ChangeOut(TypedDict):
    """What has changed, as "old → new", and the call that undoes it."""

    changed: NotRequired[str]
    undo: NotRequired[str]
    note: NotRequired[str]


def change_of(job: Job) -> ChangeOut:
    """Return what the call that has just changed this job has changed, and how to undo it."""
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
    return {"changed": answers.line(summary, LONGEST), "undo": answers.undo_call(event.pk)}
