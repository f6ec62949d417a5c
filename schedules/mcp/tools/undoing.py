"""The tool that undoes changes of jobs."""

import re
from typing import Annotated, Any, NotRequired

from pydantic import BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from schedules.mcp import answers
from schedules.mcp.answers.bulk import ShownJobOut, first_jobs
from schedules.mcp.answers.refusals import ErrorOut, refusal_of
from schedules.mcp.auth import current_actor
from schedules.mcp.messages import message_of
from schedules.result import Err, invalid
from schedules.services.jobs import undo

_NUMBER = re.compile(r"\D*([0-9]{1,18})\D*")


class UndoneOut(TypedDict):
    """How many jobs are as they were before, the first of them by name, and which could not be undone."""

    undone: int
    jobs: list[ShownJobOut]
    note: NotRequired[str]


def _change_number(value: Any) -> Any:
    """Accept the whole call that an answer shows, like "undo_change(change=17)"."""
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) if match else value


def undo_change(
    change: Annotated[
        int | None,
        BeforeValidator(_change_number),
        WithJsonSchema({"type": "integer"}),
        Field(description="The number in an answer's `undo`. Default: your last call."),
    ] = None,
) -> UndoneOut | ErrorOut:
    """Undo your last call that made or changed jobs, or any change by its number
    ("undo that"). A job edited since stays as it is.
    """
    actor = current_actor()
    if change is None:
        events = undo.last_call(actor)
        nothing = invalid("change", "you have changed nothing that can be undone")
    else:
        events = undo.events_of_call(actor, change)
        nothing = invalid("change", "no change with this number that can still be undone")
    if isinstance(events, Err):
        return refusal_of(events, {})
    result = undo.undo(actor, events) if events else nothing
    if isinstance(result, Err):
        return refusal_of(result, {"job_id": result.subject})
    out: UndoneOut = {"undone": len(result.value.jobs), "jobs": first_jobs(result.value.jobs)}
    if result.value.refused:
        event, error = result.value.refused[0]
        out["note"] = (
            f"{len(result.value.refused)} could not be undone, like {answers.line(event.subject, 200)}: "
            f"{message_of(error)}"
        )
    return out
