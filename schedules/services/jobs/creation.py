"""Create jobs, one by one or many at once: check them, count them against quotas, insert them with their events.

A repeated request returns its job again, and a new job comes with the active jobs that it could be confused with.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import Q

from schedules import clock, limits
from schedules.models import Job, Profile
from schedules.models.job_texts import searchable_text, shown_arguments, skeleton
from schedules.models.jobs import new_public_id, shared_schedule
from schedules.result import Code, Err, Ok, Result, invalid, invalid_fields
from schedules.secrets.masking import has_mask
from schedules.services.jobs.addresses import add_heartbeats
from schedules.services.jobs.calendars import add_missing_holidays, attach_calendars, store_calendars
from schedules.services.jobs.chains import Planned, attach_upstream
from schedules.services.jobs.masked_arguments import fill_in
from schedules.services.jobs.proposals import ask_to_confirm, proposal_columns
from schedules.services.jobs.validation import (
    EDITABLE,
    days_problem,
    default_of,
    editable_only,
    job_problem,
    no_runs_left,
    resolve_channels,
    type_problems,
)
from schedules.services.people.profiles import known_profile
from schedules.services.permissions import Actor, event_of, record, record_all
from schedules.services.quotas import creation_problem, wait_for_turn
from schedules.tasks import registry
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.when.slot_batches import runs_per_minute
from schedules.when.unplanned import AFTER

INSERT_BATCH = 500

# A complete and valid job, and the columns that its caller set.
NewJob: TypeAlias = tuple[Job, Mapping[str, Any]]

SAME_TIME = timedelta(minutes=1)
# Unordered, so that the query reads only an index.
_ACTIVE = Job.objects.active().order_by().values_list("public_id", "name")


class SimilarJob(NamedTuple):
    """An active job that does the same on the same schedule, or has a look-alike name."""

    public_id: str
    name: str


@dataclass(frozen=True)
class Scheduled:
    """A new job, or the one that an earlier, identical request created."""

    actor: Actor
    job: Job
    existing: bool = False

    # Looked up only on demand: callers that create many jobs never need it.
    @cached_property
    def similar(self) -> SimilarJob | None:
        """An active job that does the same as a new one."""
        return None if self.existing else similar_to(self.job)

    @cached_property
    def look_alike(self) -> SimilarJob | None:
        """An active job whose name looks like that of a new one."""
        return None if self.existing else look_alike(self.actor, self.job)


def schedule(
    actor: Actor,
    *,
    prefix: str = "job",
    paused: bool = False,
    idempotency_key: str | None = None,
    request: Mapping[str, Any] | None = None,
    profile: Profile | None = None,
    skips: str = "",
    skipped_days: Collection[date] = (),
    **fields: Any,
) -> Result[Scheduled]:
    """Create a job from its editable columns; missing ones get the defaults of the task or the model.

    `request` is what the idempotency key stands for, if the columns depend on the time of the call ("in 20 minutes").
    `profile` is the actor's profile if the caller has read it; `skips` lists the days and slots that the job skips, and
    `skipped_days` further days.
    """
    fields = editable_only(fields)
    now = clock.now()
    if problem := _value_problem(fields):
        return problem
    digest = ""
    if idempotency_key is not None:
        digest = digest_of(fields if request is None else request)
        if not 0 < len(idempotency_key) <= limits.NAME_LENGTH or limits.line_problem(idempotency_key):
            return invalid("idempotency_key", "Use 1 to 200 printable characters.")
        if answer := result_of_key(actor, idempotency_key, digest):
            return answer
    if "timezone" not in fields:
        profile = profile or actor.read_profile()
    zone = {"timezone": profile.zone} if profile else {}
    profile = profile or actor.profile or known_profile(actor.user)
    built = _build(actor, now, fields, zone, prefix=prefix, paused=paused)
    if isinstance(built, Err):
        return built
    job = built.value
    if problem := days_problem(skipped_days, job.timezone, now):
        return problem
    job.idempotency_key, job.request_digest = idempotency_key, digest
    job.skips = " ".join(sorted({*skips.split(), *map(str, skipped_days)}))
    with transaction.atomic():
        if idempotency_key is not None:
            # Check again under the lock: another caller with the same key may have been faster.
            wait_for_turn(profile)
            if answer := result_of_key(actor, idempotency_key, digest):
                return answer
        if refusal := creation_problem(profile, job.runs_per_minute, now):
            return refusal
        if job.follows_calendars and (problem := store_calendars(actor, job, now)):
            return problem
        job.save(force_insert=True)
        if job.task == HEARTBEAT:
            add_heartbeats([job])
        record(actor, "create", now, job=job, after=changes_of(job, fields))
        if job.proposed_at:
            ask_to_confirm(actor, [job], now)
    return Ok(Scheduled(actor, job))


def schedule_many(actor: Actor, many: Sequence[Mapping[str, Any]]) -> Result[list[Job]]:
    """Create several jobs from their editable columns, all or none; an error names the first refused one.

    This is many times faster than creating them one by one.
    """
    now, profile = clock.now(), actor.read_profile()
    new: list[NewJob] = []
    for number, fields in enumerate(many, 1):
        built = build_job(actor, now, {"timezone": profile.zone, **fields})
        if isinstance(built, Err):
            return replace(built, subject=number)
        new.append((built.value, fields))
    with transaction.atomic():
        planned = sum(job.runs_per_minute for job, _ in new)
        if new and (refusal := creation_problem(profile, planned, now, jobs=len(new))):
            return refusal
        if problem := add_missing_holidays(actor, [job for job, _ in new], now):
            return problem
        insert_jobs(actor, new, now)
    return Ok([job for job, _ in new])


def insert_jobs(
    actor: Actor,
    new: Sequence[NewJob],
    now: datetime,
    *,
    on_progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Insert checked jobs and their events with few statements."""
    ids: set[str] = set()
    for job, _ in new:
        # Ids contain random numbers, which may repeat among thousands of jobs in one second.
        while job.public_id in ids:
            job.public_id = new_public_id("job", now)
            if job.next_run_at and not shared_schedule(job):
                # A random delay depends on the id.
                job.next_run_at = job.next_slot(now) or job.next_run_at
        ids.add(job.public_id)
    for start in range(0, len(new), INSERT_BATCH):
        chunk = new[start : start + INSERT_BATCH]
        Job.objects.bulk_create([job for job, _ in chunk])
        add_heartbeats([job for job, _ in chunk if job.task == HEARTBEAT])
        created = (
            event_of(actor, "create", now, job=job, after=changes_of(job, fields)) for job, fields in chunk
        )
        record_all(created, now)
        ask_to_confirm(actor, [job for job, _ in chunk], now)
        on_progress(start + len(chunk))


