"""Prompts for agents that run on their own: claim what is due, and complete it."""

from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from ninja import Router

from schedules import services
from schedules.api.auth import actor_of
from schedules.api.endpoints import changes
from schedules.api.schemas.prompts import ClaimIn, ClaimOut, CompleteIn
from schedules.api.schemas.runs import RunOut
from schedules.result import expect
from schedules.secrets import masking
from schedules.services.documents import iso_in, masked_run

router = Router(tags=["prompts"])


@changes(router, "POST", "/claim", {200: ClaimOut})
def claim_prompts(request: HttpRequest, body: ClaimIn | None = None) -> Any:
    """Take prompts that are due, the oldest first; complete each before its lease ends, or another agent may take it."""
    actor, options = actor_of(request), body or ClaimIn()
    lease = timedelta(minutes=options.lease_minutes)
    rows = expect(services.claim_prompts(actor, limit=options.limit, lease=lease))
    zone = actor.read_profile().zone
    return {
        "prompts": [
            {
                "run": row.pk,
                "job_id": row.job.public_id if row.job else None,
                "prompt": masking.masked(row.argument("prompt")) if row.job else None,
                "scheduled_for": iso_in(row.scheduled_for, zone),
                "lease_until": iso_in(row.lease_until, zone),
            }
            for row in rows
        ]
    }


@changes(router, "POST", "/{int:run}/complete", {200: RunOut})
def complete_prompt(request: HttpRequest, run: int, body: CompleteIn) -> Any:
    """Report a claimed prompt as done, with a result, or as failed, with an error."""
    actor = actor_of(request)
    number = min(run, 2**63 - 1)
    done = expect(services.complete_prompt(actor, number, result=body.result, error=body.error))
    return masked_run(done, actor.read_profile().zone)
