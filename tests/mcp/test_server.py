"""The table of tools, the server's introduction, and arguments as real clients send them."""

import asyncio

import pytest
from asgiref.sync import async_to_sync

from cronty_site.asgi import build_application
from schedules import services
from schedules.mcp.wording import INSTRUCTIONS
from schedules.models import Job
from schedules.services import issue_token
from tests.mcp.agents import InMemory, ToolRefusalError, answer_of, text_of
from tests.mcp.over_http import browser, http_client, running

HOURLY = {"name": "x", "task": "tests.ping", "trigger_type": "interval", "trigger_config": {"hours": 1}}


@pytest.fixture
def olga(caller, era):
    return InMemory(era)


def test_server_introduces_itself(olga):
    async def introduction(client):
        return client.server_info, client.instructions

    info, instructions = olga.do(introduction)

    assert (info.name, info.title, info.version) == ("cronty", "Cronty", "0.1.0")
    assert instructions == INSTRUCTIONS


def test_lists_and_objects_are_accepted_as_json_text(call):
    answer = call(
        "schedule_job",
        name="x",
        task="tests.ping",
        trigger_type="cron",
        trigger_config='{"expression": "@daily"}',
        args="[1, 2]",
    )

    assert answer["status"] == "pending"
    assert Job.objects.get().args == [1, 2]


def test_bug_is_hidden_from_the_agent_and_logged(olga, monkeypatch, caplog):
    def fail(*args):
        raise RuntimeError("SELECT secret FROM /etc/passwd")

    monkeypatch.setattr(services, "cancel", fail)

    result = olga.raw("cancel_job", {"job_id": "x"})

    assert result.is_error
    assert text_of(result) == "Error executing tool cancel_job"
    assert "secret" in caplog.text


def test_error_lists_at_most_ten_problems(olga):
    with pytest.raises(ToolRefusalError) as refusal:
        olga.call("list_jobs", **{f"bogus{number}": 1 for number in range(50)})

    assert str(refusal.value).count("unknown field bogus") == 10


@pytest.mark.parametrize(
    ("tool", "arguments", "cure"),
    [
        ("list_jobs", {"staus": "paused"}, "unknown field staus: use status"),
        ("get_current_time", {"colour": "red"}, "unknown field colour: it takes"),
        ("schedule_job", {"alerts": "never"}, "has no alerts: call update_job with it afterwards"),
        ("schedule_job", {"trigger_config": 7}, "trigger_config: send an object, like"),
        ("schedule_job", {"url": "https://example.org"}, "arguments of the task go into kwargs"),
    ],
)
def test_wrong_argument_is_answered_with_what_to_send(call, tool, arguments, cure):
    with pytest.raises(ToolRefusalError) as refusal:
        call(tool, **arguments)

    assert cure in str(refusal.value)


@pytest.mark.usefixtures("unlimited")
def test_concurrent_calls_of_two_owners_do_not_mix(owner, stranger, era):
    people = (owner, stranger)
    tokens = [issue_token(user, name=f"Agent of {user}").value.text for user in people]

    async def create_and_list(client):
        made = answer_of(await client.call_tool("schedule_job", HOURLY))["job_id"]
        maker = answer_of(await client.call_tool("job_status", {"job_id": made})).get("made_by")
        listed = answer_of(await client.call_tool("list_jobs", {}))["jobs"]
        return made, maker, {job["job_id"] for job in listed}

    async def work(app, token):
        async with browser(app, token) as http, http_client(http, era) as client:
            return await asyncio.gather(*(create_and_list(client) for _ in range(10)))

    async def work_at_once():
        async with running(build_application()) as app:
            return await asyncio.gather(*(work(app, token) for token in tokens))

    for user, rounds in zip(people, async_to_sync(work_at_once)(), strict=True):
        made, makers, lists = zip(*rounds, strict=True)
        assert set(makers) == {f"Agent of {user}"}
        assert set(made) == set().union(*lists) == set(user.cronty_jobs.values_list("public_id", flat=True))
