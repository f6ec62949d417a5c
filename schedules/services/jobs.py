"""Changes of jobs, from creation to deletion: each function checks the owner, changes one row and writes one event."""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import F

from schedules import clock, engine, limits
from schedules.models import Execution, Job, Profile
from schedules.models.jobs import new_public_id
from schedules.result import Code, Err, Ok, Result, invalid, invalid_fields
from schedules.services.actors import Actor, forbidden, not_found, record
from schedules.services.duplicates import Scheduled, answer_of_key, digest_of, similar_to
from schedules.services.lookalikes import look_alike, skeleton
from schedules.services.people import profile_of
from schedules.services.quotas import (
    quota_problem,
    rate_problem,
    reschedule_problem,
    run_problem,
    wait_for_turn,
)
from schedules.services.secrets import fill_in
from schedules.services.validation import EDITABLE, editable_only, job_problem, no_runs_left, type_problems
from schedules.tasks import registry
from schedules.when.forecast import runs_per_minute
from schedules.when.triggers import TriggerError, unreadable

WAITING_MANUAL_RUNS = 10
EDIT_TRIES = 3
# The slots up to and including the moment of a stop are already accounted for.
_TICK = timedelta(microseconds=1)


def schedule(
    actor: Actor,
    *,
    prefix: str = "job",
    paused: bool = False,
    idempotency_key: str | None = None,
    request: Mapping[str, Any] | None = None,
    profile: Profile | None = None,
    **fields: Any,
) -> Result[Scheduled]:
    """Create a job from its editable columns; for missing ones, use the defaults of the task or the model.

    `request` is the caller's input, for the idempotency key, if the columns depend on the time of the call ("in 20
    minutes"). `profile` is the actor's profile, if the caller has already read it.
    """
    fields = editable_only(fields)
    now = clock.now()
    if problems := type_problems(fields):
        return invalid_fields(problems)
    if isinstance(filled := fill_in(None, fields), Err):
        return filled
    digest = digest_of(fields if request is None else request)
    if idempotency_key is not None:
        if not 0 < len(idempotency_key) <= limits.NAME_LENGTH or limits.line_problem(idempotency_key):
            return invalid("idempotency_key", "Use 1 to 200 printable characters.")
        if answer := answer_of_key(actor, idempotency_key, digest):
            return answer
    profile = profile or actor.read_profile()
    job = Job(
        owner_id=actor.user.pk,
        public_id=new_public_id(prefix, now),
        made_by=actor.label,
        idempotency_key=idempotency_key,
        request_digest=digest,
        created_at=now,
        updated_at=now,
        **(_task_defaults(fields.get("task", "")) | {"timezone": profile.zone} | fields),
    )
    _set_anchor(job, now)
    if problem := job_problem(actor, job, now, changed=set(fields) | {"run_at", "every"}):
        return problem
    job.next_run_at = job.next_slot(now)
    if job.next_run_at is None:
        return no_runs_left(job, now)
    job.runs_per_minute = runs_per_minute(job.trigger)
    job.name_skeleton = skeleton(job.name)
    if paused:
        job.status, job.next_run_at, job.paused_at = Job.Status.PAUSED, None, now
    with transaction.atomic():
        wait_for_turn(profile)
        # Check again: another caller with the same key may have been faster.
        if idempotency_key is not None and (answer := answer_of_key(actor, idempotency_key, digest)):
            return answer
        if refusal := quota_problem(profile, job.runs_per_minute) or rate_problem(profile, now):
            return refusal
        made = Scheduled(job, similar=similar_to(job), look_alike=look_alike(actor, job))
        job.save(force_insert=True)
        record(actor, "create", now, job=job, after=_changes(job, fields))
    return Ok(made)


def edit(
    actor: Actor, job_id: str, *, revision: int | None = None, seen: Job | None = None, **changes: Any
) -> Result[Job]:
    """Change a pending or paused job; of two callers that saw the same revision, the second is refused.

    `seen` is the job as the caller has just read it; then it is not read again.
    """
    changes = editable_only(changes)
    job, revision = seen, seen.revision if seen else revision
    for _ in range(EDIT_TRIES):
        job = job or actor.jobs().find(job_id)
        if job is None:
            return not_found(job_id)
        if not actor.may_change(job):
            return forbidden(job)
        if answer := _try_to_edit(actor, job, revision, changes):
            return answer
        job = None
    return Err(Code.CONFLICT, f"This job fires all the time: {job_id}. Try again, or pause it first.")


