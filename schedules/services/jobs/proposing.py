"""Proposing: pause jobs that an agent creates or changes, and ask their owner to confirm them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from schedules import engine
from schedules.models import Job
from schedules.services.jobs.forecasts import words_of
from schedules.services.permissions import Actor

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
