"""The runners over the API, and the kill switch: an agent's token may stop, and only a program's may start again."""

import pytest

from schedules.models import AgentStop
from tests.api.conftest import Program, program_of
from tests.api.test_jobs import problem
from tests.factories import ExecutionFactory, JobFactory, agent_run

RUNNER = '[notes]\ndescription = "Reads."\nkind = "command"\nprogram = "/bin/echo"\nallow = ["everyone", "agents"]\nper_day = { runs = 3 }\n'


def test_runners_are_listed_with_what_is_left(program: Program, use_runners):
    use_runners(RUNNER)

    [listed] = program.ok("GET", "/agents")["runners"]

    assert (listed["name"], listed["description"]) == ("notes", "Reads.")
    assert listed["left"] == [{"scope": "runner", "unit": "runs", "cap": 3.0, "left": 3.0}]
    assert "/bin/echo" not in str(listed)


def test_run_shows_what_its_agent_did(program: Program, owner):
    run = agent_run(owner).execution
    plain = ExecutionFactory(job=JobFactory(owner=owner))

    assert program.ok("GET", f"/runs/{run.pk}")["agent"] == {
        "runner": "notes",
        "kind": "claude",
        "attempt": 2,
        "verdict": "refused",
        "why": "permission for `Bash: git push` was not granted",
        "turns": 3,
        "tokens_in": 1200,
        "tokens_out": 34,
        "money": 0.05,
        "tool_calls": 4,
        "denials": [{"tool": "Bash", "input": "git push"}],
    }
    assert program.ok("GET", f"/runs/{plain.pk}")["agent"] is None


def test_agents_are_stopped_and_started_again(program: Program):
    assert program.ok("POST", "/agents/stop")["stopped"]["everybody"] is False
    assert program.ok("POST", "/agents/start")["stopped"] is None
    assert problem(program.call("POST", "/agents/start"))["code"] == "agents_not_stopped"


@pytest.mark.parametrize("body", [{"everybody": True}, {"everybody": "yes"}, {"all": True}])
def test_wrong_requests_change_nothing(program: Program, body):
    assert program.call("POST", "/agents/stop", body).status_code in (403, 422)
    assert not AgentStop.objects.exists()


def test_agents_token_stops_but_does_not_start(owner):
    agent = program_of(owner, name="laptop", kind="conversation")

    agent.ok("POST", "/agents/stop")

    assert problem(agent.call("POST", "/agents/start"))["code"] == "agents_started_by_people"
    assert problem(agent.call("POST", "/prompts/claim"))["detail"].startswith("Laptop stopped all agents.")
    assert AgentStop.objects.exists()