def _try_to_edit(
    actor: Actor, job: Job, revision: int | None, changes: Mapping[str, Any]
) -> Result[Job] | None:
    """Try to edit once; return None if the job fired meanwhile, so that the caller can try again."""
    now = clock.now()
    if revision is not None and revision != job.revision:
        return _changed_meanwhile(job)
    if problems := type_problems(changes):
        return invalid_fields(problems)
    if isinstance(filled := fill_in(job, changes), Err):
        return filled
    changes = {name: value for name, value in filled.value.items() if getattr(job, name) != value}
    if not changes:
        return Ok(job)
    if job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
        return Err(Code.WRONG_STATE, f"Job already {job.status}: {job.public_id}")
    old, before = _copy(job), _changes(job, changes)
    for name, value in changes.items():
        setattr(job, name, value)
    is_rescheduled = not changes.keys().isdisjoint(Job.TRIGGER_FIELDS)
    if {"every", "trigger_type"} & changes.keys() and "anchor_at" not in changes:
        job.anchor_at = None
    _set_anchor(job, now)
    if job.anchor_at != old.anchor_at:
        changes["anchor_at"] = job.anchor_at
    if problem := job_problem(actor, job, now, changed=set(changes)):
        return problem
    if is_rescheduled:
        following = job.next_slot(now)
        if following is None:
            return no_runs_left(job, now)
        changes |= _rescheduled(old, following, now)
        job.runs_per_minute = runs_per_minute(job.trigger)
    if "name" in changes:
        job.name_skeleton = skeleton(job.name)
    derived = {"runs_per_minute": job.runs_per_minute, "name_skeleton": job.name_skeleton}
    with transaction.atomic():
        if refusal := reschedule_problem(job, job.runs_per_minute - old.runs_per_minute):
            return refusal
        won = Job.objects.filter(
            pk=job.pk, revision=old.revision, status=old.status, next_run_at=old.next_run_at, deleted_at=None
        ).update(**changes, **derived, revision=F("revision") + 1, updated_at=now)
        if not won:
            return _lost_the_race(actor, old)
        has_deleted = False
        if is_rescheduled:
            _account_until(old, now, "The schedule was changed before it could run.")
            has_deleted = engine.delete_future_rows(old, now)
        record(actor, "edit", now, job=job, before=before, after=_changes(job, changes))
    if has_deleted:
        job.refresh_from_db()
    else:
        job.take_over(changes, now)
    return Ok(job)


def pause(actor: Actor, job_id: str, *, reason: str = "", until: datetime | None = None) -> Result[Job]:
    """Pause a pending job until it is resumed or `until` is reached."""
    now = clock.now()
    if until is not None and (problem := limits.moment_problem(until)):
        return invalid("until", problem)
    if until is not None and until <= now:
        there = f"{now.astimezone(until.tzinfo):%Y-%m-%d %H:%M:%S} {until.tzinfo}"
        return invalid("until", f"Choose a moment in the future (now {there}).")
    if len(reason) > limits.NAME_LENGTH or limits.line_problem(reason):
        return invalid("reason", f"Use at most {limits.NAME_LENGTH} printable characters.")
    with transaction.atomic():
        job = _locked(actor, job_id)
        if isinstance(job, Err):
            return job
        if job.status != Job.Status.PENDING:
            return Err(Code.WRONG_STATE, f"Job already {job.status}: {job_id}")
        engine.pause(job, now, reason, until=until)
        record(actor, "pause", now, job=job, after={"reason": reason, "until": until and until.isoformat()})
    return Ok(job)


