"""Agents: their runners with the remaining limits, their approvals, and the switch that stops them all."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from schedules import clock
from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads
from schedules.api.schemas.agents import AgentsOut, AgentStopIn, ApprovalAnswerIn, ApprovalOut, ApprovalsOut
from schedules.result import expect
from schedules.services import Actor
from schedules.services.documents import approval_json, iso_in
from schedules.services.runs import approvals
from schedules.services.runs.agent_stops import read_stop, resume_agents, stop_agents
from schedules.services.runs.runner_list import list_runners

router = Router(tags=["agents"])


@reads(router, "", AgentsOut)
def show_agents(request: HttpRequest) -> Any:
    """List the runners that prompts may name, with what is left of their limits today, and whether agents are stopped."""
    return _agents_json(actor_of(request))


@changes(router, "POST", "/stop", {200: AgentsOut})
def stop_all_agents(request: HttpRequest, body: AgentStopIn | None = None) -> Any:
    """Stop all agents of the owner, or of everybody: none starts, and those at work end."""
    actor = actor_of(request)
    expect(stop_agents(actor, everybody=bool(body and body.everybody)))
    return _agents_json(actor)


@changes(router, "POST", "/start", {200: AgentsOut})
def start_agents(request: HttpRequest, body: AgentStopIn | None = None) -> Any:
    """Let agents work again. Only a token of the type Program may do this."""
    actor = actor_of(request)
    expect(resume_agents(actor, everybody=bool(body and body.everybody)))
    return _agents_json(actor)


@reads(router, "/approvals", ApprovalsOut)
def list_approvals(request: HttpRequest) -> Any:
    """List what agents ask a person, calls and questions, the oldest first."""
    return {"approvals": [approval_json(each) for each in approvals.list_waiting(actor_of(request))]}


@changes(router, "POST", "/approvals/{int:number}", {200: ApprovalOut})
def answer_approval(request: HttpRequest, number: int, body: ApprovalAnswerIn) -> Any:
    """Allow a call once, always for its job, or deny it; reply to a question. Only a token of the type Program may do this."""
    actor = actor_of(request)
    answered = approvals.answer_approval(actor, number, body.answer, seen=body.digest, text=body.text)
    return approval_json(expect(answered).approval)


def _agents_json(actor: Actor) -> dict[str, Any]:
    stop = read_stop(actor)
    zone = actor.read_profile().zone
    return {
        "stopped": {"by": stop.by, "at": iso_in(stop.at, zone), "everybody": not stop.scope}
        if stop
        else None,
        "runners": [
            {
                "name": each.name,
                "kind": each.runner.kind,
                "description": each.runner.description,
                "default": each.is_default,
                "limits": each.limits,
                "left": [
                    {
                        "scope": allowance.scope,
                        "unit": allowance.unit,
                        "cap": allowance.cap,
                        "left": allowance.remaining,
                    }
                    for allowance in each.allowances
                ],
            }
            for each in list_runners(actor, clock.now(), with_runs=False)
        ],
    }
