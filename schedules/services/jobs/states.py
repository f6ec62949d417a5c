"""Pause, resume, cancel, delete and restore a job: each checks the actor, changes one row and writes one event."""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction

from schedules import clock, engine, limits
from schedules.models import Event, Execution, Job
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.jobs.proposals import ask_to_confirm
from schedules.services.jobs.validation import no_runs_left, use_problem
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import (
    Actor,
    change_row,
    forbidden,
    locked_job,
    not_found,
    record,
    unconfirmed,
    wrong_state,
)
from schedules.services.quotas import room_problem, wait_for_owner
from schedules.tasks import registry
from schedules.when.durations import TICK
from schedules.when.triggers import TriggerError, unreadable

# How the pause reason begins if a restored job is paused because its time has passed.
CAME_DUE = ("It came due while the job ", "Its run was withdrawn ")
# How the reason of a run begins if the run was withdrawn with its deleted job.
_DELETED = "The job was deleted before"


def pause(
    actor: Actor,
    job_id: str,
    *,
    reason: str = "",
    until: datetime | None = None,
    must_be_active: bool = False,
) -> Result[Job]:
    """Pause a pending job until `until`, or until it is resumed; if it is paused, change the end of its pause.

    Without a new reason, a pause keeps its old one. A page that shows a job as active must not change the end of its
    pause: it passes `must_be_active`.
    """
    now = clock.now()
    if refusal := pause_problem(reason, until, now):
        return refusal
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if actor.is_agent and is_protected(job):
            return protected(job)
        if job.proposed_at:
            return unconfirmed(job)
        before = pause_of(job)
        match job.status:
            case Job.Status.PENDING:
                engine.pause(job, now, reason, until=until)
            case Job.Status.PAUSED if must_be_active:
                return wrong_state(job)
            case Job.Status.PAUSED if (until, reason or job.pause_reason) == (
                job.paused_until,
                job.pause_reason,
            ):
                return Ok(job)
            case Job.Status.PAUSED:
                change_row(job, now, paused_until=until, pause_reason=reason or job.pause_reason)
            case _:
                return wrong_state(job)
        record(actor, "pause", now, job=job, before=before, after=pause_of(job))
    return Ok(job)


pause_active = partial(pause, must_be_active=True)


def pause_problem(reason: str, until: datetime | None, now: datetime) -> Err | None:
    """Return what is wrong with the reason or the end of a pause."""
    if until is not None and (problem := limits.moment_problem(until)):
        return invalid("until", problem)
    if until is not None and until <= now:
        there = f"{now.astimezone(until.tzinfo):%Y-%m-%d %H:%M:%S} {until.tzinfo}"
        return invalid("until", f"Choose a time in the future (now {there}).")
    if len(reason) > limits.NAME_LENGTH or limits.line_problem(reason):
        return invalid("reason", f"Use at most {limits.NAME_LENGTH} printable characters.")
    return None


def pause_of(job: Job) -> dict[str, Any]:
    """Return what events store about the pause of a job."""
    if job.status != Job.Status.PAUSED:
        return {}
    return {"reason": job.pause_reason, "until": job.paused_until and job.paused_until.isoformat()}


def resume(actor: Actor, job_id: str) -> Result[Job]:
    """Resume a paused job, and record the slots within the pause as skipped."""
    now = clock.now()
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if actor.is_agent and is_protected(job):
            return protected(job)
        if job.status != Job.Status.PAUSED:
            return Err(Code.JOB_NOT_PAUSED, job_id, state=job.status)
        if job.proposed_at:
            return unconfirmed(job)
        if reason := use_problem(actor, job):
            return invalid("task", reason)
        before = pause_of(job)
        try:
            following = job.next_slot(now)
        except TriggerError as error:
            return invalid(error.field, f"{unreadable(error.reason)}.")
        if following is None:
            return no_runs_left(job, now)
        engine.rearm(job, now)
        record(actor, "resume", now, job=job, before=before)
    return Ok(job)


