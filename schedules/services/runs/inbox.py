"""Operations on prompts that wait for an agent: claim them, and complete them."""

from datetime import timedelta
from typing import Any

from schedules.result import Document, expect, operation
from schedules.secrets import masking
from schedules.services.documents import iso_in, masked_run
from schedules.services.permissions import Actor
from schedules.services.runs import prompts


@operation
def claim_prompts(actor: Actor, *, limit: int = 1, lease_minutes: float = 15) -> Document:
    """Take prompts that are due, the oldest first; complete each before its lease ends, or another agent may take it."""
    lease, zone = timedelta(minutes=lease_minutes), actor.read_profile().zone
    return {
        "prompts": [
            {
                "run": row.pk,
                "job_id": row.job.public_id if row.job else None,
                "prompt": masking.masked(row.argument("prompt")) if row.job else None,
                "scheduled_for": iso_in(row.scheduled_for, zone),
                "lease_until": iso_in(row.lease_until, zone),
            }
            for row in expect(prompts.claim_prompts(actor, limit=limit, lease=lease))
        ]
    }


@operation
def complete_prompt(actor: Actor, run: int, *, result: Any = None, error: str | None = None) -> Document:
    """Report a claimed prompt as done, with a result, or as failed, with an error."""
    done = expect(prompts.complete_prompt(actor, run, result=result, error=error))
    return masked_run(done, actor.read_profile().zone)
