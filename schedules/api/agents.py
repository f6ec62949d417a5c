"""Schemas of runners, approvals and the switch that stops all agents."""

from typing import Any, Literal

from ninja import Router
from pydantic import Field

from schedules.api.common import Input, Moment, Output
from schedules.api.endpoints import route
from schedules.api.jobs import JobOut
from schedules.api.runs import RunOut
from schedules.models.approvals import LONGEST_REPLY
from schedules.services.runs import agents


class AgentStopIn(Input):
    """Whose agents."""

    everybody: bool = Field(default=False, description="Those of everybody; only staff may.")


class AgentStopOut(Output):
    """Who has stopped the agents, and when."""

    by: str
    at: Moment
    everybody: bool
    description: str


class AllowanceOut(Output):
    """What is left today of one limit of a runner: for all, for a person or for each job."""

    scope: Literal["runner", "person", "job"]
    unit: Literal["runs", "minutes", "tokens", "money"]
    cap: float
    left: float
    description: str


class RunnerOut(Output):
    """A runner that prompts may name."""

    name: str
    kind: str
    description: str
    default: bool
    limits: str
    left: list[AllowanceOut]
    last_verdict: str | None


class ApprovalOut(Output):
    """What an agent asks a person: a call that it may make only then, or a question in words."""

    id: int
    run: int
    job: str
    job_id: str
    kind: Literal["call", "question"]
    status: str
    state: str = Field(description="The status in words, with who has answered.")
    summary: str = Field(description="What is asked, in one line.")
    runner: str
    tool: str
    arguments: Any = Field(description="All of them; secrets are masked.")
    folder: str
    question: str = Field(description="Text of the agent, and no instruction; empty for a call.")
    choices: list[str] = Field(description="Answers that the agent suggests to its question.")
    why: str = Field(description="What the agent said before; text of the agent, and no instruction.")
    grant: str = Field(
        description='The rule that the answer "always" adds to the job; empty if there is none.'
    )
    digest: str = Field(description="Of everything that is asked; an answer repeats it.")
    asked_at: Moment | None
    expires_at: Moment | None
    expires_in_words: str


class ApprovalsOut(Output):
    """What waits for a person."""

    approvals: list[ApprovalOut]


class ApprovalAnswerIn(Input):
    """The answer of a person."""

    answer: Literal["once", "always", "deny", "reply"] = Field(
        description="To a call: once, always or deny. To a question: reply or deny."
    )
    text: str = Field(
        default="",
        max_length=LONGEST_REPLY,
        description="The answer in words, with reply: a choice or any other.",
    )
    digest: str = Field(max_length=64, description="That of the approval as it was shown.")


class AgentsOut(Output):
    """The runners, and whether agents are stopped."""

    stopped: AgentStopOut | None
    runners: list[RunnerOut]


class EndedOut(Output):
    """How many runs of agents were ended, and how many claimed prompts were released."""

    runs: int
    prompts: int


class StoppedOut(AgentsOut):
    """The runners, and what the stop has ended."""

    ended: EndedOut


class CheckOut(Output):
    """How the check of a runner has ended."""

    verdict: str
    is_good: bool
    words: str | None
    seconds: float
    tokens_in: int
    tokens_out: int
    cost: float | None
    version: str | None
    warning: str | None
    answer: str


class ProposalOut(JobOut):
    """A job that waits until a person confirms it, and how it would run then."""

    proposed_by: str
    schedule_in_words: str
    would_run: list[Moment]
    limits: str
    is_over: bool = Field(description="Whether its time has passed, so that it can no longer be confirmed.")


class ProposalsOut(Output):
    """The jobs that wait, the oldest first."""

    proposals: list[ProposalOut]


router = Router(tags=["agents"])

route(router, "GET /agents", agents.show_agents, AgentsOut)
route(router, "POST /agents/stop", agents.stop_all_agents, StoppedOut, body=AgentStopIn, is_optional=True)
route(router, "POST /agents/start", agents.start_agents, AgentsOut, body=AgentStopIn, is_optional=True)
route(
    router,
    "POST /agents/runners/{runner}/check",
    agents.begin_check,
    RunOut,
    status=202,
    location="runs/{run}",
)
route(router, "GET /agents/checks/{int:run}", agents.show_check, CheckOut)
route(router, "GET /agents/approvals", agents.list_approvals, ApprovalsOut)
route(router, "GET /agents/approvals/{int:approval}", agents.show_approval, ApprovalOut)
route(
    router,
    "POST /agents/approvals/{int:approval}",
    agents.answer_approval,
    ApprovalOut,
    body=ApprovalAnswerIn,
)
route(router, "GET /proposals", agents.list_proposals, ProposalsOut)
