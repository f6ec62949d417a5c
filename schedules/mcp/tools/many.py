"""The tools for many jobs at once, and for what a call has changed: show and confirm a change, and undo one."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from schedules.mcp import answers
from schedules.mcp.answers.refusals import RefusedCallError
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import FILTERS, Group, TextList, ZoneText, checked_filters
from schedules.result import Err, expect
from schedules.services.jobs import many

NEXT_STEP = "Nothing has been changed. Show this to the user; if they agree, repeat the call with confirm, within ten minutes."
NOTHING = "No job matches, or none would change: nothing is to be done."
_NUMBER = re.compile(r"\D*([0-9]{1,18})\D*")

# What an update changes in the jobs that match.
OF_UPDATE: Group = {
    "at_time": Annotated[str | None, Field(description="Only at this time of day, like 8:30.")],
    "in_timezone": Annotated[ZoneText | None, Field(description="Only in this zone.")],
    "shift": Annotated[str | None, Field(description="Later by 30m, earlier by -1h.")],
    "time": Annotated[str | None, Field(description="New time of day, HH:MM.")],
    "timezone": Annotated[ZoneText | None, Field(description="New zone.")],
    "add_tags": Annotated[TextList | None, Field(description="For update.")],
    "remove_tags": Annotated[TextList | None, Field(description="For update.")],
    "topic": Annotated[str | None, Field(description="New topic.")],
    "starting": Annotated[str | None, Field(description="When to update, like 2026-12-01. Default: now.")],
}


def bulk_jobs(
    action: Annotated[
        str, Field(description="What to do with them.", json_schema_extra={"enum": [*many.ACTIONS]})
    ],
    until: Annotated[str | None, Field(description="End of a pause, like monday (its start).")] = None,
    reason: Annotated[str | None, Field(description="Why they are paused.")] = None,
    confirm: Annotated[str | None, Field(description="From the first answer.")] = None,
    **request: Annotated[Any, FILTERS | OF_UPDATE],
) -> Any:
    """Do the same to all jobs that match, up to 500 ("pause everything tagged home until Monday", "move my 8:30
    reminders to 9:00"). The first call only answers what it would change: show that to the user, then repeat
    the call with `confirm`. For one job, use pause_job, cancel_job or update_job.
    """
    given = checked_filters(request) | {"until": until, "reason": reason}
    changed = expect(many.change_jobs(current_actor(), action, confirm=confirm, **given))
    out = {name: value for name, value in answers.printable(changed).items() if value is not None}
    if not out["is_done"]:
        out["next_step"] = NEXT_STEP if out["count"] else NOTHING
    elif "undo" in out:
        out["undo"] = answers.undo_call(out["undo"])
    return out


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
) -> Any:
    """Undo your last call that made or changed jobs, or any change by its number
    ("undo that"). A job edited since stays as it is.
    """
    undone = many.undo_change(current_actor(), change=change)
    if isinstance(undone, Err):
        raise RefusedCallError(undone, {"job_id": undone.subject})
    return answers.printable(undone.value)
