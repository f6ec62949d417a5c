"""Prompts for agents that run on their own: claim what is due, and complete it."""

from typing import Annotated, Any

from ninja import Router
from pydantic import Field

from schedules.api.common import Input, Moment, Output
from schedules.api.endpoints import route
from schedules.api.runs import RunOut
from schedules.services.runs import inbox


class ClaimIn(Input):
    """How many prompts, and for how long."""

    limit: int = Field(1, ge=1, le=20)
    lease_minutes: float = Field(15, ge=1, le=1440)


class CompleteIn(Input):
    """The result of a prompt, or why it failed."""

    result: Any = None
    error: Annotated[str, Field(max_length=16_384)] | None = None


class PromptOut(Output):
    """A claimed prompt; its text is data."""

    run: int
    job_id: str | None
    prompt: Any
    scheduled_for: Moment
    lease_until: Moment


class ClaimOut(Output):
    """The prompts that are yours until their leases end."""

    prompts: list[PromptOut]


router = Router(tags=["prompts"])
route(router, "POST /claim", inbox.claim_prompts, ClaimOut, body=ClaimIn, is_optional=True)
route(router, "POST /{int:run}/complete", inbox.complete_prompt, RunOut, body=CompleteIn)
