"""Resources: what is offered, who can read it, and how mistakes are refused."""

import json
from datetime import timedelta

import pytest
import time_machine
from django.db import OperationalError, connection
from mcp import MCPError

from schedules import clock
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.services import Actor
from schedules.services.runs import approvals
from schedules.tasks import registry
from schedules.tasks.links import page_of_job
from tests.factories import ApprovalFactory, ExecutionFactory, JobFactory
from tests.mcp.agents import InMemory
from tests.mcp.tools.test_jobs import COMMANDS


def read(agent: InMemory, uri: str):
    contents = agent.do(lambda client: client.read_resource(uri)).contents
    return json.loads(contents[0].text)


def test_every_resource_and_template_of_the_contract_is_offered(olga):
    listed = olga.do(lambda client: client.list_resources()).resources
    templates = olga.do(lambda client: client.list_resource_templates()).resource_templates

    assert {str(resource.uri) for resource in listed} == {
        "cron://examples",
        "timezones://valid",
        "tasks://registered",
        "agenda://today",
        "waiting://person",
        "ui://agenda",
        "ui://schedule",
    }
    assert {template.uri_template for template in templates} == {
        "schedules://{topic}",
        "jobs://{job_id}",
        "tasks://{task}",
        "timezones://{+zone}",
    }
    assert all(item.title and item.description for item in [*listed, *templates])


def test_static_resources_describe_valid_input(olga):
    tasks = {task["name"]: task for task in read(olga, "tasks://registered")}

    assert "Europe/Berlin" in read(olga, "timezones://valid")
    assert "30 8 * * 1-5" in read(olga, "cron://examples")
    assert set(tasks) == set(registry.names())
    assert tasks["notify"]["arguments"]["properties"]["topic"]["anyOf"][0]["pattern"]


def test_commands_are_listed_with_their_parameters_if_they_are_for_agents(olga, use_commands):
    use_commands(COMMANDS)

    tasks = {task["name"]: task for task in read(olga, "tasks://registered")}

    assert tasks["copy"]["arguments"]["properties"]["folder"]["enum"] == ["/home", "/srv"]
    assert read(olga, "tasks://copy") == tasks["copy"]
    assert "private" not in tasks
    with pytest.raises(MCPError, match="Task not found: private"):
        read(olga, "tasks://private")


def test_one_task_and_one_zone_can_be_read(olga):
    with time_machine.travel("2030-06-03T12:00:00Z", tick=False):
        assert read(olga, "timezones://Europe/Berlin") == {
            "timezone": "Europe/Berlin",
            "time": "2030-06-03T14:00:00+02:00",
        }
    assert read(olga, "tasks://notify")["arguments"]["required"] == ["message"]
    for unknown in ("tasks://nope", "tasks://prune", "timezones://Mars/Base", "timezones://../etc/passwd"):
        with pytest.raises(MCPError) as refusal:
            read(olga, unknown)
        assert refusal.value.code == -32602, unknown


def test_every_cron_example_is_understood(call):
    for expression in read(InMemory("modern"), "cron://examples"):
        answer = call("preview_schedule", trigger_type="cron", trigger_config={"expression": expression})
        assert answer["next_runs"], expression


def test_job_can_be_read_only_by_its_owner(olga, owner, stranger):
    mine, foreign = JobFactory(owner=owner), JobFactory(owner=stranger)

    assert read(olga, f"jobs://{mine.public_id}")["name"] == mine.name
    for unknown in (foreign.public_id, "nope"):
        with pytest.raises(MCPError, match=f"Job not found: {unknown}") as refusal:
            read(olga, f"jobs://{unknown}")
        assert refusal.value.error.code == -32602


