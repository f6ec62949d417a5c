"""Progress during a call; questions are tested where they are asked."""

import pytest

from schedules.mcp.tools import manage
from schedules.services import issue_token
from tests.factories import JobFactory
from tests.mcp.agents import InMemory
from tests.mcp.over_http import OverHttp


@pytest.fixture(params=["memory", "http"])
def agent(request, era, owner, caller, cluster):
    if request.param == "memory":
        return InMemory(era)
    return OverHttp(era, issue_token(owner, name="laptop").value.text)


def test_waiting_client_sees_how_the_run_is_going(agent, owner, monkeypatch):
    job = JobFactory(owner=owner)
    statuses = iter(["queued", "running", "succeeded"])
    monkeypatch.setattr(manage, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(manage, "_status_of", lambda execution_id: next(statuses))
    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    arguments = {"job_id": job.public_id, "wait_seconds": 5}
    agent.do(lambda client: client.call_tool("run_job", arguments, progress_callback=note))

    assert seen == [(0, 5, "The run is queued."), (0.01, 5, "The run is running.")]
