"""The table of tools, what the server says about itself, and arguments as clients really send them."""

import pytest
from asgiref.sync import async_to_sync
from mcp import MCPError

from schedules import services
from schedules.models import Job
from schedules.services.tokens import FAMILIES
from schedules.tools.auth import local_caller, set_local_caller
from schedules.tools.orm import orm
from schedules.tools.server import INSTRUCTIONS, OFFERS, build_server
from tests.factories import JobFactory
from tests.tools.agents import InMemory, ToolRefusalError, text_of


def test_the_server_introduces_itself(olga):
    async def introduction(client):
        return client.server_info, client.instructions

    info, instructions = olga.do(introduction)

    assert (info.name, info.title, info.version) == ("cronty", "Cronty", "0.1.0")
    assert instructions == INSTRUCTIONS


def test_every_offer_has_a_family_that_tokens_know():
    assert {offer.family for offer in OFFERS} == set(FAMILIES)
    assert len({offer.name for offer in OFFERS}) == len(OFFERS)


def test_families_can_be_left_out(caller):
    tools = InMemory("modern", build_server(families=["jobs"])).do(lambda client: client.list_tools()).tools

    assert [tool.name for tool in tools] == ["schedule_job", "list_jobs", "cancel_job", "job_status"]


def test_lists_and_objects_may_come_as_json_text(call):
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


def test_a_bug_is_hidden_from_the_agent_and_logged(olga, monkeypatch, caplog):
    def fail(*args):
        raise RuntimeError("SELECT secret FROM /etc/passwd")

    monkeypatch.setattr(services, "cancel", fail)

    result = olga.raw("cancel_job", {"job_id": "x"})

    assert result.is_error
    assert text_of(result) == "Error executing tool cancel_job"
    assert "secret" in caplog.text


def test_ten_problems_are_enough(olga):
    with pytest.raises(ToolRefusalError) as refusal:
        olga.call("list_jobs", **{f"bogus{number}": 1 for number in range(50)})

    assert str(refusal.value).count("Extra inputs are not permitted") == 10


def test_an_unknown_tool_resource_or_method_is_refused(olga):
    with pytest.raises(ToolRefusalError, match="Unknown tool: nope"):
        olga.call("nope")
    with pytest.raises(MCPError):
        olga.do(lambda client: client.read_resource("nope://x"))


def test_calls_of_two_callers_do_not_mix(owner, stranger, worker):
    for user in (owner, stranger):
        JobFactory(owner=user, name=f"Job of {user}")
    for user in (owner, stranger):
        set_local_caller(local_caller(user))
        assert [job["name"] for job in InMemory("modern").call("list_jobs")["jobs"]] == [f"Job of {user}"]
    set_local_caller(None)


def test_orm_passes_arguments_results_and_errors_through(db):
    def divide(left, *, right):
        return left / right

    assert async_to_sync(orm(divide))(6, right=3) == 2
    with pytest.raises(ZeroDivisionError):
        async_to_sync(orm(divide))(6, right=0)
