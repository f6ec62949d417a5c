"""The tool that stops all agents: only a person lets them work again."""

from tests.factories import ExecutionFactory


def test_agents_are_stopped_until_a_person_starts_them_again(call, owner):
    ExecutionFactory(job__owner=owner, job__task="prompt", status="running", attempt=1, finished_at=None)

    assert call("stop_agents") == {"runs_ended": 1}

    assert call("claim_prompts")["error"] == "laptop stopped all agents. A person can start them again."
    told = call("get_preferences")["note"]
    assert "laptop stopped all agents. Only a person can start them again." in told
