"""Tools to change, copy, pause, skip and restore a job."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, StrictBool

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.answers import refusals
from schedules.mcp.answers.jobs import reminder_out
from schedules.mcp.answers.refusals import expect
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import (
    POLICIES,
    Columns,
    IdempotencyKey,
    JobId,
    TextList,
    ZoneText,
    name_of_job,
    options,
)
from schedules.mcp.tools.triggers import Config, changed_trigger, read_policies
from schedules.models import Job
from schedules.result import Code, Err, Ok, RefusedError, Result, invalid
from schedules.secrets import masking
from schedules.services.activity import summary_of
from schedules.services.jobs.copying import copy_job as copy
from schedules.services.jobs.masked_arguments import merged_arguments
from schedules.services.jobs.references import zone_of_job
from schedules.services.jobs.validation import with_given
from schedules.services.permissions import not_found, read_activity
from schedules.services.reading import days_and_slots, read_pause_end
from schedules.services.runs.actions import runs_around
from schedules.services.runs.answers import answer_in_words
from schedules.when.durations import HORIZON
from schedules.when.triggers import TriggerError

MAX_SUMMARY_LENGTH = 400
CHANGES = options(
    "label",
    "tags",
    *POLICIES,
    "fixed_backoff",
    "alerts",
    max_runs="Stop after so many runs; 0: never.",
    ends_at="No run after it; none: no end.",
)
_IS_PAUSED = (
    "It is paused and does not run. Tell the user, and call resume_job if it should; if its time has passed, give it "
    "a new one with update_job first."
)


def update_job(
    job_id: JobId,
    name: Annotated[str | None, Field(description="The new name.")] = None,
    args: Annotated[list[Any] | None, Field(description="New positional arguments.")] = None,
    kwargs: Annotated[
        dict[str, Any] | None,
        Field(description="Arguments to change; others stay, null removes one."),
    ] = None,
    trigger_type: Annotated[str | None, Field(description="once, interval or cron.")] = None,
    trigger_config: Annotated[
        Config | None,
        Field(description='Like {"expression": "30 8 * * 1-5"}.'),
    ] = None,
    timezone: Annotated[ZoneText | None, Field(description="The new zone.")] = None,
    answer: Annotated[
        str | None, Field(description="The user's answer to its reminder: done, skip, undo, snooze 1h.")
    ] = None,
    **others: Annotated[Any, CHANGES],
) -> Any:
    """Change a pending or paused job; what is left out stays. Id and history are kept."""
    actor = current_actor()
    job = _job_of(actor, job_id)
    if answer is not None:
        answered = expect(answer_in_words(actor, job.public_id, answer))
        rest = (name, args, kwargs, trigger_type, trigger_config, timezone)
        if not others and all(each is None for each in rest):
            return changed_out(answered.job)
        job.refresh_from_db()
    given = {"name": name, "args": args, "kwargs": kwargs, "timezone": timezone, **others}
    quoted = {"task": job.task, "timezone": timezone or job.timezone}
    changes = expect(_read_changes(job, given, trigger_type, trigger_config), **quoted)
    if name is None and job.name == name_of_job(job):
        # A derived name follows the arguments that it was derived from.
        changes["name"] = name_of_job(job, **changes)
    edited = expect(services.edit(actor, job.public_id, seen=job, **changes), **quoted)
    is_renamed = changes.get("name", job.name) != job.name
    out = changed_out(edited, services.look_alike(actor, edited) if is_renamed else None)
    return _with_pause_warning(edited, out)


def copy_job(
    job_id: JobId,
    name: Annotated[str | None, Field(description="Name of the copy.")] = None,
    kwargs: Annotated[
        dict[str, Any] | None, Field(description='Changed arguments, like {"topic": "anna"}.')
    ] = None,
    trigger_type: Annotated[str | None, Field(description="once, interval or cron.")] = None,
    trigger_config: Annotated[Config | None, Field(description="As in schedule_job.")] = None,
    timezone: Annotated[ZoneText | None, Field(description="Another zone.")] = None,
    tags: Annotated[TextList | None, Field(description="Other tags.")] = None,
    idempotency_key: IdempotencyKey = None,
) -> Any:
    """Make a new job like another one ("copy it for my partner"); what is left out is the same. Report the
    description. Change the rest with update_job.
    """
    actor = current_actor()
    job = _job_of(actor, job_id)
    given = {"name": name, "kwargs": kwargs, "timezone": timezone, "tags": tags}
    quoted = {"task": job.task, "timezone": timezone or job.timezone}
    changes = expect(_read_changes(job, given, trigger_type, trigger_config), **quoted)
    changes["name"] = name or _name_of_copy(job, changes)
    when = {"trigger_type": trigger_type, "trigger_config": trigger_config or {}}
    request = {"job_id": job.public_id, **given, **when}
    copied = copy(actor, job, changes, idempotency_key=idempotency_key, request=request)
    made = expect(copied, **quoted)
    return {**answers.job_out(made.job), **answers.advice_on(made)}


def _job_of(actor: services.Actor, job_id: str) -> Job:
    job = actor.jobs().find(job_id)
    if job is None:
        raise RefusedError(not_found(job_id))
    return job


def _name_of_copy(job: Job, changes: Columns) -> str:
    """Return a name that distinguishes the copy: the new text of a reminder, else the job's name with "(copy)"."""
    derived = name_of_job(job, **changes)
    if derived and derived != job.name == name_of_job(job):
        return derived
    return f"{answers.line(job.name, 190)} (copy)"