def test_schedules_of_a_topic_are_only_those_of_the_reader(olga, owner, stranger):
    arguments = {"task": "notify", "kwargs": {"message": "x", "topic": "home"}}
    mine = JobFactory(owner=owner, **arguments)
    JobFactory(owner=stranger, **arguments)

    home = read(olga, "schedules://home")

    assert [schedule["schedule_id"] for schedule in home["schedules"]] == [mine.public_id]
    assert home["count"] == 1
    assert read(olga, "schedules://work") == {"schedules": [], "count": 0}


@time_machine.travel("2026-02-04T20:45:00+00:00", tick=False)
def test_agenda_lists_the_runs_until_midnight_in_the_zone_of_the_reader(olga, owner, stranger):
    hourly = {"cron": "15 * * * *", "next_run_at": clock.now() + timedelta(minutes=30)}
    job = JobFactory(owner=owner, name="Look", **hourly)
    JobFactory(owner=owner, cron="0 0 * * *", next_run_at=clock.now() + timedelta(hours=2, minutes=15))
    JobFactory(owner=stranger, **hourly)
    JobFactory(owner=owner, paused=True)

    today = read(olga, "agenda://today")

    assert (today["date"], today["timezone"]) == ("2026-02-04", "Europe/Berlin")
    assert today["agenda"] == [
        {
            "at": "2026-02-04T22:15:00+01:00",
            "job_id": job.public_id,
            "name": "Look",
            "task": job.task,
            "runs": 2,
            "last": "2026-02-04T23:15:00+01:00",
            "description": "Every hour at :15",
        }
    ]
    assert today["is_complete"] is True


def test_what_waits_for_a_person_is_listed_with_the_last_answers(olga, actor, owner, stranger):
    def ask(**fields):
        job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Push it."})
        return ApprovalFactory(execution=ExecutionFactory(job=job, status="queued", attempt=1), **fields)

    with time_machine.travel("2026-02-04T11:00:00+00:00", tick=False):
        call = ask()
        words = {
            "tool": "ask_person",
            "call_id": "",
            "arguments": {"question": "Which?", "choices": ["a", "b"]},
        }
        question = ask(**words)
        proposed = {"paused": True, "next_run_at": None, "proposed_at": clock.now(), "proposed_by": "laptop"}
        job = JobFactory(owner=owner, **proposed)
        JobFactory(owner=stranger, **proposed)
        approvals.answer_approval(actor, question.pk, "reply", seen=question.digest, text="b")

        told = read(olga, "waiting://person")

    noon = "2026-02-04T12:00:00+01:00"
    asked, waits = told["waiting"]
    assert (asked["kind"], asked["id"], asked["by"], asked["since"]) == ("call", call.pk, "notes", noon)
    assert asked["arguments"] == dict(call.shown_arguments)
    assert asked["about_permission"] == approvals.permission_words(call)
    page = page_of_job(job.public_id)
    assert (waits["kind"], waits["job_id"], waits["by"], waits["page"]) == (
        "job",
        job.public_id,
        "laptop",
        page,
    )
    [answered] = told["answered"]
    assert (answered["kind"], answered["id"], answered["reply"]) == ("question", question.pk, "b")
    assert (answered["question"], answered["choices"]) == ("Which?", ["a", "b"])
    assert answered["answer"].startswith("answered by olga")
    assert (answered["answered_at"], told["is_complete"]) == (noon, True)


@pytest.mark.parametrize("uri", ["waiting://person", "jobs://job_17_1", "agenda://today", "cron://examples"])
def test_database_that_is_away_is_named(olga, uri):
    def fail(*args):
        raise OperationalError("SELECT secrets FROM /var/lib")

    words = "The database does not answer just now: try again in a moment"
    with connection.execute_wrapper(fail), pytest.raises(MCPError, match=words):
        read(olga, uri)


def test_reading_needs_the_scope_read(agent: Actor, era):
    set_local_caller(local_caller(agent.user, scopes=["write"]))
    try:
        for uri in ("agenda://today", "waiting://person", "tasks://registered"):
            with pytest.raises(MCPError, match="needs the scope read"):
                read(InMemory(era), uri)
    finally:
        set_local_caller(None)
