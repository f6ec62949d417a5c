"""Pauses: pause jobs, withdraw their runs, and resume them."""

import logging
import time
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Case, F, Value, When

from schedules import limits
from schedules.engine.event_deliveries import publish_changes
from schedules.engine.gaps import account_for, account_for_each, account_for_pause, account_for_pauses
from schedules.engine.history import Outcome, add_to_history, release_next
from schedules.engine.questions import close_questions
from schedules.engine.upkeep.clock_rollback import delete_future_rows, jobs_with_future_rows
from schedules.models import Event, Execution, Job
from schedules.when.triggers import TriggerError, unreadable

logger = logging.getLogger(__name__)

BATCH = 1000
# How many jobs one statement arms, each with its own slot: SQLite limits the values of a statement.
CHUNK = 200
# How many seconds one sweep may spend on resuming jobs.
RESUMING_SECONDS = 1.0

Status = Execution.Status
_PAUSED_BEFORE = "The job was paused before this run."
_RESUMED_COLUMNS = {
    "status": Job.Status.PENDING,
    "paused_at": None,
    "paused_until": None,
    "pause_reason": "",
    "has_unreadable_schedule": False,
}
_UNSTARTED = (Status.QUEUED, Status.CLAIMED, Status.WAITING)


def pause(job: Job, now: datetime, reason: str, *, until: datetime | None = None) -> None:
    """Pause a job that the caller has locked: account for its due slots, and withdraw runs that have not started.

    Prompts that wait for an agent stay, and agents can claim them again after the pause; reminders go on after it.
    """
    changes = _write_pause(job, now, reason, paused_until=until)
    account_for(job, job.next_run_at, now, _PAUSED_BEFORE)
    if withdraw(job, now, "paused", is_pause=True):
        job.refresh_from_db()
    else:
        job.apply_changes(changes, now)


def pause_each(jobs: Sequence[Job], now: datetime, reason: str, *, until: datetime | None = None) -> None:
    """Pause several pending jobs that the caller has locked, like `pause`."""
    account_for_each(jobs, "next_run_at", now, lambda job: _PAUSED_BEFORE)
    ids = [job.pk for job in jobs]
    columns = _columns_of_pause(now, reason, until)
    Job.objects.filter(pk__in=ids).update(**columns, revision=F("revision") + 1, updated_at=now)
    withdraw_each(ids, now, "paused", is_pause=True)


def pause_unreadable(job: Job, now: datetime, reason: str) -> None:
    """Pause a locked job whose schedule cannot be read, so that its slots cannot be counted."""
    # Withdraw first: it may set `last_error` to the error of a withdrawn run.
    withdraw(job, now, "paused", is_pause=True)
    _write_pause(job, now, reason, paused_until=None, last_error=reason, has_unreadable_schedule=True)
    note(job, "pause", now, {"reason": reason})


def _write_pause(job: Job, now: datetime, reason: str, **values: Any) -> dict[str, Any]:
    """Write the pause of a locked job; return the columns that it changes."""
    # Keep an earlier `paused_at`: the slots since then are not accounted for yet.
    paused_at = job.paused_at if job.status == Job.Status.PAUSED else now
    changes = _columns_of_pause(paused_at, reason) | values
    Job.objects.filter(pk=job.pk).update(**changes, revision=job.revision + 1, updated_at=now)
    return changes


def _columns_of_pause(
    paused_at: datetime | None, reason: str, until: datetime | None = None
) -> dict[str, Any]:
    return {
        "status": Job.Status.PAUSED,
        "next_run_at": None,
        "paused_at": paused_at,
        "pause_reason": reason,
        "paused_until": until,
    }


def withdraw(
    job: Job, now: datetime, done: str, *, also_manual: bool = False, is_pause: bool = False
) -> bool:
    """Withdraw the runs of a stopped job that have not started; `done` says how it was stopped.

    A run that waits for a retry ends as failed. Running executions and prompts that an agent holds may finish. A pause
    keeps prompts and questions.
    Return whether a run failed, because that changes the job's own row.
    """
    return bool(withdraw_each([job.pk], now, done, also_manual=also_manual, is_pause=is_pause))


