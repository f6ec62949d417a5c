"""Run a task once, right now, without a schedule."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction

from schedules import clock
from schedules.models import Execution, Job
from schedules.result import Code, Err, Ok, Result
from schedules.services.jobs.creation import build_job, changes_of
from schedules.services.permissions import Actor, confirmation_hint, record
from schedules.services.quotas import creation_problem, run_problem, wait_for_turn
from schedules.tasks.heartbeat import HEARTBEAT


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