def resume(actor: Actor, job_id: str) -> Result[Job]:
    """Resume a paused job; the slots within the pause are recorded as skipped."""
    now = clock.now()
    with transaction.atomic():
        job = _locked(actor, job_id)
        if isinstance(job, Err):
            return job
        if job.status != Job.Status.PAUSED:
            return Err(Code.WRONG_STATE, f"Job is not paused: {job_id}")
        before = {"reason": job.pause_reason, "until": job.paused_until and job.paused_until.isoformat()}
        try:
            following = job.next_slot(now)
        except TriggerError as error:
            return invalid(error.field, f"{unreadable(error.reason)}.")
        if following is None:
            return no_runs_left(job, now)
        if job.paused_at:
            job.paused_at += _TICK
        engine.rearm(job, now)
        record(actor, "resume", now, job=job, before=before)
    return Ok(job)


def cancel(actor: Actor, job_id: str, *, only: Collection[str] = Job.ACTIVE) -> Result[Job]:
    """Cancel a job that is in one of these states: it never fires again, but a run in progress may finish."""
    now = clock.now()
    with transaction.atomic():
        job = _locked(actor, job_id)
        if isinstance(job, Err):
            return job
        if is_protected(job):
            return _protected(job)
        if job.status not in only:
            return Err(Code.WRONG_STATE, f"Job already {job.status}: {job_id}")
        before = {"status": job.status}
        _account_until(job, now, "The job was cancelled before it could run.")
        _move(job, now, status=Job.Status.CANCELLED, next_run_at=None, paused_until=None)
        if engine.withdraw(job, now, "cancelled", also_manual=True):
            job.refresh_from_db()
        record(actor, "cancel", now, job=job, before=before, after={"status": "cancelled"})
    return Ok(job)


def delete(actor: Actor, job_id: str) -> Result[Job]:
    """Move a job to the trash: agents and lists no longer show it, but its executions stay."""
    now = clock.now()
    with transaction.atomic():
        job = _locked(actor, job_id, may=actor.may_delete)
        if isinstance(job, Err):
            return job
        if is_protected(job):
            return _protected(job)
        _account_until(job, now, "The job was deleted before it could run.")
        _move(job, now, deleted_at=now)
        if engine.withdraw(job, now, "deleted", also_manual=True):
            job.refresh_from_db()
        record(actor, "delete", now, job=job, before={"status": job.status})
    return Ok(job)


def restore(actor: Actor, job_id: str) -> Result[Job]:
    """Restore a job from the trash with its former status; record the slots since its deletion as skipped."""
    now = clock.now()
    with transaction.atomic():
        job = actor.trash().select_for_update(of=("self",)).find(job_id)
        if job is None:
            return not_found(job_id)
        if not actor.may_change(job):
            return forbidden(job)
        if job.status in Job.ACTIVE:
            profile = profile_of(job.owner)
            wait_for_turn(profile)
            if refusal := quota_problem(profile, job.runs_per_minute):
                return refusal
        assert job.deleted_at is not None
        changes: dict[str, Any] = {"deleted_at": None, "failure_streak": 0}
        match job.status:
            case Job.Status.PENDING:
                engine.account_for(job, job.deleted_at + _TICK, now, "The job lay in the trash.")
                engine.delete_future_rows(job, now)
                following, reason = _slot_after_trash(job, now)
                if following:
                    changes["next_run_at"] = following
                else:
                    # Let the owner decide what to do with it.
                    engine.pause(job, now, reason)
            case Job.Status.PAUSED:
                engine.account_for(job, job.deleted_at + _TICK, now, "The job lay in the trash.")
                changes["paused_at"] = now
            case Job.Status.RUNNING if not Execution.objects.live().filter(job=job).exists():
                changes["status"] = Job.Status.COMPLETED
        _move(job, now, **changes)
        record(actor, "restore", now, job=job)
    job.refresh_from_db()
    return Ok(job)


