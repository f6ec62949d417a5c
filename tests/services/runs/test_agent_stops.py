"""The kill switch: nothing starts, what runs ends, prompts go back to the inbox, and only a person ends it."""

import pytest

from schedules.models import AgentStop, Event, Execution
from schedules.result import Code, Ok
from schedules.services import Actor, claim_prompts, complete_prompt
from schedules.services.runs import prompts
from schedules.services.runs.agent_stops import read_stop, resume_agents, stop_agents
from tests.factories import ExecutionFactory, JobFactory, UserFactory


@pytest.fixture
def actor(owner):
    return Actor(owner, Event.Door.WEB)


def running(owner, task="prompt", **values):
    job = JobFactory(owner=owner, task=task, kwargs={"prompt": "Tidy."} if task == "prompt" else {})
    defaults = {"status": "running", "attempt": 1, "finished_at": None}
    return ExecutionFactory(job=job, **{**defaults, **values})


def test_stop_ends_the_prompts_of_its_owner_and_nothing_else(actor, owner):
    mine, other = running(owner), running(UserFactory())
    webhook = running(owner, "notify")

    stopped = stop_agents(actor)

    assert isinstance(stopped, Ok)
    assert stopped.value.runs == 1
    mine.refresh_from_db()
    assert (mine.status, mine.reason) == ("cancelled", "olga stopped all agents.")
    assert set(Execution.objects.filter(status="running")) == {other, webhook}


def test_stop_and_start_are_recorded_with_each_run_that_ended(actor, owner):
    run = running(owner)

    stop_agents(actor)
    stop_agents(actor)
    resume_agents(actor)

    verbs = list(Event.objects.order_by("pk").values_list("verb", "actor", "job"))
    assert verbs == [
        ("stop agents", "olga", None),
        ("stop", "olga", run.job_id),
        ("start agents", "olga", None),
    ]
    assert not AgentStop.objects.exists()


def test_claimed_prompt_is_taken_back_and_its_agent_cannot_complete_it(actor, owner):
    waiting = running(owner, status="waiting", attempt=1)
    agent = Actor(owner, Event.Door.MCP, "laptop", "key")
    claim_prompts(agent)

    stopped = stop_agents(actor)

    assert isinstance(stopped, Ok)
    assert stopped.value.leases == 1
    assert complete_prompt(agent, waiting.pk, result="late").code == Code.PROMPT_NOT_HELD
    refused = claim_prompts(agent)
    assert (refused.code, refused.reason) == (Code.AGENTS_STOPPED, "olga stopped all agents.")
    resume_agents(actor)
    assert [row.pk for row in claim_prompts(agent).value] == [waiting.pk]


def test_prompt_claimed_while_the_stop_came_is_taken_back(actor, owner, monkeypatch):
    waiting = running(owner, status="waiting", attempt=1)
    agent = Actor(owner, Event.Door.MCP, "laptop", "key")

    def looks(owner_id):
        # The first look finds nothing; the stop then comes too early to see the lease.
        monkeypatch.undo()
        assert stop_agents(actor).value.leases == 0

    monkeypatch.setattr(prompts, "stop_in_force", looks)

    assert claim_prompts(agent).code == Code.AGENTS_STOPPED
    assert complete_prompt(agent, waiting.pk, result="late").code == Code.PROMPT_NOT_HELD
    resume_agents(actor)
    assert [row.pk for row in claim_prompts(agent).value] == [waiting.pk]


def test_agent_may_stop_but_not_start(owner):
    agent = Actor(owner, Event.Door.MCP, "laptop")

    assert isinstance(stop_agents(agent), Ok)
    assert resume_agents(agent).code == Code.AGENTS_STARTED_BY_PEOPLE
    assert read_stop(agent) is not None


def test_only_staff_stop_the_agents_of_everybody(actor, operator):
    run = running(actor.user)
    boss = Actor(operator, Event.Door.TERMINAL)

    assert stop_agents(actor, everybody=True).code == Code.AGENTS_OF_EVERYBODY
    assert stop_agents(Actor(operator, Event.Door.MCP), everybody=True).code == Code.AGENTS_OF_EVERYBODY
    assert stop_agents(boss, everybody=True).value.runs == 1

    run.refresh_from_db()
    assert run.status == "cancelled"
    assert resume_agents(actor).code == Code.AGENTS_NOT_STOPPED
    assert read_stop(actor).scope == AgentStop.EVERYBODY
    assert isinstance(resume_agents(boss, everybody=True), Ok)
    assert read_stop(actor) is None
