"""Changes of many jobs at once: few statements however many jobs there are, and one event per job."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
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
from schedules.services.jobs.states import (
    account_until_each,
    before_cancel,
    cancel,
    delete,
    is_protected,
    pause_active,
    pause_of,
    pause_problem,
    restore,
    resume,
)
from schedules.services.jobs.validation import use_problem
from schedules.services.permissions import Actor, event_of, forbidden
from schedules.tasks import registry
from schedules.when.triggers import TriggerError

MOST_JOBS = 500
# How many jobs one transaction changes, if not all or none: claims wait for it.
BATCH = 200
CONFIRMED_WITHIN = timedelta(minutes=10)
UNDONE_WITHIN = timedelta(days=1)
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
_UNDO = TimestampSigner(salt="schedules.bulk.undo")


@dataclass(frozen=True, slots=True)
class Changed:
    """The jobs that were changed, those that were left as they were, and what undoes the change."""

    jobs: Sequence[Job]
    left: Sequence[Job] = ()
    undo: str = ""


def changeable(actor: Actor, action: str) -> JobQuerySet:
    """Jobs that an action would change, without Cronty's own, which nobody means by "all"."""
    system = [task.name for task in registry.all_tasks(include_system=True) if task.system]
    jobs = actor.jobs().filter(status__in=STATUSES[action]).exclude(task__in=system)
    # Only pending jobs have a next run: with this condition, an index finds them without the others.
    return jobs.filter(next_run_at__isnull=False) if action == "pause" else jobs


def confirmation_of(actor: Actor, request: dict[str, Any], jobs: Sequence[tuple[int, int]]) -> str:
    """Return a token that stands for one request of one person about exactly these keys and revisions of jobs.

    It works once, because every change of a job increases its revision.
    """
    return _CONFIRMATION.sign(_digest(actor, request, jobs))


def confirmation_problem(
    actor: Actor, token: str, request: dict[str, Any], jobs: Sequence[tuple[int, int]]
) -> Err | None:
    """Return why a token does not confirm a request about these jobs, or None if it does."""
    try:
        confirmed = _CONFIRMATION.unsign(token.strip(), max_age=CONFIRMED_WITHIN)
    except SignatureExpired:
        return Err(Code.CONFLICT, "This confirmation is too old: it is good for ten minutes.")
    except BadSignature:
        return Err(Code.CONFLICT, "This is not a confirmation that Cronty has given.")
    if confirmed != _digest(actor, request, jobs):
        return Err(Code.CONFLICT, "The jobs or the request have changed since this was confirmed.")
    return None


def count_ending(keys: Sequence[int], until: datetime) -> int:
    """Count the jobs that have no run left after a pause until then."""
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
) -> Result[Changed]:
    """Do the same to several jobs, or nothing if one of them can no longer be changed.

    With `paused_at`, one that was paused at another moment can't, either.
    """
    now = clock.now()
    if refusal := pause_problem(reason, until, now):
        return refusal
    with transaction.atomic():
        found = changeable(actor, action).filter(pk__in=keys).order_by("pk")
        if paused_at:
            found = found.filter(paused_at=paused_at)
        jobs = list(found.select_for_update(of=("self",)))
        if len(jobs) != len(keys):
            return Err(Code.CONFLICT, "Some of these jobs have changed meanwhile.")
        refused = {job.pk: words for job in jobs if action == "resume" and (words := use_problem(actor, job))}
        if refused and len(refused) == len(jobs):
            return invalid("task", refused[jobs[0].pk])
        for job in (job for job in jobs if job.pk not in refused):
            if not _is_possible(actor, action, job):
                return forbidden(job)
        possible = [job for job in jobs if job.pk not in refused]
        changed, events = _change(actor, action, possible, now, reason, until)
    kept = {job.pk for job in changed}
    undo = _UNDO.sign(f"{action}.{events[0].pk}.{events[-1].pk}") if events and action != "resume" else ""
    return Ok(Changed(changed, [job for job in jobs if job.pk not in kept], undo))