def _read_changes(
    job: Job, given: Mapping[str, Any], trigger_type: str | None, config: Mapping[str, Any] | None
) -> Result[Columns]:
    """Return the new columns of a job; what is None stays."""
    args, kwargs, zone = given.get("args"), given["kwargs"], given["timezone"]
    if masking.has_mask([args, kwargs]):
        return invalid("kwargs", f"write the real value instead of {masking.MASK}")
    policies = read_policies(given, zone or job.timezone, clock.now())
    if isinstance(policies, Err):
        return policies
    trigger = changed_trigger(job, trigger_type, config, zone or job.timezone)
    if isinstance(trigger, Err):
        return trigger
    changes = policies.value | {
        field: given[field] for field in ("name", "timezone") if given[field] is not None
    }
    if args is not None or kwargs is not None:
        changes["args"], changes["kwargs"] = merged_arguments(job, args, kwargs or {})
    return with_given(trigger.value, changes)


def pause_job(
    job_id: JobId,
    until: Annotated[
        str | None,
        Field(
            description="When it goes on, like monday or 2026-12-24 (its start), in the job's zone. "
            "Default: no end."
        ),
    ] = None,
    reason: Annotated[str | None, Field(description="Why, for the user to read later.")] = None,
) -> Any:
    """Stop a job for a while; runs meanwhile are skipped. resume_job ends the pause. Call it again to change
    the end. To leave out single days, use skip_runs.
    """
    actor = current_actor()
    zone = "" if until is None else zone_of_job(actor, job_id)
    end = read_pause_end(until, zone, clock.now())
    return changed_out(expect(services.pause(actor, job_id, reason=reason or "", until=end)))


def resume_job(job_id: JobId) -> Any:
    """End a pause: the job goes on with its next scheduled time. Harmless if it is not paused."""
    actor = current_actor()
    result = services.resume(actor, job_id)
    match result:
        case Err(code=Code.INVALID):
            way_out = "Change its schedule with update_job first, or cancel it and make it anew."
            return {"error": refusals.nothing_to_resume(result, way_out)}
        case Err(state=Job.Status.PENDING) if job := actor.jobs().find(job_id):
            result = Ok(job)
    return changed_out(expect(result))


def skip_runs(
    job_id: JobId,
    dates: Annotated[
        TextList | None,
        Field(
            description="Days like tomorrow or 2026-12-24 in the job's zone, or runs in ISO 8601. "
            "Default: the next run."
        ),
    ] = None,
    undo: Annotated[
        StrictBool | None, Field(description="Let them run after all; without dates, every skipped run.")
    ] = None,
) -> Any:
    """Leave out the next run of a repeating job, or its runs on certain days ("not on 24 December"); then it
    goes on. To stop it for a period, use pause_job.
    """
    actor, now = current_actor(), clock.now()
    job = actor.jobs().find(job_id) if dates else None
    zone = job.timezone if job else actor.read_profile().zone
    days, slots = days_and_slots(dates or [], zone, now)
    notes = _without_runs(job, days, now) if job and not undo else {}
    if job and notes and not slots and notes.keys() == set(days):
        read_activity(job)
    else:
        kept = [day for day in days if day not in notes]
        job = expect(services.skip(actor, job_id, kept, slots, undo=bool(undo)))
    out = changed_out(job) | {"skips": answers.skips_of(job)}
    return _with_warnings(out, *notes.values(), out.get("warning"))


def _without_runs(job: Job, days: Sequence[date], now: datetime) -> dict[date, str]:
    """Name the nearest runs for each of these days on which a job has none."""
    notes: dict[date, str] = {}
    if job.trigger_type == Job.TriggerType.ONCE or job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
        return notes
    for day in days:
        if now.date() - timedelta(days=1) <= day <= (now + HORIZON).date():
            with suppress(TriggerError):
                if around := runs_around(job, day, now):
                    nearest = ", ".join(f"{near.day} {near:%b}" for near in around if near) or "none"
                    notes[day] = f"No run falls on {day}; nearest: {nearest}."
    return notes


def restore_job(job_id: JobId) -> Any:
    """Bring back a job after cancel_job or delete_schedule. Runs that it has missed are skipped."""
    job = expect(services.restore(current_actor(), job_id))
    return _with_pause_warning(job, changed_out(job))


def changed_out(job: Job, look_alike: Any = None) -> dict[str, Any]:
    """Return a job that was just changed: what has changed in it, and the call that undoes it."""
    is_pending = job.status == Job.Status.PENDING
    if is_pending:
        read_activity(job)
    return {
        **answers.job_out(job),
        "paused_until": answers.iso_or_none(job.paused_until, job.timezone),
        **_change_of(job),
        **reminder_out(job),
        **(answers.warning_on if is_pending else answers.pause_warning_on)(job, look_alike=look_alike),
    }


def _change_of(job: Job) -> dict[str, str]:
    if job.event is None:
        return {"changed": "", "note": "Nothing was changed: the job is like this already."}
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


def _with_pause_warning(job: Job, out: dict[str, Any]) -> dict[str, Any]:
    """Warn that a job is paused without an end: whoever changed or restored it may expect it to run."""
    is_paused = job.status == Job.Status.PAUSED and job.paused_until is None and job.proposed_at is None
    return _with_warnings(out, out.get("warning"), _IS_PAUSED) if is_paused else out


def _with_warnings(out: dict[str, Any], *warnings: str | None) -> dict[str, Any]:
    text = " ".join(filter(None, warnings))
    return out | {"warning": text} if text else out
