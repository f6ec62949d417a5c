"""Runners of prompts, and the kill switch."""

from typing import Literal

from pydantic import Field

from schedules.api.schemas.common import Input, Output


class AgentStopIn(Input):
    """Whose agents."""

    everybody: bool = Field(default=False, description="Those of everybody; only staff may.")


class AgentStopOut(Output):
    """Who has stopped the agents, and when."""

    by: str
    at: str
    everybody: bool


class AllowanceOut(Output):
    """What is left today of one limit of a runner: for all, for a person or for each job."""

    scope: Literal["runner", "person", "job"]
    unit: Literal["runs", "minutes", "tokens", "money"]
    cap: float
    left: float


class RunnerOut(Output):
    """A runner that prompts may name."""

    name: str
    kind: str
    description: str
    default: bool
    limits: str
    left: list[AllowanceOut]


class AgentsOut(Output):
    """The runners, and whether agents are stopped."""

    stopped: AgentStopOut | None
    runners: list[RunnerOut]
