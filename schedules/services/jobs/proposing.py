"""Jobs as agents propose them: paused until a person confirms them, who is told."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from schedules import engine
from schedules.models import Job
from schedules.services.jobs.forecasts import words_of
from schedules.services.permissions import Actor

# What a job that waits for a confirmation says as the reason of its pause.
PROPOSED = "waits for confirmation"


def proposal_columns(actor: Actor, now: datetime) -> dict[str, Any]:
    """Return the columns of a job that waits until a person confirms what this actor has made or changed."""
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
    """Tell the owners of those of these jobs that wait for a confirmation, unless they have proposed them themselves."""
    waiting = [job for job in jobs if job.proposed_at and job.status == Job.Status.PAUSED]
    proposed = [job for job in waiting if actor.must_propose(job.task)]
    if proposed:
        engine.raise_proposals([(job, words_of(job)) for job in proposed], now)