def build_job(
    actor: Actor,
    now: datetime,
    fields: Mapping[str, Any],
    *,
    paused: bool = False,
    planned: Planned | None = None,
) -> Result[Job]:
    """Return a complete and valid job that is neither stored nor checked against quotas.

    It may follow one of the `planned` jobs, which are not stored yet either.
    """
    fields = editable_only(fields)
    return _value_problem(fields) or _build(actor, now, fields, {}, paused=paused, planned=planned)


def _value_problem(fields: Mapping[str, Any]) -> Err | None:
    """Return an error for values of a wrong type, and for masks, since a new job has no values behind them."""
    if problems := type_problems(fields):
        return invalid_fields(problems)
    if not has_mask([fields.get("args"), fields.get("kwargs")]):
        return None
    filled = fill_in(None, fields)
    return filled if isinstance(filled, Err) else None


def _build(
    actor: Actor,
    now: datetime,
    fields: Mapping[str, Any],
    defaults: Mapping[str, Any],
    *,
    prefix: str = "job",
    paused: bool = False,
    planned: Planned | None = None,
) -> Result[Job]:
    fields = resolve_channels(actor.user.pk, fields)
    job = Job(
        owner_id=actor.user.pk,
        public_id=new_public_id(prefix, now),
        made_by=actor.label,
        created_at=now,
        updated_at=now,
        **(policy_defaults(fields.get("task", "")) | dict(defaults) | dict(fields)),
    )
    set_anchor(job, now)
    if job.cron.startswith(AFTER) and (problem := attach_upstream(actor, job, planned)):
        return problem
    if problem := job_problem(actor, job, now, changed=set(fields) | {"run_at", "every"}):
        return problem
    has_policy = job.on_closed != Job.OnClosed.SKIP
    if (has_policy or job.follows_calendars) and (problem := attach_calendars(job)):
        return problem
    job.next_run_at = job.next_slot(now)
    if job.next_run_at is None:
        return no_runs_left(job, now)
    job.runs_per_minute = planned_rate(job)
    job.name_skeleton, job.likeness = skeleton(job.name), likeness_of(job)
    job.search_text = searchable_text(job)
    if paused:
        job.status, job.next_run_at, job.paused_at = Job.Status.PAUSED, None, now
    if actor.must_propose(job.task):
        for name, value in proposal_columns(actor, now).items():
            setattr(job, name, value)
    return Ok(job)


