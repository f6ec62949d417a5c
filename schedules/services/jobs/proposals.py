"""Proposals: pause the jobs that an agent creates or changes, ask a person to confirm them, list and confirm them."""

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from schedules import clock, engine
from schedules.agents.choice import Choice, choose_for_all
from schedules.models import Job
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.jobs.forecasts import next_runs_of, words_of
from schedules.services.jobs.validation import use_problem
from schedules.services.permissions import Actor, change_row, locked_job, record, wrong_state
from schedules.when import durations
from schedules.when.triggers import TriggerError, unreadable

MAX_LISTED = 50
_SHOWN_RUNS = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed job as it would run once confirmed."""

    job: Job
    schedule: str
    next_runs: Sequence[datetime]
    limits: str
    is_over: bool
    """Whether its last slot has passed, so that it can no longer be confirmed."""

    @property
    def entry(self) -> str:
        """The job's id with the revision that is shown."""
        return f"{self.job.public_id}:{self.job.revision}"


@dataclass(frozen=True, slots=True)
class ProposedPlan:
    """The proposals of one agent."""

    by: str
    proposals: Sequence[Proposal]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The jobs that were confirmed, and why others were not."""

    jobs: Sequence[Job]
    refused: Sequence[tuple[str, Err]]


def list_plans(actor: Actor, now: datetime) -> list[ProposedPlan]:
    """Return what waits for confirmation, oldest first, as one plan per agent."""
    plans: dict[tuple[int, str], list[Proposal]] = {}
    for proposal in proposals_of(list(waiting_jobs(actor).select_related("owner")[:MAX_LISTED]), now):
        plans.setdefault((proposal.job.owner_id, proposal.job.proposed_by), []).append(proposal)
    return [ProposedPlan(by, proposals) for (_, by), proposals in plans.items()]


def waiting_jobs(actor: Actor) -> JobQuerySet:
    """Return the jobs waiting for confirmation that the actor sees, oldest first."""
    return actor.jobs().proposed().order_by("pk")


def proposals_of(jobs: Sequence[Job], now: datetime) -> list[Proposal]:
    """Return proposed jobs as they would run if they were confirmed now."""
    prompts = {job.pk: (job.owner_id, job.argument("runner")) for job in jobs if job.task == "prompt"}
    choices = choose_for_all(prompts) if prompts else {}
    return [_proposal_of(job, choices.get(job.pk), now) for job in jobs]


def _proposal_of(job: Job, choice: Choice | None, now: datetime) -> Proposal:
    confirmed = copy(job)
    is_readable = True
    try:
        confirmed.next_run_at = job.next_slot(now)
    except TriggerError:
        is_readable = False
    confirmed.status = Job.Status.PENDING
    runs = next_runs_of(confirmed, now, _SHOWN_RUNS) if confirmed.next_run_at else []
    return Proposal(
        job, words_of(job), runs, _limits_of(job, choice), is_readable and confirmed.next_run_at is None
    )


def confirm(actor: Actor, job_id: str, *, revision: int | None = None) -> Result[Job]:
    """Let a proposed job run, and record its slots until now as skipped; `revision` is the one that was shown."""
    if not actor.may_confirm:
        return Err(Code.CONFIRMED_BY_PEOPLE)
    now = clock.now()
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if job.proposed_at is None:
            return Err(Code.JOB_NOT_PROPOSED, job_id, state=job.status)
        if job.status != Job.Status.PAUSED:
            return wrong_state(job)
        if revision is not None and job.revision != revision:
            return Err(Code.JOB_CHANGED, job_id)
        if reason := use_problem(actor, job):
            return invalid("task", reason)
        try:
            if job.next_slot(now) is None:
                return Err(Code.JOB_TIME_PASSED, job_id)
        except TriggerError as error:
            return invalid(error.field, f"{unreadable(error.reason)}.")
        before = {"proposed_by": job.proposed_by, "proposed_at": job.proposed_at.isoformat()}
        change_row(job, now, proposed_at=None, proposed_by="")
        engine.rearm(job, now)
        record(actor, "confirm", now, job=job, before=before)
    return Ok(job)


def confirm_many(actor: Actor, jobs: Collection[tuple[str, int | None]]) -> Confirmed:
    """Confirm several jobs as they were shown; those that changed since or whose time has passed are refused."""
    done: list[Job] = []
    refused: list[tuple[str, Err]] = []
    for job_id, revision in jobs:
        match confirm(actor, job_id, revision=revision):
            case Ok(job):
                done.append(job)
            case Err() as error:
                refused.append((job_id, error))
    return Confirmed(done, refused)


def withdraw_confirmation(actor: Actor, job_id: str, before: dict[str, Any]) -> Result[Job]:
    """Make a confirmed job wait for confirmation again."""
    now = clock.now()
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if job.status != Job.Status.PENDING:
            return wrong_state(job)
        engine.pause(job, now, PROPOSED)
        proposed_at = datetime.fromisoformat(before["proposed_at"])
        change_row(job, now, proposed_at=proposed_at, proposed_by=before["proposed_by"])
        record(actor, "pause", now, job=job, after={"reason": PROPOSED, "until": None})
        ask_to_confirm(actor, [job], now)
    return Ok(job)


def _limits_of(job: Job, choice: Choice | None) -> str:
    """Describe a job's attempts and timeout, and the limits of a prompt's runner."""
    attempts = "1 attempt" if job.attempts == 1 else f"{job.attempts} attempts"
    parts = [f"{attempts} of up to {durations.in_words(job.timeout)}"]
    if choice and choice.problem:
        parts.append(choice.problem)
    elif choice and choice.runner:
        parts.append(f"runner {choice.name}: {choice.runner.limits_in_words() or 'no limits'}")
    elif choice:
        parts.append("waits in the inbox for an agent")
    return "; ".join(parts)


# The pause reason of a job that waits for confirmation.
PROPOSED = "waits for confirmation"


def proposal_columns(actor: Actor, now: datetime) -> dict[str, Any]:
    """Return the columns that make a job wait until a person confirms this actor's change."""
    return {
        "status": Job.Status.PAUSED,
        "next_run_at": None,
        "paused_at": now,
        "paused_until": None,
        "pause_reason": PROPOSED,
        "has_unreadable_schedule": False,
        "proposed_at": now,
        "proposed_by": actor.label,
    }


def ask_to_confirm(actor: Actor, jobs: Iterable[Job], now: datetime) -> None:
    """Notify the owners of those jobs that wait for confirmation because this actor had to propose them."""
    waiting = [job for job in jobs if job.proposed_at and job.status == Job.Status.PAUSED]
    proposed = [job for job in waiting if actor.must_propose(job.task)]
    if proposed:
        engine.raise_proposals([(job, words_of(job)) for job in proposed], now)
