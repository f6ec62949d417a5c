"""Actions on single runs: start a job or a task by hand, record a push, stop a running command, skip runs ahead."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import transaction

from schedules import clock, engine, limits
from schedules.models import Execution, Job
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.jobs.creation import build_job, changes_of
from schedules.services.jobs.forecasts import next_runs_of
from schedules.services.jobs.validation import TOO_FAR_AHEAD, days_problem, too_many_skips, use_problem
from schedules.services.people.profiles import is_active_user
from schedules.services.permissions import (
    Actor,
    change_row,
    confirmation_hint,
    locked_job,
    record,
    unconfirmed,
    wrong_state,
)
from schedules.services.quotas import (
    creation_problem,
    push_problem,
    run_problem,
    wait_for_owner,
    wait_for_turn,
)
from schedules.tasks import registry
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.tasks.interface import Run
from schedules.when.durations import HORIZON
from schedules.when.skips import day_of, slot_entry, still_ahead
from schedules.when.triggers import TriggerError, load_zone

WAITING_MANUAL_RUNS = 10


def run_now(actor: Actor, job_id: str) -> Result[Execution]:
    """Queue one run now, unless the job was cancelled; its schedule does not change."""
    now = clock.now()
    with transaction.atomic():
        wait_for_owner(job_id)
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if job.owner_id != actor.user.pk and not is_active_user(job.owner):
            return Err(Code.JOB_OWNER_INACTIVE, job_id)
        if job.task == HEARTBEAT:
            return Err(Code.JOB_RUNS_ELSEWHERE, job_id)
        if job.proposed_at:
            return unconfirmed(job)
        if job.status == Job.Status.CANCELLED:
            # No run of a cancelled job starts.
            return wrong_state(job)
        waiting = Execution.objects.filter(
            job=job,
            cause=Execution.Cause.MANUAL,
            status__in=[Execution.Status.QUEUED, Execution.Status.CLAIMED],
        )
        if waiting.count() >= WAITING_MANUAL_RUNS:
            return Err(Code.TOO_MANY_WAITING_RUNS, limit=WAITING_MANUAL_RUNS)
        if reason := use_problem(actor, job):
            return Err(Code.TASK_REFUSED, reason=reason)
        if refusal := run_problem(job.owner_id, now):
            return refusal
        execution = Execution.of(job, now, available_at=now, cause=Execution.Cause.MANUAL)
        execution.job = job
        execution.save(force_insert=True)
        record(actor, "run", now, job=job, after={"execution": execution.pk})
    return Ok(execution)


def stop_run(actor: Actor, execution_id: int) -> Result[Execution]:
    """Stop a running command; the run ends as cancelled, and the job's schedule does not change."""
    now = clock.now()
    run = actor.executions().select_related("job").filter(pk=execution_id).first()
    if run is None or run.job is None:
        return Err(Code.RUN_NOT_FOUND, execution_id)
    with transaction.atomic():
        job = locked_job(actor, run.job.public_id)
        if isinstance(job, Err):
            return job
        task = registry.get(run.task)
        if task is None or not task.runs_program:
            return Err(Code.RUN_NOT_A_COMMAND, execution_id)
        if not engine.stop_run(run.pk, run.attempt, job.pk, now, f"Stopped by {actor.label}."):
            return Err(Code.RUN_NOT_RUNNING, execution_id)
        record(actor, "stop", now, job=job, after={"execution": run.pk})
    run.refresh_from_db()
    return Ok(run)


def skip(
    actor: Actor,
    job_id: str,
    days: Collection[date] = (),
    slots: Collection[datetime] = (),
    *,
    undo: bool = False,
) -> Result[Job]:
    """Skip the runs of these days and slots, or the next run if there are none; `undo` lets them run again.

    Skipped slots are recorded when they fall due. Without days and slots, `undo` removes all skips that are ahead.
    """
    now = clock.now()
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
            return wrong_state(job)
        if job.trigger_type == Job.TriggerType.ONCE:
            return Err(Code.JOB_RUNS_ONCE, job_id)
        if any(abs(at - now) > HORIZON for at in slots):
            return invalid("dates", TOO_FAR_AHEAD)
        if not undo and (problem := days_problem(days, job.timezone, now)):
            return problem
        before = still_ahead(job.skips.split(), now)
        entries = [day.isoformat() for day in days]
        for moment in slots:
            slot = _slot_in_second(job, moment)
            if slot is None:
                return invalid("dates", f"The job does not run at {moment.isoformat(timespec='seconds')}.")
            if not undo and slot < (job.next_run_at or now):
                return Err(Code.SLOT_PASSED)
            entries.append(slot_entry(slot))
        if undo:
            remaining = [
                entry
                for entry in before
                if entry not in entries and day_of(entry, job.timezone) not in entries
            ]
            after = remaining if entries else []
        else:
            if not entries:
                upcoming = next_runs_of(job, now, 1)
                if not upcoming:
                    return Err(Code.JOB_HAS_NO_NEXT_RUN, job_id)
                entries = [slot_entry(upcoming[0])]
            after = still_ahead([*before, *entries], now)
        if problem := too_many_skips(after):
            return problem
        change_row(job, now, skips=" ".join(after))
        record(actor, "edit", now, job=job, before={"skips": before}, after={"skips": after})
    return Ok(job)


