"""The tool that stops all agents of the user."""

from typing_extensions import TypedDict

from schedules.mcp.answers.job_refusals import ErrorOut, refusal_of
from schedules.mcp.auth import current_actor
from schedules.result import Ok
from schedules.services.runs import agent_stops


class StoppedOut(TypedDict):
    """How many runs have ended: agents are stopped."""

    runs_ended: int


def stop_agents() -> StoppedOut | ErrorOut:
    """Stop all agents of the user at once ("stop everything!"): prompts that they work on end, and none is started. Only a person
    can let them work again, on the page Agents.
    """
    match agent_stops.stop_agents(current_actor()):
        case Ok(stopped):
            return {"runs_ended": stopped.runs + stopped.leases}
        case error:
            return refusal_of(error, {})
