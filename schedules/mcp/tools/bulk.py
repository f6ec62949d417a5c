"""The tool that changes many jobs at once: show what would change, and change it once a person has agreed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from schedules import clock
from schedules.mcp import answers
from schedules.mcp.answers.bulk import (
    SHOWN,
    ChangedJobsOut,
    ShownJobOut,
    WouldChangeOut,
    changed_out,
    first_jobs,
    shown_edit,
)
from schedules.mcp.answers.refusals import refusal_of
from schedules.mcp.auth import current_actor
from schedules.mcp.messages import message_of
from schedules.mcp.tools.arguments import Group, TextList, ZoneText
from schedules.mcp.tools.filters import FILTERS, read_filter
from schedules.mcp.tools.moments import read_moment
from schedules.result import Code, Err, invalid
from schedules.services import Actor
from schedules.services.jobs import bulk, moves
from schedules.services.jobs.later_moves import move_later
from schedules.services.jobs.move_words import read_clock, read_move
from schedules.services.jobs.pause_all import pause_reason, what_goes_on
from schedules.services.jobs.states import pause_problem

UPDATE = "update"
ACTIONS = [*bulk.STATUSES, UPDATE]
ONLY_A_PAUSE = "only a pause has an end and a reason"
NEXT_STEP = "Nothing has been changed. Show this to the user; if they agree, repeat the call with confirm, within ten minutes."


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
    action: Annotated[str, Field(description="What to do with them.", json_schema_extra={"enum": ACTIONS})],
    until: Annotated[str | None, Field(description="End of a pause, like monday (its start).")] = None,
    reason: Annotated[str | None, Field(description="Why they are paused.")] = None,
    confirm: Annotated[str | None, Field(description="From the first answer.")] = None,
    **filters: Annotated[Any, FILTERS | OF_UPDATE],
) -> Any:
    """Do the same to all jobs that match, up to 500 ("pause everything tagged home until Monday", "move my 8:30
    reminders to 9:00"). The first call only answers what it would change: show that to the user, then repeat
    the call with `confirm`. For one job, use pause_job, cancel_job or update_job.
    """
    actor = current_actor()
    if action == UPDATE:
        planned = _plan_edits(actor, filters, until, reason)
    else:
        planned = _plan_change(actor, action, filters, until, reason)
    answer = planned if isinstance(planned, Err) else _apply_or_show(actor, planned, confirm)
    return refusal_of(answer, filters) if isinstance(answer, Err) else answer


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What a call would change, and the function that changes it."""

    request: dict[str, Any]
    """What a person confirms, together with the revisions of the jobs."""
    revisions: list[tuple[int, int]]
    jobs: list[ShownJobOut]
    """The first of the jobs, as an answer shows them."""
    notes: list[str]
    if_nothing: str
    apply: Callable[[], ChangedJobsOut | Err]
    paused_until: str | None = None
    starting: str | None = None


def _apply_or_show(actor: Actor, plan: _Plan, confirm: str | None) -> WouldChangeOut | ChangedJobsOut | Err:
    """Apply the plan if a person has confirmed exactly this plan; else show it."""
    stale = None
    if confirm and plan.revisions:
        stale = bulk.confirmation_problem(actor, confirm, plan.request, plan.revisions)
        if not stale:
            return plan.apply()
    out: WouldChangeOut = {
        "would_change": len(plan.revisions),
        "jobs": plan.jobs,
        "next_step": " ".join([*plan.notes, NEXT_STEP if plan.revisions else plan.if_nothing]),
    }
    if plan.revisions and plan.paused_until:
        out["paused_until"] = plan.paused_until
    if plan.starting:
        out["starting"] = plan.starting
    if plan.revisions:
        out["confirm"] = bulk.confirmation_of(actor, plan.request, plan.revisions)
    if stale:
        out["error"] = message_of(stale)
    return out


def _plan_change(
    actor: Actor, action: str, filters: Mapping[str, Any], until: str | None, reason: str | None
) -> _Plan | Err:
    """Plan to pause, resume, cancel or delete the jobs that match."""
    if action not in bulk.STATUSES:
        return invalid("action", f"choose one of: {', '.join(ACTIONS)}")
    if action != "pause" and (until is not None or reason is not None):
        return invalid("until", ONLY_A_PAUSE)
    if misplaced := next((name for name in filters if name in OF_UPDATE), None):
        return invalid(misplaced, 'only action "update" takes it')
    query = read_filter(actor, filters)
    if isinstance(query, Err):
        return query
    now, zone = clock.now(), actor.read_profile().zone
    end = None
    if until is not None:
        moment = read_moment(until, zone, now, "until", may_be_day=True)
        if isinstance(moment, Err):
            return moment
        end = moment.value
    is_everything = action == "pause" and query.value.selects_all_pending
    stored_reason = pause_reason(reason or "", is_everything=is_everything)
    if problem := pause_problem(stored_reason, end, now):
        return problem
    jobs, are_runs_cut = bulk.matching_jobs(actor, action, query.value)
    if len(jobs) > bulk.MAX_JOBS:
        return Err(Code.TOO_MANY_MATCHES, limit=bulk.MAX_JOBS)
    keys = [job.pk for job in jobs]
    ending = bulk.count_ending(keys, end) if end else 0
    notes = [f"Jobs that have no run left after this pause, and end: {ending}."] if ending else []
    if is_everything and (going_on := what_goes_on(actor)):
        notes.append(going_on)
    paused_until = answers.iso(end, zone) if end else None

    def apply() -> ChangedJobsOut | Err:
        done = bulk.change_jobs(actor, action, keys, reason=stored_reason, until=end)
        if isinstance(done, Err):
            return done
        out = changed_out(done.value, first_jobs(done.value.jobs), notes)
        return {**out, "paused_until": paused_until} if paused_until else out

    return _Plan(
        # A phrase like "in an hour" means a later moment in the second call, so the phrase is confirmed.
        request={"action": action, "until": until, "reason": reason, "filters": filters},
        revisions=[(job.pk, job.revision) for job in jobs],
        jobs=first_jobs(jobs),
        notes=[answers.OLDER_RUNS, *notes] if are_runs_cut else notes,
        if_nothing="No job matches: nothing is to be done.",
        apply=apply,
        paused_until=paused_until,
    )


def _plan_edits(
    actor: Actor, filters: Mapping[str, Any], until: str | None, reason: str | None
) -> _Plan | Err:
    """Plan the same edit of all jobs that match, at once or at a later moment."""
    if until is not None or reason is not None:
        return invalid("until", ONLY_A_PAUSE)
    query = read_filter(actor, {name: value for name, value in filters.items() if name in FILTERS})
    if isinstance(query, Err):
        return query
    read = read_move(filters, clock.now())
    if isinstance(read, Err):
        return read
    move, at = read.value, read_clock(filters.get("at_time"), "at_time")
    if isinstance(at, Err):
        return at
    start = _read_start(actor, filters)
    if isinstance(start, Err):
        return start
    jobs, are_runs_cut = moves.jobs_to_move(
        actor, query.value, timezone=filters.get("in_timezone"), at=at.value
    )
    if len(jobs) > bulk.MAX_JOBS:
        return Err(Code.TOO_MANY_MATCHES, limit=bulk.MAX_JOBS)
    plan = moves.plan_moves(actor, jobs, move)
    revisions = {edit.old.pk: edit.old.revision for edit in plan.edits}
    shown = [shown_edit(edit) for edit in plan.edits[:SHOWN]]
    notes = []
    if plan.unmoved:
        job, why = plan.unmoved[0]
        notes.append(f"{len(plan.unmoved)} stay as they are, like {answers.line(job.name, 200)}: {why}.")

    def apply() -> ChangedJobsOut | Err:
        if start:
            return _edit_later(actor, plan, move, start, notes)
        done = moves.move_jobs(actor, list(revisions), revisions, move)
        return done if isinstance(done, Err) else changed_out(done.value, shown, notes)

    return _Plan(
        request={"action": UPDATE, "filters": filters},
        revisions=[*revisions.items()],
        jobs=shown,
        notes=[answers.OLDER_RUNS, *notes] if are_runs_cut else notes,
        if_nothing="No job would change.",
        apply=apply,
        starting=answers.iso(start, actor.read_profile().zone) if start else None,
    )


def _edit_later(
    actor: Actor, plan: moves.Plan, move: moves.Move, start: datetime, notes: list[str]
) -> ChangedJobsOut | Err:
    """Create the job that makes these edits later."""
    day = answers.iso(start, actor.read_profile().zone)
    made = move_later(actor, [edit.old for edit in plan.edits], move, start)
    if isinstance(made, Err):
        return made
    job = made.value.job
    note = f"Nothing has changed yet: job {job.public_id} makes these changes at {day}; cancel_job stops it."
    out: ChangedJobsOut = {"changed": 0, "jobs": [shown_edit(edit) for edit in plan.edits[:SHOWN]]}
    if job.event:
        out["undo"] = answers.undo_call(job.event.pk)
    return {**out, "starting": day, "note": " ".join([*notes, note])}


def _read_start(actor: Actor, options: Mapping[str, Any]) -> datetime | Err | None:
    if (text := options.get("starting")) is None:
        return None
    now = clock.now()
    moment = read_moment(text, actor.read_profile().zone, now, "starting", may_be_day=True)
    if isinstance(moment, Err):
        return moment
    return (
        moment.value if moment.value > now else invalid("starting", "it is in the past; leave it out for now")
    )
