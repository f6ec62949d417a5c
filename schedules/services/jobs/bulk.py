"""Bulk changes: pause, resume, cancel or delete many jobs with few statements, and one event per job."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from django.core.signing import BadSignature, SignatureExpired, TimestampSigner
from django.db import transaction
from django.db.models import F

from schedules import clock, engine
from schedules.models import Event, Job
from schedules.models.job_queries import is_public_id
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.job_list import JobQuery, in_requested_state
from schedules.services.jobs.edits import edit
from schedules.services.jobs.states import (
    account_until_each,
    before_cancel,
    cancel,
    delete,
    is_protected,
    pause_active,
    pause_of,
    pause_problem,
    resume,
)
from schedules.services.jobs.validation import use_problem
from schedules.services.permissions import Actor, event_of, forbidden, record_all
from schedules.tasks import registry
from schedules.when.triggers import TriggerError

MAX_JOBS = 500
# How many jobs one transaction changes, unless it is all or none: claims wait for it.
BATCH = 200
CONFIRMED_WITHIN = timedelta(minutes=10)
STATUSES = {
    "pause": (Job.Status.PENDING,),
    "resume": (Job.Status.PAUSED,),
    "cancel": Job.ACTIVE,
    "delete": tuple(Job.Status),
}
_ONE_BY_ONE: dict[str, Callable[[Actor, str], Result[Job]]] = {
    "pause": pause_active,
    "resume": resume,
    "cancel": cancel,
    "delete": delete,
}
_CONFIRMATION = TimestampSigner(salt="schedules.bulk")


@dataclass(frozen=True, slots=True)
class BulkChange:
    """The jobs that were changed, and those that were not."""

    jobs: Sequence[Job]
    unchanged: Sequence[Job] = ()
    undo: int | None = None
    """The id of the first event of this change, by which all of it can be undone."""


def without_own_jobs(jobs: JobQuerySet) -> JobQuerySet:
    """Exclude Cronty's own jobs and alerts, which nobody means by "all"."""
    system = [task.name for task in registry.all_tasks(include_system=True) if task.system]
    return jobs.without_notices().exclude(task__in=system)


def changeable(actor: Actor, action: str) -> JobQuerySet:
    """Return the jobs that an action would change."""
    jobs = without_own_jobs(actor.jobs().filter(status__in=STATUSES[action]))
    if action == "resume":
        jobs = jobs.filter(proposed_at=None)
    # Only pending jobs have a next run, and this condition lets an index find them.
    return jobs.filter(next_run_at__isnull=False) if action == "pause" else jobs


def matching_jobs(actor: Actor, action: str, query: JobQuery) -> tuple[list[Any], bool]:
    """Return the jobs that an action would change, up to one too many, and whether older runs were not scanned."""
    jobs, are_runs_cut = filter_jobs(actor, changeable(actor, action), query)
    rows = jobs.values_list("pk", "revision", "public_id", "name", named=True)
    return list(rows[: MAX_JOBS + 1]), are_runs_cut


def filter_jobs(actor: Actor, jobs: JobQuerySet, query: JobQuery) -> tuple[JobQuerySet, bool]:
    """Return the jobs that match a query, and whether older runs were not scanned."""
    if query.status:
        jobs = in_requested_state(jobs, query.status)
    matching, are_runs_cut = query.matching_runs(actor.executions())
    return query.applied_to(jobs, matching) if query.is_filtered else jobs, are_runs_cut


def confirmation_of(actor: Actor, request: dict[str, Any], jobs: Sequence[tuple[int, int]]) -> str:
    """Return a token that confirms one request of one person for exactly these jobs, by key and revision.

    It works once, because every change of a job increases its revision.
    """
    return _CONFIRMATION.sign(_digest(actor, request, jobs))


def confirmation_problem(
    actor: Actor, token: str, request: dict[str, Any], jobs: Sequence[tuple[int, int]]
) -> Err | None:
    """Return why a token does not confirm a request for these jobs, or None if it does."""
    try:
        confirmed = _CONFIRMATION.unsign(token.strip(), max_age=CONFIRMED_WITHIN)
    except SignatureExpired:
        return Err(Code.CONFIRMATION_TOO_OLD)
    except BadSignature:
        return Err(Code.CONFIRMATION_UNKNOWN)
    if confirmed != _digest(actor, request, jobs):
        return Err(Code.CONFIRMATION_OUTDATED)
    return None


def count_ending(keys: Sequence[int], until: datetime) -> int:
    """Count the jobs that would have no runs left after a pause until this moment."""
    return sum(not _has_run_after(job, until) for job in Job.objects.filter(pk__in=keys))


def _has_run_after(job: Job, moment: datetime) -> bool:
    try:
        return job.next_slot(moment) is not None
    except TriggerError:
        return True