def run_now(actor: Actor, job_id: str) -> Result[Execution]:
    """Queue one run now, whatever the job's status; its schedule does not change."""
    now = clock.now()
    with transaction.atomic():
        job = _locked(actor, job_id)
        if isinstance(job, Err):
            return job
        waiting = Execution.objects.filter(
            job=job,
            cause=Execution.Cause.MANUAL,
            status__in=[Execution.Status.QUEUED, Execution.Status.CLAIMED],
        )
        if waiting.count() >= WAITING_MANUAL_RUNS:
            return Err(Code.QUOTA, f"{WAITING_MANUAL_RUNS} runs of this job are waiting already.")
        if refusal := run_problem(job.owner_id, now):
            return refusal
        execution = Execution.of(job, now, available_at=now, cause=Execution.Cause.MANUAL)
        execution.save(force_insert=True)
        record(actor, "run", now, job=job, after={"execution": execution.pk})
    return Ok(execution)


def is_protected(job: Job) -> bool:
    """Return whether this is an active job of Cronty itself, which nobody can cancel or delete."""
    task = registry.get(job.task)
    return bool(task and task.system) and job.status in Job.ACTIVE


def _protected(job: Job) -> Err:
    return Err(Code.FORBIDDEN, f"Cronty needs this job: it cannot be cancelled or deleted ({job.public_id}).")


def _locked(actor: Actor, job_id: str, *, may: Callable[[Job], bool] | None = None) -> Job | Err:
    """Lock a job that the actor may change, or do something else with that `may` allows."""
    job = actor.jobs().select_for_update(of=("self",)).find(job_id)
    if job is None:
        return not_found(job_id)
    return job if (may or actor.may_change)(job) else forbidden(job)


def _move(job: Job, now: datetime, **changes: Any) -> None:
    """Update a locked row, whose revision must not have changed since it was read."""
    moved = Job.objects.filter(pk=job.pk, revision=job.revision).update(
        **changes, revision=F("revision") + 1, updated_at=now
    )
    assert moved == 1
    job.take_over(changes, now)


def _account_until(job: Job, now: datetime, reason: str) -> None:
    """Record the slots that the job will no longer run; those within a pause get the reason of the pause."""
    if job.status == Job.Status.PAUSED and job.paused_at:
        words = f"Paused: {job.pause_reason or 'no reason given'}"
        engine.account_for(job, job.paused_at + _TICK, now, words)
    else:
        engine.account_for(job, job.next_run_at, now, reason)


def _slot_after_trash(job: Job, now: datetime) -> tuple[datetime | None, str]:
    """Return the next slot of a job, or None and the reason why there is none."""
    try:
        return job.next_slot(now), "Its time passed while it lay in the trash."
    except TriggerError as error:
        return None, unreadable(error.reason)[: limits.NAME_LENGTH]


def _task_defaults(name: str) -> dict[str, Any]:
    task = registry.get(name)
    return {"attempts": task.attempts, "timeout": task.timeout} if task else {}


def _set_anchor(job: Job, now: datetime) -> None:
    """Anchor an interval one interval from now, unless the caller chose an anchor."""
    if job.trigger_type != Job.TriggerType.INTERVAL or not job.every or job.anchor_at:
        return
    try:
        job.anchor_at = now + job.every
    except OverflowError:
        # The interval is far too long, and the validation that follows refuses it.
        job.anchor_at = now


def _rescheduled(old: Job, following: datetime, now: datetime) -> dict[str, Any]:
    if old.status == Job.Status.PENDING:
        return {"next_run_at": following}
    return {"paused_at": now}


def _lost_the_race(actor: Actor, seen: Job) -> Err | None:
    """Return which change came first, or None if it was only a claim, which does not conflict with an edit."""
    job = actor.jobs().find(seen.public_id)
    if job is None:
        return not_found(seen.public_id)
    if job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
        return Err(Code.WRONG_STATE, f"Job already {job.status}: {job.public_id}")
    return _changed_meanwhile(job) if job.revision != seen.revision else None


def _changed_meanwhile(job: Job) -> Err:
    return Err(
        Code.CONFLICT, f"Somebody else changed this job meanwhile: {job.public_id}. Read it again, then edit."
    )


def _changes(job: Job, names: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: getattr(job, name) for name in names if name in EDITABLE}
    return dict(json.loads(json.dumps(values, cls=DjangoJSONEncoder)))


def _copy(job: Job) -> Job:
    return Job(**{field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields})