def planned_rate(job: Job) -> float:
    """Return how often a job fires per minute; a following job fires as often as its upstream."""
    return job.follows.runs_per_minute if job.follows else runs_per_minute(job.trigger)


def policy_defaults(task_name: str) -> dict[str, Any]:
    """Return the default policies for jobs of this task."""
    policies = {name: default_of(name) for name in Job.POLICY_FIELDS}
    if task := registry.get(task_name):
        policies |= {"attempts": task.attempts, "timeout": task.timeout}
    if task_name == HEARTBEAT:
        # A silent job is what a heartbeat watches for, so never pause it for that.
        policies["pause_after_failures"] = 0
    return policies


def set_anchor(job: Job, now: datetime) -> None:
    """Anchor an interval schedule one interval from now, unless the caller chose an anchor."""
    if job.trigger_type != Job.TriggerType.INTERVAL or not job.every or job.anchor_at:
        return
    try:
        job.anchor_at = now + job.every
    except OverflowError:
        # The interval is far too long: validation refuses it next.
        job.anchor_at = now


def changes_of(job: Job, names: Iterable[str]) -> dict[str, Any]:
    """Return these columns of a job as events store them."""
    values = {name: getattr(job, name) for name in names if name in EDITABLE}
    if values.keys() & {"args", "kwargs"}:
        shown = dict(zip(("args", "kwargs"), shown_arguments(job), strict=True))
        values |= {name: shown[name] for name in shown if name in values}
    return dict(json.loads(json.dumps(values, cls=DjangoJSONEncoder)))


def digest_of(fields: Mapping[str, Any]) -> str:
    """Return a digest that is the same for equal requests."""
    text = json.dumps(fields, sort_keys=True, cls=DjangoJSONEncoder, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def result_of_key(actor: Actor, key: str, digest: str) -> Result[Scheduled] | None:
    """Return the result of an earlier request with this key, or None for a new key."""
    job = Job.objects.owned_by(actor.user).filter(idempotency_key=key).first()
    if job is None:
        return None
    if job.request_digest != digest:
        return Err(Code.IDEMPOTENCY_KEY_REUSED, key)
    if job.deleted_at:
        return Err(Code.IDEMPOTENCY_KEY_OF_DELETED_JOB, key)
    return Ok(Scheduled(actor, job, existing=True))


def similar_to(job: Job) -> SimilarJob | None:
    """Return another active job of the owner with the same task, arguments and schedule, or None."""
    same = _ACTIVE.filter(owner=job.owner_id, likeness=job.likeness)
    if job.run_at:
        # A repeated "in an hour" gives a slightly later time. Compare in UTC: wall times are ambiguous when clocks go
        # back.
        moment = job.run_at.astimezone(UTC)
        same = same.filter(run_at__gt=moment - SAME_TIME, run_at__lt=moment + SAME_TIME)
    return _first(same, job)


def look_alike(actor: Actor, job: Job) -> SimilarJob | None:
    """Return an active job of the owner whose different name looks like this job's, or None."""
    is_other = ~Q(name=job.name) & actor.within_tasks()
    return _first(_ACTIVE.filter(is_other, owner=job.owner_id, name_skeleton=job.name_skeleton), job)


def _first(rows: Any, job: Job) -> SimilarJob | None:
    """Return the first of these rows that is not the job itself."""
    others = (SimilarJob(*row) for row in rows[:2] if row[0] != job.public_id)
    return next(others, None)


def likeness_of(job: Job) -> str:
    """Return a digest of what a job does and when, except for the time of a one-time job."""
    schedule = None if job.run_at else [job.timezone, job.cron, str(job.every), job.calendar_unit]
    text = json.dumps([job.task, job.args, job.kwargs, job.trigger_type, schedule], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