def change_jobs(
    actor: Actor,
    action: str,
    keys: Sequence[int],
    *,
    reason: str = "",
    until: datetime | None = None,
    paused_at: datetime | None = None,
) -> Result[BulkChange]:
    """Apply an action to several jobs, or to none if one of them can no longer be changed.

    With `paused_at`, that includes a job that was paused at another moment.
    """
    now = clock.now()
    if refusal := pause_problem(reason, until, now):
        return refusal
    with transaction.atomic():
        changeable_jobs = changeable(actor, action).filter(pk__in=keys).order_by("pk")
        if paused_at:
            changeable_jobs = changeable_jobs.filter(paused_at=paused_at)
        jobs = list(changeable_jobs.select_for_update(of=("self",)))
        if len(jobs) != len(keys):
            return Err(Code.JOBS_CHANGED)
        refused = {
            job.pk: refusal_reason
            for job in jobs
            if action == "resume" and (refusal_reason := use_problem(actor, job))
        }
        if refused and len(refused) == len(jobs):
            return invalid("task", refused[jobs[0].pk])
        usable = [job for job in jobs if job.pk not in refused]
        for job in usable:
            if not _is_possible(actor, action, job):
                return forbidden(job)
        changed, events = _change(actor, action, usable, now, reason, until)
    changed_keys = {job.pk for job in changed}
    undo = events[0].pk if events else None
    return Ok(BulkChange(changed, [job for job in jobs if job.pk not in changed_keys], undo))


def change_each(
    actor: Actor, action: str, job_ids: Sequence[str], *, until: datetime | None = None, reason: str = ""
) -> dict[str, Result[Job]]:
    """Apply an action to each of these jobs if possible; return, by id, the job or why not.

    A job that was changed together with others still has its old column values.
    """
    changed: dict[str, Result[Job]] = {}
    if refusal := pause_problem(reason, until, clock.now()):
        return dict.fromkeys(job_ids, refusal)
    ids = [job_id for job_id in job_ids if is_public_id(job_id)]
    for start in range(0, len(ids), BATCH):
        chosen = actor.jobs().filter(public_id__in=ids[start : start + BATCH], status__in=STATUSES[action])
        with transaction.atomic():
            # Skip locked jobs: waiting for one would keep the others from firing.
            free = chosen.select_related("owner").select_for_update(of=("self",), skip_locked=True)
            jobs = [job for job in free.order_by("pk") if _is_possible(actor, action, job)]
            changed |= {
                job.public_id: Ok(job)
                for job in _change(actor, action, jobs, clock.now(), reason, until=until)[0]
            }
    change_one = (
        partial(pause_active, until=until, reason=reason) if action == "pause" else _ONE_BY_ONE[action]
    )
    # Change the others one by one, which waits for locks, and says why a change is not possible.
    return {job_id: changed[job_id] if job_id in changed else change_one(actor, job_id) for job_id in job_ids}


def tag_each(
    actor: Actor, job_ids: Sequence[str], tag: str, *, remove: bool = False
) -> dict[str, Result[Job]]:
    """Add a tag to each of these jobs, or remove it; return, by id, the job or why not.

    The result leaves out jobs that need no change.
    """
    tags_of = dict(actor.jobs().filter(public_id__in=job_ids).values_list("public_id", "tags"))
    results: dict[str, Result[Job]] = {}
    for job_id in job_ids:
        tags = list(tags_of.get(job_id, []))
        if (tag in tags) is not remove and job_id in tags_of:
            continue
        new_tags = [other for other in tags if other != tag] if remove else [*tags, tag]
        results[job_id] = edit(actor, job_id, tags=new_tags)
    return results


def _is_possible(actor: Actor, action: str, job: Job) -> bool:
    may = actor.may_delete if action == "delete" else actor.may_change
    if action == "resume" and (job.proposed_at or use_problem(actor, job)):
        return False
    return may(job) and not ((actor.is_agent or action in ("cancel", "delete")) and is_protected(job))


def _change(
    actor: Actor,
    action: str,
    jobs: Sequence[Job],
    now: datetime,
    reason: str = "",
    until: datetime | None = None,
) -> tuple[Sequence[Job], list[Event]]:
    """Change jobs that the caller has locked; return those that were changed, and their events."""
    before = {job.pk: _before(job, action) for job in jobs}
    after: dict[str, Any] = {}
    changed = jobs
    match action:
        case "pause":
            engine.pause_each(jobs, now, reason, until=until)
            after = {"reason": reason, "until": until and until.isoformat()}
        case "resume":
            changed = engine.rearm_each(jobs, now)
        case "cancel":
            _stop(jobs, now, "stopped", status=Job.Status.CANCELLED, next_run_at=None, paused_until=None)
            after = {"status": "cancelled"}
        case _:
            _stop(jobs, now, "deleted", deleted_at=now)
    events = [event_of(actor, action, now, job=job, before=before[job.pk], after=after) for job in changed]
    return changed, record_all(events, now)


def _stop(jobs: Sequence[Job], now: datetime, done: str, **columns: Any) -> None:
    """End the schedule of several jobs, and record their slots until now as skipped."""
    account_until_each(jobs, now, f"The job was {done} before this run.")
    keys = [job.pk for job in jobs]
    Job.objects.filter(pk__in=keys).update(**columns, revision=F("revision") + 1, updated_at=now)
    engine.withdraw_each(keys, now, done, also_manual=True)


def _before(job: Job, action: str) -> dict[str, Any]:
    if action in ("pause", "resume"):
        return pause_of(job)
    return before_cancel(job) if action == "cancel" else {"status": job.status}


def _digest(actor: Actor, request: dict[str, Any], jobs: Sequence[tuple[int, int]]) -> str:
    tasks = sorted(actor.tasks) if actor.tasks is not None else None
    text = json.dumps([actor.user.pk, tasks, request, sorted(jobs)], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:16]
