"""The verbs on jobs: each checks the owner, changes one row conditionally, and leaves one event."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import IntegrityError, transaction
from django.db.models import F

from schedules import clock, engine, limits, registry
from schedules.models import Execution, Job
from schedules.models.ledger import new_public_id
from schedules.result import Code, Err, Ok, Result
from schedules.services.actors import Actor, not_found, record
from schedules.services.people import profile_of
from schedules.services.quotas import quota_problem

EDITABLE = (
    "name",
    "task",
    "args",
    "kwargs",
    *Job.TRIGGER_FIELDS,
    "attempts",
    "backoff",
    "timeout",
    "overlap",
    "catch_up",
    "pause_after_failures",
    "label",
    "tags",
)
FURTHEST = timedelta(days=5 * 366)
WAITING_MANUAL_RUNS = 10


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A job that was made, or the one that the same request made before."""

    job: Job
    existing: bool = False
    similar: Job | None = None


def schedule(
    actor: Actor,
    *,
    prefix: str = "job",
    paused: bool = False,
    idempotency_key: str | None = None,
    **fields: Any,
) -> Result[Scheduled]:
    """Make a job from its editable columns; what is not given takes the task's or the model's default."""
    _refuse_unknown(fields)
    now = clock.now()
    digest = _digest(fields)
    if idempotency_key is not None:
        if not 0 < len(idempotency_key) <= limits.NAME_LENGTH or limits.line_problem(idempotency_key):
            return _invalid("idempotency_key", "Use 1 to 200 printable characters.")
        if answer := _answer_of_key(actor, idempotency_key, digest):
            return answer
    profile = profile_of(actor.user)
    job = Job(
        owner=actor.user,
        public_id=new_public_id(prefix, now),
        made_by=actor.label,
        idempotency_key=idempotency_key,
        request_digest=digest,
        created_at=now,
        updated_at=now,
        **(_task_defaults(fields.get("task", "")) | {"timezone": profile.zone} | fields),
    )
    if job.trigger_type == Job.TriggerType.INTERVAL and job.every and not job.anchor_at:
        job.anchor_at = _first_on_grid(now, job.every)
    if problem := _problem_with(actor, job, now, changed=set(fields) | {"run_at", "every"}):
        return problem
    job.next_run_at = job.next_slot(now)
    if job.next_run_at is None:
        return _nothing_left(job, now)
    if paused:
        job.status, job.next_run_at, job.paused_at = Job.Status.PAUSED, None, now
    similar = _similar_to(job)
    try:
        with transaction.atomic():
            if refusal := quota_problem(profile, now):
                return refusal
            job.save(force_insert=True)
            record(actor, "create", now, job=job, after=_changes(job, fields))
    except IntegrityError:
        # Two callers with one key: the other was first.
        answer = _answer_of_key(actor, idempotency_key or "", digest)
        if answer is None:
            raise
        return answer
    return Ok(Scheduled(job, similar=similar))


def edit(actor: Actor, job_id: str, *, revision: int | None = None, **changes: Any) -> Result[Job]:
    """Change a job that is pending or paused; of two callers who saw the same revision, one wins."""
    _refuse_unknown(changes)
    now = clock.now()
    job = actor.jobs().filter(public_id=job_id).first()
    if job is None:
        return not_found(job_id)
    if revision is not None and revision != job.revision:
        return _changed_meanwhile(job)
    changes = {name: value for name, value in changes.items() if getattr(job, name) != value}
    if not changes:
        return Ok(job)
    if job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
        return Err(Code.WRONG_STATE, f"Job already {job.status}: {job_id}")
    old, before = _copy(job), _changes(job, changes)
    for name, value in changes.items():
        setattr(job, name, value)
    is_rescheduled = not changes.keys().isdisjoint(Job.TRIGGER_FIELDS)
    if {"every", "trigger_type"} & changes.keys() and "anchor_at" not in changes:
        job.anchor_at = _first_on_grid(now, job.every) if job.every else None
        changes["anchor_at"] = job.anchor_at
    if problem := _problem_with(actor, job, now, changed=set(changes)):
        return problem
    if is_rescheduled:
        following = job.next_slot(now)
        if following is None:
            return _nothing_left(job, now)
        changes |= _rescheduled(old, following, now)
    with transaction.atomic():
        won = Job.objects.filter(
            pk=job.pk, revision=old.revision, status=old.status, next_run_at=old.next_run_at, deleted_at=None
        ).update(**changes, revision=F("revision") + 1, updated_at=now)
        if not won:
            return _lost_the_race(actor, job_id)
        if is_rescheduled:
            since = old.next_run_at if old.status == Job.Status.PENDING else old.paused_at
            engine.account_for(old, since, now, "The schedule was changed before it could run.")
        record(actor, "edit", now, job=job, before=before, after=_changes(job, changes))
    job.refresh_from_db()
    return Ok(job)


