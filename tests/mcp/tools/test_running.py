"""The tools that run a job or a task now, and the one that stops all agents."""

import pytest

from schedules.mcp.tools import running
from schedules.models import Execution, Job, Profile
from schedules.services import issue_token
from tests.factories import ExecutionFactory, JobFactory
from tests.mcp.agents import InMemory
from tests.mcp.over_http import OverHttp


def test_run_job_queues_a_run_and_keeps_the_schedule(olga, cluster, owner):
    job = JobFactory(owner=owner)

    answer = olga.call("run_job", job_id=job.public_id)

    run = Execution.objects.get()
    assert (answer["job_id"], answer["run"], answer["status"]) == (job.public_id, run.pk, "queued")
    assert "warning" not in answer
    assert run.cause == "manual"
    assert Job.objects.get().next_run_at == job.next_run_at


def test_run_job_waits_for_a_result_up_to_its_limit(call, owner, monkeypatch):
    job = JobFactory(owner=owner)
    monkeypatch.setattr(running, "POLL_SECONDS", 0.001)
    looks = []

    def finish_at_the_third_query(execution_id):
        looks.append(execution_id)
        if len(looks) == 3:
            Execution.objects.filter(pk=execution_id).update(status="succeeded", result={"values": []})
        return Execution.objects.get(pk=execution_id).status

    monkeypatch.setattr(running, "status_of", finish_at_the_third_query)

    assert call("run_job", job_id=job.public_id, wait_seconds=5)["result"] == {"values": []}
    assert len(looks) == 3
    monkeypatch.setattr(running, "status_of", lambda execution_id: "queued")
    assert call("run_job", job_id=job.public_id, wait_seconds=0.01)["status"] == "queued"
    assert "choose 0 to 50" in call("run_job", job_id=job.public_id, wait_seconds=51)["error"]


@pytest.fixture(params=["memory", "http"])
def agent_waiting(request, era, owner, caller, cluster):
    if request.param == "memory":
        return InMemory(era)
    return OverHttp(era, issue_token(owner, name="laptop").value.text)


def test_waiting_client_sees_how_the_run_is_going(agent_waiting, owner, monkeypatch):
    job = JobFactory(owner=owner)
    statuses = iter(["queued", "running", "succeeded"])
    monkeypatch.setattr(running, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(running, "status_of", lambda execution_id: next(statuses))
    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    arguments = {"job_id": job.public_id, "wait_seconds": 5}
    agent_waiting.do(lambda client: client.call_tool("run_job", arguments, progress_callback=note))

    assert seen == [(0, 5, "The run is queued."), (0.01, 5, "The run is running.")]


def test_run_task_runs_once_without_a_schedule_at_the_default_place(call, owner):
    Profile.objects.filter(user=owner).update(topic="my-phone")

    answer = call("run_task", task="notify", kwargs={"message": "Hello"})

    job = Job.objects.get(public_id=answer["job_id"])
    assert (job.name, job.status, job.next_run_at) == ("Hello", "completed", None)
    assert job.kwargs == {"message": "Hello", "topic": "my-phone"}
    assert call("list_runs", **{"from": "today", "to": "tomorrow"})["runs"][0]["task"] == "notify"
    assert call("run_job", job_id=answer["job_id"])["status"] == "queued"


def test_run_task_refuses_unknown_tasks_bad_arguments_and_system_tasks(call, owner):
    unknown = call("run_task", task="backup")

    assert unknown["error"] == "Unknown task: backup"
    assert "webhook" in unknown["available_tasks"]
    bad = call("run_task", task="webhook", kwargs={"url": "nonsense"})
    assert bad["error"].startswith("Invalid arguments for task webhook: url")
    assert call("run_task", task="cronty.prune")["error"].startswith("Unknown task")
    assert not Job.objects.exists()


def test_agents_are_stopped_until_a_person_starts_them_again(call, owner):
    ExecutionFactory(job__owner=owner, job__task="prompt", status="running", attempt=1, finished_at=None)

    assert call("stop_agents") == {"runs_ended": 1}

    assert call("claim_prompts")["error"] == "laptop stopped all agents. A person can start them again."
    assert "laptop stopped all agents. Only a person" in call("get_preferences")["note"]
