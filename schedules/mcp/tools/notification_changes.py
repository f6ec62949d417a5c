"""Tools that pause, resume and delete scheduled notifications."""

from typing import Annotated

from django.db import DatabaseError, InterfaceError
from pydantic import Field

from schedules import services
from schedules.mcp import answers
from schedules.mcp.answers import refusals
from schedules.mcp.answers.notifications import ChangedOut, RefusedOut, failed, refusal_of
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import Reference
from schedules.models import Job
from schedules.result import Code, Err, Kind, Ok, Result

ScheduleId = Annotated[Reference, Field(description="Id, #number or exact name.")]


def pause_schedule(schedule_id: ScheduleId) -> ChangedOut | RefusedOut:
    """Pause a notification until resume_schedule is called; what falls into the pause is not sent. To pause
    until a time, use pause_job.
    """
    actor = current_actor()
    result = services.pause(actor, schedule_id)
    return _changed(result, schedule_id, paused=True)


def resume_schedule(schedule_id: ScheduleId) -> ChangedOut | RefusedOut:
    """End the pause of a notification: it goes on with its next scheduled time. Harmless if repeated."""
    actor = current_actor()
    result = services.resume(actor, schedule_id)
    return _changed(result, schedule_id, paused=False)


def delete_schedule(
    schedule_id: Annotated[
        Reference,
        Field(
            description="The schedule ID to delete. This ID is returned when creating a cron schedule. "
            "A #number or an exact name works too."
        ),
    ],
) -> ChangedOut | RefusedOut:
    """Delete a scheduled notification by its ID: it stops firing. Take the ID from the conversation or a list,
    and ask the user only if it is in neither. To stop it for a while, use pause_schedule. restore_job brings
    it back.
    """
    try:
        deleted = services.delete(current_actor(), schedule_id)
    except (DatabaseError, InterfaceError):
        # The connection may have broken after the change was made.
        reason = (
            "the database did not answer, so this may or may not have been done: look before you repeat it."
        )
        return failed(f"Failed to delete schedule: {reason}", schedule_id)
    match deleted:
        case Ok(job):
            confirmation = f"Schedule {job.public_id} deleted successfully"
            undo = answers.restore_call(job.public_id)
            return {"success": True, "schedule_id": job.public_id, "confirmation": confirmation, "undo": undo}
        case error:
            return refusal_of(error, {"schedule_id": schedule_id})


def _changed(result: Result[Job], schedule_id: str, *, paused: bool) -> ChangedOut | RefusedOut:
    requested = Job.Status.PAUSED if paused else Job.Status.PENDING
    match result:
        case Err(kind=Kind.WRONG_STATE, state=status) if status == requested:
            # A repeated call is harmless: the schedule already has the requested status.
            pass
        case Err(code=Code.INVALID) as error:
            way_out = "To do so, delete it with delete_schedule and schedule it anew."
            return failed(refusals.nothing_to_resume(error, way_out), schedule_id)
        case Err() as error:
            return refusal_of(error, {"schedule_id": schedule_id})
    done = "paused" if paused else "resumed"
    return {
        "success": True,
        "schedule_id": schedule_id,
        "paused": paused,
        "confirmation": f"Schedule {schedule_id} {done} successfully",
    }