def pause(actor: Actor, job_id: str, *, reason: str = "", until: datetime | None = None) -> Result[Job]:
    """Stop a pending job from firing until it is resumed, by somebody or by the clock."""
    now = clock.now()
    if until is not None and until <= now:
        return _invalid("until", f"Choose a moment in the future (now {now:%Y-%m-%d %H:%M:%S} UTC).")
    if len(reason) > limits.NAME_LENGTH or limits.line_problem(reason):
        return _invalid("reason", f"Use at most {limits.NAME_LENGTH} printable characters.")
    with transaction.atomic():
        job = _locked(actor, job_id)
        if job is None:
            return not_found(job_id)
        if job.status != Job.Status.PENDING:
            return Err(Code.WRONG_STATE, f"Job already {job.status}: {job_id}")
        _move(
            job,
            now,
            status=Job.Status.PAUSED,
            next_run_at=None,
            paused_at=now,
            paused_until=until,
            pause_reason=reason,
        )
        _stop_what_follows(job, now, "The job was paused before it could run.")
        record(actor, "pause", now, job=job, after={"reason": reason, "until": until and until.isoformat()})
    job.refresh_from_db()
    return Ok(job)


def resume(actor: Actor, job_id: str) -> Result[Job]:
    """Set a paused job going again; the slots of the pause are accounted for as skipped."""
    now = clock.now()
    with transaction.atomic():
        job = _locked(actor, job_id)
        if job is None:
            return not_found(job_id)
        if job.status != Job.Status.PAUSED:
            return Err(Code.WRONG_STATE, f"Job is not paused: {job_id}")
        before = {"reason": job.pause_reason, "until": job.paused_until and job.paused_until.isoformat()}
        if job.next_slot(now) is None:
            return _nothing_left(job, now)
        engine.rearm(job, now)
        record(actor, "resume", now, job=job, before=before)
    job.refresh_from_db()
    return Ok(job)


def cancel(actor: Actor, job_id: str) -> Result[Job]:
    """End a job: it never fires again; a run under way finishes and is recorded."""
    now = clock.now()
    with transaction.atomic():
        job = _locked(actor, job_id)
        if job is None:
            return not_found(job_id)
        if job.status not in Job.ACTIVE:
            return Err(Code.WRONG_STATE, f"Job already {job.status}: {job_id}")
        before = {"status": job.status}
        _move(job, now, status=Job.Status.CANCELLED, next_run_at=None, paused_until=None)
        _stop_what_follows(job, now, "The job was cancelled before it could run.", also_manual=True)
        record(actor, "cancel", now, job=job, before=before, after={"status": "cancelled"})
    job.refresh_from_db()
    return Ok(job)


def delete(actor: Actor, job_id: str) -> Result[Job]:
    """Put a job into the trash: it is gone for agents and lists, its executions stay."""
    now = clock.now()
    with transaction.atomic():
        job = _locked(actor, job_id)
        if job is None:
            return not_found(job_id)
        _move(job, now, deleted_at=now)
        _stop_what_follows(job, now, "The job was deleted before it could run.", also_manual=True)
        record(actor, "delete", now, job=job, before={"status": job.status})
    job.refresh_from_db()
    return Ok(job)


def restore(actor: Actor, job_id: str) -> Result[Job]:
    """Take a job out of the trash, as it was; the slots in between are accounted for as skipped."""
    now = clock.now()
    with transaction.atomic():
        job = actor.trash().select_for_update(of=("self",)).filter(public_id=job_id).first()
        if job is None:
            return not_found(job_id)
        changes: dict[str, Any] = {"deleted_at": None}
        if job.status == Job.Status.PENDING:
            engine.account_for(job, job.deleted_at, now, "The job lay in the trash.")
            changes["next_run_at"] = job.next_slot(now)
            if changes["next_run_at"] is None:
                reason = "Its time passed while it lay in the trash."
                changes |= {"status": Job.Status.PAUSED, "paused_at": now, "pause_reason": reason}
        elif job.status == Job.Status.RUNNING:
            changes["status"] = Job.Status.COMPLETED
        _move(job, now, **changes)
        record(actor, "restore", now, job=job)
    job.refresh_from_db()
    return Ok(job)


def run_now(actor: Actor, job_id: str) -> Result[Execution]:
    """Queue one run at once, in whatever state the job is; its schedule stays as it was."""
    now = clock.now()
    with transaction.atomic():
        job = _locked(actor, job_id)
        if job is None:
            return not_found(job_id)
        waiting = Execution.objects.filter(
            job=job,
            cause=Execution.Cause.MANUAL,
            status__in=[Execution.Status.QUEUED, Execution.Status.CLAIMED],
        )
        if waiting.count() >= WAITING_MANUAL_RUNS:
            return Err(Code.QUOTA, f"{WAITING_MANUAL_RUNS} runs of this job are waiting already.")
        execution = Execution.objects.create(
            job=job,
            owner_id=job.owner_id,
            job_name=job.name,
            task=job.task,
            scheduled_for=now,
            available_at=now,
            cause=Execution.Cause.MANUAL,
        )
        record(actor, "run", now, job=job, after={"execution": execution.pk})
    return Ok(execution)


