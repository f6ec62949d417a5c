"""Routes of agents: their runners with the remaining limits, their approvals, and the switch that stops them all."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.agents import (
    AgentsOut,
    AgentStopIn,
    ApprovalAnswerIn,
    ApprovalOut,
    ApprovalsOut,
    CheckOut,
    ProposalsOut,
    StoppedOut,
)
from schedules.api.schemas.runs import RunOut
from schedules.services.runs import agents

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
