"""Schemas of prompts that agents claim and complete."""

from typing import Annotated, Any

from pydantic import Field

from schedules.api.schemas.common import Input, Moment, Output


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