def withdraw_each(
    job_ids: Collection[int],
    now: datetime,
    done: str,
    *,
    also_manual: bool = False,
    is_pause: bool = False,
) -> set[int]:
    """Do the same for several jobs; return those whose own row has changed."""
    if not is_pause:
        close_questions(job_ids, done)
    # Do not lock a running execution: its worker locks the execution before the job.
    rows = Execution.objects.filter(job__in=job_ids, finished_at=None, status__in=_UNSTARTED)
    if not also_manual:
        rows = rows.exclude(cause=Execution.Cause.MANUAL)
    if is_pause:
        rows = rows.exclude(status=Status.WAITING)
    unstarted, unheld, failed, touched = [], [], [], set()
    columns = ("pk", "job_id", "status", "attempt", "error", "lease_until")
    # Lock in the order in which workers start runs, to avoid deadlocks.
    for row in rows.order_by("pk").select_for_update().values_list(*columns, named=True):
        if row.status == Status.WAITING:
            if row.lease_until is not None and row.lease_until >= now:
                continue
            unheld.append(row.pk)
        elif row.attempt == 0:
            unstarted.append(row.pk)
        else:
            failed.append(Outcome(row.pk, row.attempt, row.job_id, Status.FAILED, now, error=row.error))
        touched.add(row.job_id)
    reason = f"The job was {done} before "
    runs = Execution.objects
    runs.filter(pk__in=unstarted).end(Status.CANCELLED, now, f"{reason}this run.")
    runs.filter(pk__in=unheld).end(Status.CANCELLED, now, f"{reason}an agent finished this prompt.")
    if failed:
        ids = [outcome.execution_id for outcome in failed]
        runs.filter(pk__in=ids).end(Status.FAILED, now, f"{reason}the next attempt.")
        add_to_history(failed)
    if touched:
        release_next(touched, now)
    return {outcome.job_id for outcome in failed}


def rearm(job: Job, now: datetime) -> bool:
    """Arm a paused job again and account for the slots of the pause; return False if no slot is left."""
    following = job.next_slot(now)
    account_for_pause(job, now)
    has_deleted = delete_future_rows(job, now)
    _offer_prompts_again([job.pk], now)
    if following is None:
        return False
    changes = {**_RESUMED_COLUMNS, "next_run_at": following}
    unchanged = Job.objects.filter(pk=job.pk, status=Job.Status.PAUSED, revision=job.revision)
    if not unchanged.update(**changes, revision=job.revision + 1, updated_at=now):
        return False
    if has_deleted:
        job.refresh_from_db()
    else:
        job.apply_changes(changes, now)
    return True


def _offer_prompts_again(job_ids: Collection[int], now: datetime) -> None:
    """Give prompts that waited during a pause the full time to be claimed again."""
    Execution.objects.filter(job__in=job_ids, finished_at=None, status=Status.WAITING).update(
        available_at=now
    )


def rearm_each(jobs: Sequence[Job], now: datetime) -> list[Job]:
    """Arm several paused jobs that the caller has locked, like `rearm`; return those that have a slot left."""
    following = {}
    for job in jobs:
        try:
            following[job.pk] = job.next_slot(now)
        except TriggerError:
            following[job.pk] = None
    armed = [job for job in jobs if following[job.pk]]
    account_for_pauses(armed, now)
    for job in jobs_with_future_rows(armed, now):
        delete_future_rows(job, now)
    for start in range(0, len(armed), CHUNK):
        chunk = [job.pk for job in armed[start : start + CHUNK]]
        slots = Case(*(When(pk=key, then=Value(following[key])) for key in chunk))
        Job.objects.filter(pk__in=chunk).update(
            **_RESUMED_COLUMNS, next_run_at=slots, revision=F("revision") + 1, updated_at=now
        )
        _offer_prompts_again(chunk, now)
    return armed


def end_pauses(now: datetime) -> list[int]:
    """Resume the jobs whose pause is over; return those that stay paused because their schedule cannot be read."""
    unreadable_jobs = []
    with transaction.atomic():
        jobs = list(
            Job.objects.kept()
            .filter(status=Job.Status.PAUSED, paused_until__lte=now, proposed_at=None)
            .select_for_update(skip_locked=True)[:BATCH]
        )
        deadline = time.monotonic() + RESUMING_SECONDS
        for job in jobs:
            if not _resume(job, now, "The pause ended."):
                unreadable_jobs.append(job.pk)
            if time.monotonic() > deadline:
                break
    return unreadable_jobs


def resume_pinged(job: Job, now: datetime) -> None:
    """Resume an imported check that is paused without an end, because a ping has come; the caller has locked it."""
    _resume(job, now, "A ping has come.")


def _resume(job: Job, now: datetime, reason: str) -> bool:
    """End one pause; return False for a job whose schedule cannot be read, which stays paused for that reason."""
    try:
        is_armed = rearm(job, now)
    except TriggerError as error:
        logger.exception("Job %s cannot be resumed", job.pk)
        pause_unreadable(job, now, unreadable(error)[: limits.NAME_LENGTH])
        return False
    if is_armed:
        note(job, "resume", now, {"reason": reason})
    else:
        Job.objects.filter(pk=job.pk).update(
            status=Job.Status.COMPLETED, paused_until=None, revision=F("revision") + 1, updated_at=now
        )
        note(job, "finish", now, {"reason": "No runs were left when the pause ended."})
    return True


def note(
    job: Job, verb: str, now: datetime, after: dict[str, Any], *, before: dict[str, Any] | None = None
) -> None:
    """Record an event for something that the engine did to a job."""
    event = Event.objects.create(
        at=now,
        owner_id=job.owner_id,
        actor="engine",
        door=Event.Door.ENGINE,
        verb=verb,
        job=job,
        subject=job.name,
        before=before or {},
        after=after,
    )
    publish_changes([event], now)
