"""Tools to change, pause, skip and restore a job."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Unpack, cast

from pydantic import Field, StrictBool

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.answers import refusals
from schedules.mcp.answers.changes import ChangedOut, SkippedOut, changed_out
from schedules.mcp.answers.job_refusals import ErrorOut, refusal_of
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import ChangedPolicies, JobId, TextList, Whole, ZoneText
from schedules.mcp.tools.moments import read_moment
from schedules.mcp.tools.policies import derived_name, read_policies
from schedules.mcp.tools.triggers import Config, changed_trigger
from schedules.models import Job
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.secrets import masking
from schedules.services.jobs.masked_arguments import merged_arguments
from schedules.services.jobs.references import zone_of_job
from schedules.services.jobs.validation import with_given
from schedules.services.permissions import read_activity
from schedules.services.runs.actions import runs_around
from schedules.services.runs.answers import answer_in_words
from schedules.when.durations import HORIZON
from schedules.when.phrases import PhraseError, parse_day
from schedules.when.triggers import TriggerError

_MOMENT = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]\s*[0-9]")


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
    max_runs: Annotated[Whole | None, Field(description="Stop after so many runs; 0: never.")] = None,
    ends_at: Annotated[str | None, Field(description="No run after it; none: no end.")] = None,
    label: Annotated[str | None, Field(description="A new label.")] = None,
    tags: Annotated[TextList | None, Field(description="New tags, instead of all old.")] = None,
    answer: Annotated[
        str | None, Field(description="The user's answer to its reminder: done, skip, undo, snooze 1h.")
    ] = None,
    **options: Unpack[ChangedPolicies],
) -> ChangedOut | ErrorOut:
    """Change a pending or paused job; what is left out stays. Id and history are kept."""
    actor = current_actor()
    job = actor.jobs().find(job_id)
    if job is None:
        return refusal_of(services.permissions.not_found(job_id), {"job_id": job_id})
    if answer is not None:
        answered = answer_in_words(actor, job.public_id, answer)
        if isinstance(answered, Err):
            return refusal_of(answered, {"job_id": job_id})
        others = (name, args, kwargs, trigger_type, trigger_config, timezone, max_runs, ends_at, label, tags)
        if not options and all(each is None for each in others):
            return _changed(Ok(answered.value.job), {"job_id": job_id})
        job.refresh_from_db()
    zone = job.timezone if timezone is None else timezone
    request: dict[str, Any] = {
        "job_id": job_id,
        "task": job.task,
        "trigger_type": trigger_type,
        "trigger_config": trigger_config or {},
        "timezone": zone,
        "max_runs": max_runs,
    }
    changes: dict[str, Any] = {
        field: value for field, value in {"name": name, "timezone": timezone}.items() if value is not None
    }
    if args is not None or kwargs is not None:
        changes["args"], changes["kwargs"] = merged_arguments(job, args, kwargs or {})
    if masking.has_mask([args, kwargs]):
        return refusal_of(invalid("kwargs", f"write the real value instead of {masking.MASK}"), request)
    limits = {"max_runs": max_runs, "ends_at": ends_at}
    policies = read_policies({**options, **limits, "label": label, "tags": tags}, zone, clock.now())
    if isinstance(policies, Err):
        return refusal_of(policies, request)
    changes |= policies.value
    trigger = changed_trigger(job, trigger_type, trigger_config, zone)
    fields = trigger if isinstance(trigger, Err) else with_given(trigger.value, changes)
    if isinstance(fields, Err):
        return refusal_of(fields, request)
    changes = fields.value
    if name is None and job.name == derived_name(job):
        # A derived name follows the arguments that it was derived from.
        new = {field: changes.get(field, getattr(job, field)) for field in ("args", "kwargs", "label")}
        changes["name"] = derived_name(Job(task=job.task, **new))
    is_renamed = changes.get("name", job.name) != job.name
    edited = services.edit(actor, job.public_id, seen=job, **changes)
    is_proposed = isinstance(edited, Ok) and edited.value.proposed_at is not None
    out = _changed(edited, request, is_renamed=is_renamed)
    return out if is_proposed else _with_pause_warning(out)


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
) -> ChangedOut | ErrorOut:
    """Stop a job for a while; runs meanwhile are skipped. resume_job ends the pause. Call it again to change
    the end. To leave out single days, use skip_runs.
    """
    actor, moment = current_actor(), None
    request = {"job_id": job_id}
    if until is not None:
        match read_moment(until, zone_of_job(actor, job_id), clock.now(), "until", may_be_day=True):
            case Ok(end):
                moment = end
            case error:
                return refusal_of(error, request)
    return _changed(services.pause(actor, job_id, reason=reason or "", until=moment), request)


def resume_job(job_id: JobId) -> ChangedOut | ErrorOut:
    """End a pause: the job goes on with its next scheduled time. Harmless if it is not paused."""
    request = {"job_id": job_id}
    match services.resume(current_actor(), job_id):
        case Err(code=Code.INVALID) as error:
            way_out = "Change its schedule with update_job first, or cancel it and make it anew."
            return {"error": refusals.nothing_to_resume(error, way_out)}
        case result:
            return _changed(_accept_unchanged(result, job_id, Job.Status.PENDING), request)


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
) -> SkippedOut | ErrorOut:
    """Leave out the next run of a repeating job, or its runs on certain days ("not on 24 December"); then it
    goes on. To stop it for a period, use pause_job.
    """
    actor, now, days, slots = current_actor(), clock.now(), [], []
    request = {"job_id": job_id}
    job = actor.jobs().find(job_id) if dates else None
    zone = job.timezone if job else actor.read_profile().zone
    for text in dates or []:
        if _MOMENT.match(text):
            match read_moment(text, zone, now, "dates"):
                case Ok(slot):
                    slots.append(slot)
                    continue
                case error:
                    return refusal_of(error, request)
        try:
            days.append(parse_day(text, now=now, timezone=zone))
        except (PhraseError, TriggerError) as parse_error:
            return refusal_of(invalid("dates", str(parse_error)), request)
    notes = _without_runs(job, days, now) if job and not undo else {}
    if job and notes and not slots and notes.keys() == set(days):
        read_activity(job)
        return _with_notes({**changed_out(job), "skips": answers.skips_of(job)}, notes.values())
    match services.skip(actor, job_id, [day for day in days if day not in notes], slots, undo=bool(undo)):
        case Ok(job):
            return _with_notes({**changed_out(job), "skips": answers.skips_of(job)}, notes.values())
        case error:
            return refusal_of(error, request)


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


def _with_notes(out: SkippedOut, notes: Iterable[str]) -> SkippedOut:
    if warning := " ".join(filter(None, (*notes, out.get("warning")))):
        out["warning"] = warning
    return out


def restore_job(job_id: JobId) -> ChangedOut | ErrorOut:
    """Bring back a job after cancel_job or delete_schedule. Runs that it has missed are skipped."""
    restored = services.restore(current_actor(), job_id)
    out = _changed(restored, {"job_id": job_id})
    is_proposed = isinstance(restored, Ok) and restored.value.proposed_at is not None
    return out if is_proposed else _with_pause_warning(out)


def _changed(
    result: Result[Job], request: Mapping[str, Any], *, is_renamed: bool = False
) -> ChangedOut | ErrorOut:
    match result:
        case Ok(job):
            return changed_out(job, services.look_alike(current_actor(), job) if is_renamed else None)
        case error:
            return refusal_of(error, request)


def _with_pause_warning(out: ChangedOut | ErrorOut) -> ChangedOut | ErrorOut:
    """Warn that a job is paused without an end: whoever changed or restored it may expect it to run."""
    if out.get("status") == Job.Status.PAUSED and out.get("paused_until") is None:
        warning = "It is paused and does not run. Tell the user, and call resume_job if it should; if its time has passed, give it a new one with update_job first."
        changed = cast(ChangedOut, out)
        changed["warning"] = " ".join(filter(None, (changed.get("warning"), warning)))
    return out


def _accept_unchanged(result: Result[Job], job_id: str, status: Job.Status) -> Result[Job]:
    """Treat a job that already has this status as a success: a repeated call is harmless."""
    if isinstance(result, Ok) or result.state != status:
        return result
    job = current_actor().jobs().find(job_id)
    return Ok(job) if job else result