def cancel(actor: Actor, job_id: str, *, only: Collection[str] = Job.ACTIVE) -> Result[Job]:
    """Cancel a job that has one of these statuses: it never fires again, but a running run may finish.

    A due prompt that no agent holds counts as pending, and so does a message that quiet hours hold.
    """
    now = clock.now()
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if is_protected(job):
            return protected(job)
        if job.status not in only and not (Job.Status.PENDING in only and job.waits_to_start(now)):
            return wrong_state(job)
        before = before_cancel(job)
        account_until(job, now, "The job was stopped before this run.")
        change_row(job, now, status=Job.Status.CANCELLED, next_run_at=None, paused_until=None)
        if engine.withdraw(job, now, "stopped", also_manual=True):
            job.refresh_from_db()
        record(actor, "cancel", now, job=job, before=before, after={"status": "cancelled"})
    return Ok(job)


def delete(actor: Actor, job_id: str) -> Result[Job]:
    """Move a job to the trash: agents and lists no longer show it, but its runs stay."""
    now = clock.now()
    with transaction.atomic():
        job = locked_job(actor, job_id, may=actor.may_delete)
        if isinstance(job, Err):
            return job
        if is_protected(job):
            return protected(job)
        account_until(job, now, f"{_DELETED} this run.")
        change_row(job, now, deleted_at=now)
        if engine.withdraw(job, now, "deleted", also_manual=True):
            job.refresh_from_db()
        record(actor, "delete", now, job=job, before={"status": job.status})
    return Ok(job)


def before_cancel(job: Job) -> dict[str, Any]:
    """Return what events store about a cancelled job, so that it can be restored as it was."""
    until = {"until": job.paused_until.isoformat()} if job.paused_until else {}
    return {"status": job.status} | until


def restore(
    actor: Actor, job_id: str, *, is_deleted: bool | None = None, stopped_at: datetime | None = None
) -> Result[Job]:
    """Restore a job from the trash with its former status, or a cancelled job as paused if it was, else as pending.

    Record the slots since then as skipped. `is_deleted` requires that the job is in the trash, or that it is not: a
    repeated request for a cancelled job from the trash must not start it again. `stopped_at` requires that the job was
    deleted or cancelled at that moment, and not again since.
    """
    now = clock.now()
    with transaction.atomic():
        job = _restorable_job(actor, job_id, is_deleted)
        if isinstance(job, Err):
            return job
        stop = _stop_of(job)
        if stopped_at and stop.at != stopped_at:
            return Err(Code.JOB_STOPPED_AGAIN, job_id)
        if (job.status in Job.ACTIVE or stop.is_cancellation) and (refusal := _room_problem(actor, job)):
            return refusal
        change_row(job, now, deleted_at=None, **_columns_after(job, stop, now))
        engine.reopen_incident(job, now)
        record(actor, "restore", now, job=job)
        ask_to_confirm(actor, [job], now)
    job.refresh_from_db()
    return Ok(job)


def _restorable_job(actor: Actor, job_id: str, is_deleted: bool | None) -> Job | Err:
    """Lock a job that the actor may restore and use."""
    jobs = actor.restorable()
    if is_deleted is not None:
        jobs = jobs.filter(deleted_at__isnull=not is_deleted)
    wait_for_owner(job_id)
    job = jobs.select_for_update(of=("self",)).find(job_id)
    if job is None:
        active = actor.jobs().find(job_id)
        return wrong_state(active) if active else not_found(job_id)
    if not actor.may_change(job):
        return forbidden(job)
    reason = use_problem(actor, job)
    return invalid("task", reason) if reason else job


def _room_problem(actor: Actor, job: Job) -> Err | None:
    profile = actor.read_profile() if job.owner_id == actor.user.pk else profile_of(job.owner)
    return room_problem(profile, 1, job.runs_per_minute)


class _Stop(NamedTuple):
    """When a job was deleted or cancelled, and what the event stored about a cancelled one."""

    at: datetime | None
    before: Mapping[str, Any]
    is_cancellation: bool

    @property
    def description(self) -> str:
        return "was stopped" if self.is_cancellation else "was in the trash"