def change_each(actor: Actor, action: str, job_ids: Sequence[str]) -> dict[str, Result[Job]]:
    """Do the same to each of these jobs for which it is possible; return the job, or why not.

    Of a job that was changed together with others, the columns are those from before.
    """
    changed: dict[str, Result[Job]] = {}
    ids = [job_id for job_id in job_ids if is_public_id(job_id)]
    for start in range(0, len(ids), BATCH):
        chosen = actor.jobs().filter(public_id__in=ids[start : start + BATCH], status__in=STATUSES[action])
        with transaction.atomic():
            # Without those that somebody else holds: to wait for one would keep the others from firing.
            free = chosen.select_related("owner").select_for_update(of=("self",), skip_locked=True)
            jobs = [job for job in free.order_by("pk") if _is_possible(actor, action, job)]
            changed |= {job.public_id: Ok(job) for job in _change(actor, action, jobs, clock.now())[0]}
    # The others one by one, which waits for those that are held, and says why it is not possible.
    return {
        job_id: changed[job_id] if job_id in changed else _ONE_BY_ONE[action](actor, job_id)
        for job_id in job_ids
    }


def _is_possible(actor: Actor, action: str, job: Job) -> bool:
    may = actor.may_delete if action == "delete" else actor.may_change
    if action == "resume" and use_problem(actor, job):
        return False
    return may(job) and not (action in ("cancel", "delete") and is_protected(job))


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
    return changed, Event.objects.bulk_create(events)


def undo(actor: Actor, token: str) -> Result[Changed]:
    """Undo a change of many jobs, for those that are still as it left them."""
    try:
        action, first, last = _UNDO.unsign(token.strip(), max_age=UNDONE_WITHIN).split(".")
    except SignatureExpired:
        return Err(Code.CONFLICT, "This can be undone for a day: now, restore or resume the jobs one by one.")
    except BadSignature:
        return Err(Code.CONFLICT, "This is not what Cronty has given to undo a change.")
    events = Event.objects.filter(owner=actor.user.pk, verb=action, pk__gte=first, pk__lte=last)
    moments = list(events.order_by("pk").values_list("at", "job"))
    # Events of another change may lie between those of this one.
    moment = moments[0][0] if moments else None
    keys = [job for at, job in moments if at == moment and job is not None]
    if action == "pause":
        paused = changeable(actor, "resume").filter(pk__in=keys, paused_at=moment).order_by("pk")
        return change_jobs(actor, "resume", list(paused.values_list("pk", flat=True)), paused_at=moment)
    # One by one, each in its own transaction: a job may be refused, and claims need not wait for all of them.
    is_deleted = action == "delete"
    if not is_deleted:
        keys = _not_cancelled_since(keys, int(last))
    stopped = actor.restorable().filter(pk__in=keys, deleted_at=moment if is_deleted else None)
    results = [
        (job, restore(actor, job.public_id, is_deleted=is_deleted, stopped_at=moment))
        for job in stopped.order_by("pk")
    ]
    refused = next((result for _, result in results if isinstance(result, Err)), None)
    restored = [result.value for _, result in results if isinstance(result, Ok)]
    left = [job for job, result in results if isinstance(result, Err)]
    return refused if refused and not restored else Ok(Changed(restored, left))


def _not_cancelled_since(keys: Sequence[int], event: int) -> list[int]:
    """Return the jobs that nobody has cancelled again since this event."""
    again = set(Event.objects.filter(job__in=keys, verb="cancel", pk__gt=event).values_list("job", flat=True))
    return [key for key in keys if key not in again]


def _stop(jobs: Sequence[Job], now: datetime, done: str, **columns: Any) -> None:
    """End the schedule of several jobs; their slots until now are recorded as skipped."""
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
    said = json.dumps([actor.user.pk, tasks, request, sorted(jobs)], sort_keys=True, default=str)
    return sha256(said.encode()).hexdigest()[:16]