def runs_around(job: Job, day: date, now: datetime) -> tuple[date | None, date | None] | None:
    """Return the days of the last run before a day and the first run after it, or None if a run falls on the day."""
    zone = load_zone(job.timezone)
    start, end = (
        datetime.combine(each, time(), zone).astimezone(UTC) for each in (day, day + timedelta(days=1))
    )
    following = job.next_slot(start - timedelta.resolution)
    if following and following < end:
        return None
    earlier = _last_slot_before(job, start, now)
    return earlier and earlier.astimezone(zone).date(), following and following.astimezone(zone).date()


def _last_slot_before(job: Job, end: datetime, now: datetime) -> datetime | None:
    """Return the last slot between now and a moment, or None."""
    span, last = timedelta(days=1), None
    while last is None:
        slot = job.next_slot(max(end - span, now))
        while slot and slot < end:
            last, slot = slot, job.next_slot(slot)
        if end - span <= now:
            break
        span *= 2
    return last


def _slot_in_second(job: Job, moment: datetime) -> datetime | None:
    """Return the slot within this second, or None: agents see times in whole seconds."""
    second = moment.replace(microsecond=0)
    with suppress(TriggerError):
        slot = job.next_slot(second - timedelta.resolution)
        return slot if slot and slot < second + timedelta(seconds=1) else None
    return None


def run_task(actor: Actor, fields: Mapping[str, Any]) -> Result[Execution]:
    """Queue one run of a task now, from the editable columns of a job.

    The run belongs to a one-time job that has already ended, which stores the arguments and can be run again.
    """
    if fields.get("task") == HEARTBEAT:
        return Err(Code.JOB_RUNS_ELSEWHERE, HEARTBEAT)
    now = clock.now()
    once = {"trigger_type": Job.TriggerType.ONCE, "run_at": now + timedelta.resolution}
    built = build_job(actor, now, {"timezone": actor.read_profile().zone, **fields, **once})
    if isinstance(built, Err):
        return built
    job = built.value
    if job.proposed_at:
        return Err(Code.RUN_NEEDS_CONFIRMATION, hint=confirmation_hint(actor, job.task))
    job.status, job.next_run_at, job.run_at = Job.Status.COMPLETED, None, now
    profile = actor.read_profile()
    with transaction.atomic():
        wait_for_turn(profile)
        if refusal := run_problem(actor.user.pk, now) or creation_problem(profile, 0, now):
            return refusal
        job.save(force_insert=True)
        record(actor, "create", now, job=job, after=changes_of(job, {**fields, **once}))
        run = Execution.of(job, now, available_at=now, cause=Execution.Cause.MANUAL)
        run.job = job
        run.save(force_insert=True)
        record(actor, "run", now, job=job, after={"execution": run.pk})
    return Ok(run)


# Longer than any request; if the process dies, the run ends as lost after this time.
LEASE = timedelta(minutes=2)
TIMEOUT = 30
NAME = "Notification"


def begin_push(actor: Actor, content: Mapping[str, Any]) -> Result[Execution]:
    """Record that a notification is being sent, unless its owner sent too many."""
    now = clock.now()
    title = limits.strip_unprintable(str(content.get("title") or content["message"]))
    with transaction.atomic():
        wait_for_turn(actor.read_profile())
        if refusal := push_problem(actor.user.pk, now):
            return refusal
        push = Execution.objects.create(
            owner_id=actor.user.pk,
            job_name=" ".join(title.split())[:80] or NAME,
            task="notify",
            scheduled_for=now,
            cause=Execution.Cause.MANUAL,
            status=Execution.Status.RUNNING,
            reason=f"Sent at once by {actor.label}.",
            attempt=1,
            started_at=now,
            lateness=timedelta(0),
            lease_until=now + LEASE,
        )
    return Ok(push)


def run_of(push: Execution) -> Run:
    """Return the run as the task sees it."""
    return Run.without_job(push.scheduled_for, push.owner_id, TIMEOUT)


def end_push(push: Execution, *, result: Any = None, error: str = "") -> None:
    """Record the outcome of a push: the server's receipt, or the error."""
    status = Execution.Status.FAILED if error else Execution.Status.SUCCEEDED
    Execution.objects.filter(pk=push.pk, status=Execution.Status.RUNNING).update(
        status=status,
        finished_at=clock.now(),
        lease_until=None,
        result=result,
        error=limits.strip_unprintable(error),
    )