def _locked(actor: Actor, job_id: str) -> Job | None:
    return actor.jobs().select_for_update(of=("self",)).filter(public_id=job_id).first()


def _move(job: Job, now: datetime, **changes: Any) -> None:
    """Change the row under the lock, on condition that it is still what was read."""
    moved = Job.objects.filter(pk=job.pk, revision=job.revision).update(
        **changes, revision=F("revision") + 1, updated_at=now
    )
    assert moved == 1


def _stop_what_follows(job: Job, now: datetime, reason: str, *, also_manual: bool = False) -> None:
    """Account for slots that fell due but were not claimed, and take back what is queued."""
    engine.account_for(job, job.next_run_at, now, reason)
    engine.withdraw(job, now, reason, also_manual=also_manual)


def _refuse_unknown(fields: Mapping[str, Any]) -> None:
    if unknown := set(fields) - set(EDITABLE):
        raise TypeError(f"not editable: {', '.join(sorted(unknown))}")


def _task_defaults(name: str) -> dict[str, Any]:
    task = registry.get(name)
    return {"attempts": task.attempts, "timeout": task.timeout} if task else {}


def _first_on_grid(now: datetime, every: timedelta) -> datetime:
    try:
        return now + every
    except OverflowError:
        return now


def _problem_with(actor: Actor, job: Job, now: datetime, *, changed: set[str]) -> Err | None:
    try:
        job.full_clean(validate_unique=False, validate_constraints=False, exclude=["owner"])
    except ValidationError as error:
        return _refusal(error.message_dict)
    task = registry.get(job.task)
    if task and task.system:
        return _invalid("task", f"Unknown task: {job.task}. Choose one of: {', '.join(registry.names())}.")
    if job.trigger_type == Job.TriggerType.ONCE and job.run_at and "run_at" in changed:
        if job.run_at <= now:
            return _invalid("run_at", f"This moment is in the past (now {now:%Y-%m-%d %H:%M:%S} UTC).")
        if job.run_at > now + FURTHEST:
            return _invalid("run_at", "Choose a moment within the next five years.")
    smallest = settings.CRONTY_AGENT_MIN_INTERVAL
    if actor.is_agent and job.every and "every" in changed and job.every.total_seconds() < smallest:
        return _invalid("every", f"The smallest interval for an agent is {smallest} seconds.")
    return None


def _nothing_left(job: Job, now: datetime) -> Err:
    """Explain why a job would never fire again."""
    if job.trigger_type == Job.TriggerType.ONCE:
        return _invalid("run_at", f"This moment is in the past (now {now:%Y-%m-%d %H:%M:%S} UTC).")
    if job.max_runs is not None and job.slot_count >= job.max_runs:
        return _invalid("max_runs", f"It has run {job.slot_count} times already: choose a higher number.")
    if job.ends_at:
        return _invalid("ends_at", "There is no run before this end: choose a later one.")
    return _invalid(job.trigger_type, "This schedule has no further run.")


def _rescheduled(old: Job, following: datetime, now: datetime) -> dict[str, Any]:
    if old.status == Job.Status.PENDING:
        return {"next_run_at": following}
    return {"paused_at": now}


def _lost_the_race(actor: Actor, job_id: str) -> Err:
    job = actor.jobs().filter(public_id=job_id).first()
    if job is None:
        return not_found(job_id)
    if job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
        return Err(Code.WRONG_STATE, f"Job already {job.status}: {job_id}")
    return _changed_meanwhile(job)


def _changed_meanwhile(job: Job) -> Err:
    return Err(
        Code.CONFLICT, f"Somebody else changed this job meanwhile: {job.public_id}. Read it again, then edit."
    )


def _answer_of_key(actor: Actor, key: str, digest: str) -> Result[Scheduled] | None:
    job = Job.objects.owned_by(actor.user).filter(idempotency_key=key).first()
    if job is None:
        return None
    if job.request_digest == digest and job.deleted_at is None:
        return Ok(Scheduled(job, existing=True))
    return Err(Code.CONFLICT, f"The idempotency_key {key!r} was used for another request: choose a new one.")


def _similar_to(job: Job) -> Job | None:
    """Find an active job that does the same thing on the same schedule."""
    same = {
        name: getattr(job, name) for name in ("task", "trigger_type", "run_at", "every", "cron", "timezone")
    }
    candidates = Job.objects.owned_by(job.owner).active().filter(**same)[:50]
    return next((twin for twin in candidates if (twin.args, twin.kwargs) == (job.args, job.kwargs)), None)


def _digest(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, cls=DjangoJSONEncoder, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _changes(job: Job, names: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: getattr(job, name) for name in names if name in EDITABLE}
    return dict(json.loads(json.dumps(values, cls=DjangoJSONEncoder)))


def _copy(job: Job) -> Job:
    return Job(**{field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields})


def _refusal(errors: Mapping[str, list[str]]) -> Err:
    words = "; ".join(f"{field}: {' '.join(messages)}" for field, messages in errors.items())
    return Err(Code.INVALID, words, errors=dict(errors))


def _invalid(field: str, message: str) -> Err:
    return _refusal({field: [message]})
