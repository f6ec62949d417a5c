"""Tool families as a boundary: an agent of some families sees and changes only the jobs these are about."""

import json

import pytest
from asgiref.sync import async_to_sync
from mcp import MCPError

from schedules import services
from schedules.mcp import subscriptions
from schedules.mcp.auth import caller_of, local_caller, set_local_caller
from schedules.mcp.http import build_http_app
from schedules.mcp.offers import OFFERS
from schedules.mcp.server import build_server
from schedules.services.people.tokens import FAMILIES, tasks_of
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, TokenFactory
from tests.mcp.agents import InMemory, answer_of, connected
from tests.mcp.examples import examples
from tests.mcp.over_http import browser, http_client, running
from tests.security.owned_rows import everything

NOTE = {"message": "Tea", "topic": "home"}
UNKNOWN = "job_404_0"


@pytest.fixture
def rows(owner):
    """One job of the owner per family, and a waiting prompt."""
    ClusterFactory()
    jobs = {
        "jobs": JobFactory(owner=owner, name="Deploy"),
        "prompts": JobFactory(owner=owner, name="Look", task="prompt", kwargs={"prompt": "Look"}),
        "notifications": JobFactory(owner=owner, name="Tea", task="notify", kwargs=NOTE),
    }
    ExecutionFactory(job=jobs["prompts"], status="waiting")
    return jobs


@pytest.fixture
def agent_of(owner):
    """Return a function that makes the local caller an agent of these families."""

    def make(*families):
        set_local_caller(local_caller(owner, families=families))
        return InMemory("modern", build_server(families=families))

    yield make
    set_local_caller(None)


def test_advice_names_no_tool_that_is_not_offered(agent_of, rows, owner):
    agent = agent_of("core")
    services.cancel(services.Actor(owner), rows["jobs"].public_id)

    moved = agent.call("set_preferences", timezone="Asia/Tokyo")
    refused = agent.call("run_job", job_id=rows["jobs"].public_id)

    assert "bulk_jobs" not in moved.get("note", "")
    assert refused["error"].startswith("Job already cancelled")
    assert "hint" not in refused


def read(agent, uri):
    return json.loads(agent.do(lambda client: client.read_resource(uri)).contents[0].text)


@pytest.mark.parametrize("other", ["jobs", "prompts"])
def test_row_of_another_family_is_answered_like_an_unknown_one(agent_of, rows, other):
    agent, foreign = agent_of("notifications", "more"), rows[other]
    waiting = foreign.executions.first() or ExecutionFactory(job=foreign)
    before = everything()
    asked = 0
    for offer in OFFERS:
        given = examples(foreign, foreign, waiting)[offer.name]
        if offer.family not in ("notifications", "more") or not {"job_id", "schedule_id"} & set(given):
            continue
        id_name = "job_id" if "job_id" in given else "schedule_id"

        answer, unknown = (
            agent.call(offer.name, **given | {id_name: job_id}) for job_id in (foreign.public_id, UNKNOWN)
        )

        assert json.dumps(answer).replace(foreign.public_id, UNKNOWN) == json.dumps(unknown), offer.name
        asked += 1
    with pytest.raises(MCPError, match="Job not found"):
        read(agent, f"jobs://{foreign.public_id}")

    assert asked == 13
    assert everything() == before


def test_lists_and_resources_show_only_the_family(agent_of, rows):
    JobFactory(owner=rows["jobs"].owner, name="T\u0435a", next_run_at=rows["jobs"].next_run_at)
    agent, tea = agent_of("notifications", "more"), rows["notifications"].public_id

    assert {run["job_id"] for run in agent.call("upcoming")["upcoming"]} == {tea}
    assert [row["schedule_id"] for row in agent.call("list_scheduled_notifications")["schedules"]] == [tea]
    assert {run["job_id"] for run in read(agent, "agenda://today")["agenda"]} <= {tea}
    assert [task["name"] for task in read(agent, "tasks://registered")] == ["notify"]
    # A job of another family has a name that looks the same.
    assert "look_alike" not in agent.call("update_job", job_id=tea, name="Te\u0430")
    assert agent.call("pause_schedule", schedule_id=tea)["success"]


@pytest.mark.parametrize(
    ("families", "tasks"),
    [
        (["notifications"], {"notify"}),
        (["prompts"], {"prompt"}),
        (["prompts", "notifications", "more"], {"prompt", "notify"}),
        (["jobs", "notifications"], None),
        (["core"], None),
        (["core", "notifications"], None),
        (["more"], None),
        ([], None),
    ],
)
def test_tasks_of_families(owner, families, tasks):
    assert caller_of(TokenFactory(owner=owner, families=families)).actor.tasks == tasks
    assert tasks_of(families) == tasks


@pytest.mark.parametrize(
    ("families", "served", "tasks", "offered"),
    [
        ([], ["notifications"], {"notify"}, {"notifications"}),
        (["core"], ["notifications"], {"notify"}, set()),
        (["prompts"], ["notifications"], set(), set()),
        (["notifications", "more"], ["more"], {"notify"}, {"more"}),
        (["jobs"], ["more"], None, set()),
    ],
)
def test_token_at_a_server_of_some_families_has_what_both_have(owner, families, served, tasks, offered):
    caller = caller_of(TokenFactory(owner=owner, families=families), served)

    assert caller.actor.tasks == tasks
    assert {family for family in FAMILIES if caller.is_offered({family})} == offered


def test_token_of_all_families_sees_only_what_the_server_is_about(owner, rows):
    token = services.issue_token(owner, name="laptop").value.text
    deploy, tea = rows["jobs"].public_id, rows["notifications"].public_id

    async def talk():
        served = build_http_app(families=["notifications"], hosts=["127.0.0.1"])
        async with running(served) as app, browser(app, token) as http:

            async def work(client):
                deleted = [
                    answer_of(await client.call_tool("delete_schedule", {"schedule_id": job_id}))
                    for job_id in (deploy, tea)
                ]
                with pytest.raises(MCPError, match="Job not found"):
                    await client.read_resource(f"jobs://{deploy}")
                return deleted

            return await connected(lambda: http_client(http, "modern"), work)

    foreign, own = async_to_sync(talk)()

    assert (foreign["success"], own["success"]) == (False, True)
    assert "undo" not in own


def test_stream_about_a_job_of_another_family_is_refused(owner, rows):
    set_local_caller(local_caller(owner, families=["notifications"]))
    try:
        with pytest.raises(MCPError, match="Job not found"):
            subscriptions._read_addresses([f"jobs://{rows['jobs'].public_id}"])
        _, watched, _ = subscriptions._read_addresses([f"jobs://{rows['notifications'].public_id}"])
    finally:
        set_local_caller(None)

    assert list(watched.values()) == [f"jobs://{rows['notifications'].public_id}"]