def _stop_of(job: Job) -> _Stop:
    if job.deleted_at:
        return _Stop(job.deleted_at, {}, is_cancellation=False)
    events = Event.objects.filter(job=job, verb="cancel").order_by("-pk").values_list("at", "before")
    at, before = events.first() or (None, {})
    return _Stop(at, before, is_cancellation=True)


def _columns_after(job: Job, stop: _Stop, now: datetime) -> dict[str, Any]:
    """Record the slots since a job was stopped, and return the columns of the restored job."""
    if job.status == Job.Status.RUNNING:
        return _columns_after_last_run(job, now)
    if job.status not in Job.ACTIVE and not stop.is_cancellation:
        return {}
    # Slots up to and including the moment of the stop are already recorded.
    engine.account_for(job, (stop.at or job.updated_at) + TICK, now, f"The job {stop.description}.")
    if job.proposed_at:
        return {"status": Job.Status.PAUSED, "paused_at": now}
    if job.status == Job.Status.PAUSED:
        return {"paused_at": now}
    until = _still_ahead(stop.before, now)
    if stop.before.get("status") == Job.Status.PAUSED and (until or "until" not in stop.before):
        return {"status": Job.Status.PAUSED, "paused_at": now, "paused_until": until}
    engine.delete_future_rows(job, now)
    following, problem = _slot_after(job, now)
    if following:
        return {"status": Job.Status.PENDING, "next_run_at": following, "has_unreadable_schedule": False}
    # Pause it, so that the owner decides what to do with it.
    engine.pause(job, now, problem or f"{CAME_DUE[0]}{stop.description}.")
    return {"has_unreadable_schedule": bool(problem)}


def _columns_after_last_run(job: Job, now: datetime) -> dict[str, Any]:
    """Return the final status of a job deleted during its last run; pause it if that run was withdrawn."""
    if Execution.objects.live().filter(job=job).exists():
        return {}
    last = Execution.objects.filter(job=job).order_by("-scheduled_for", "-pk").first()
    if last and last.status == Execution.Status.CANCELLED and last.reason.startswith(_DELETED):
        engine.pause(job, now, f"{CAME_DUE[1]}when the job was deleted.")
        return {}
    has_failed = last and last.status in (Execution.Status.FAILED, Execution.Status.LOST)
    is_once = job.trigger_type == Job.TriggerType.ONCE
    return {"status": Job.Status.FAILED if has_failed and is_once else Job.Status.COMPLETED}


def is_protected(job: Job) -> bool:
    """Return whether this is an active job of Cronty itself, which nobody may edit, cancel or delete."""
    task = registry.get(job.task)
    return bool(task and task.system) and job.status in Job.ACTIVE


def protected(job: Job) -> Err:
    return Err(Code.JOB_PROTECTED, job.public_id)


def account_until(job: Job, now: datetime, reason: str) -> None:
    """Record the slots until now as skipped; those within a pause get the reason of the pause."""
    if job.status == Job.Status.PAUSED and job.paused_at:
        engine.account_for_pause(job, now)
    else:
        engine.account_for(job, job.next_run_at, now, reason)


def account_until_each(jobs: Collection[Job], now: datetime, reason: str) -> None:
    """Do what `account_until` does for several jobs at once, before their rows are written."""
    paused = [job for job in jobs if job.status == Job.Status.PAUSED]
    others = [job for job in jobs if job.status != Job.Status.PAUSED]
    engine.account_for_each(others, "next_run_at", now, lambda job: reason)
    engine.account_for_pauses(paused, now)


def _still_ahead(before: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return the end of the pause that an event stored, unless it has passed."""
    until = datetime.fromisoformat(before["until"]) if before.get("until") else None
    return until if until and until > now else None


def _slot_after(job: Job, now: datetime) -> tuple[datetime | None, str]:
    """Return the next slot of a job, or None, and why its schedule cannot be read, or an empty string."""
    try:
        return job.next_slot(now), ""
    except TriggerError as error:
        return None, unreadable(error.reason)[: limits.NAME_LENGTH]
