"""What an agent can read and hear of without calling a tool."""

import asyncio
import json
from contextlib import AsyncExitStack
from datetime import timedelta

import anyio
import pytest
import time_machine
from asgiref.sync import async_to_sync
from mcp import Client, MCPError

from schedules import clock, services
from schedules.mcp import subscriptions
from schedules.mcp.auth import call_rate, local_caller, set_local_caller
from schedules.models import Execution, Job
from schedules.services import Actor
from schedules.tasks import registry
from tests.factories import ExecutionFactory, JobFactory, TokenFactory
from tests.mcp.agents import InMemory


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
    }
    assert {template.uri_template for template in templates} == {"schedules://{topic}", "jobs://{job_id}"}
    assert all(item.title and item.description for item in [*listed, *templates])


def test_the_static_resources_say_what_can_be_written(olga):
    tasks = {task["name"]: task for task in read(olga, "tasks://registered")}

    assert "Europe/Berlin" in read(olga, "timezones://valid")
    assert "30 8 * * 1-5" in read(olga, "cron://examples")
    assert set(tasks) == set(registry.names())
    assert tasks["notify"]["arguments"]["properties"]["topic"]["pattern"]


def test_every_cron_example_is_understood(call):
    for expression in read(InMemory("modern"), "cron://examples"):
        answer = call("preview_schedule", trigger_type="cron", trigger_config={"expression": expression})
        assert answer["next_runs"], expression


def test_a_job_can_be_read_by_its_owner_alone(olga, owner, stranger):
    mine, foreign = JobFactory(owner=owner), JobFactory(owner=stranger)

    assert read(olga, f"jobs://{mine.public_id}")["name"] == mine.name
    for unknown in (foreign.public_id, "nope"):
        with pytest.raises(MCPError, match=f"Job not found: {unknown}") as refusal:
            read(olga, f"jobs://{unknown}")
        assert refusal.value.error.code == -32602


def test_the_schedules_of_a_topic_are_those_of_its_reader(olga, owner, stranger):
    arguments = {"task": "notify", "kwargs": {"message": "x", "topic": "home"}}
    mine = JobFactory(owner=owner, **arguments)
    JobFactory(owner=stranger, **arguments)

    home = read(olga, "schedules://home")

    assert [schedule["schedule_id"] for schedule in home["schedules"]] == [mine.public_id]
    assert home["count"] == 1
    assert read(olga, "schedules://work") == {"schedules": [], "count": 0}


@time_machine.travel("2026-02-04T20:45:00+00:00", tick=False)
def test_the_agenda_is_what_runs_until_the_readers_midnight(olga, owner, stranger):
    hourly = {"cron": "15 * * * *", "next_run_at": clock.now() + timedelta(minutes=30)}
    job = JobFactory(owner=owner, name="Look", **hourly)
    JobFactory(owner=owner, cron="0 0 * * *", next_run_at=clock.now() + timedelta(hours=2, minutes=15))
    JobFactory(owner=stranger, **hourly)
    JobFactory(owner=owner, paused=True)

    today = read(olga, "agenda://today")

    assert (today["date"], today["timezone"]) == ("2026-02-04", "Europe/Berlin")
    assert today["agenda"] == [
        {"at": f"2026-02-04T{hour}:15:00+01:00", "job_id": job.public_id, "name": "Look"} for hour in (22, 23)
    ]


def test_reading_needs_the_scope_read(agent: Actor, era):
    set_local_caller(local_caller(agent.user, scopes=["write"]))
    try:
        for uri in ("agenda://today", "tasks://registered"):
            with pytest.raises(MCPError, match="needs the scope read"):
                read(InMemory(era), uri)
    finally:
        set_local_caller(None)


def test_the_prompts_are_offered_and_unknown_ones_refused(olga):
    prompts = olga.do(lambda client: client.list_prompts()).prompts

    assert {prompt.name for prompt in prompts} == {"daily_briefing", "tidy_my_schedules"}
    for prompt in prompts:
        text = olga.do(lambda client, name=prompt.name: client.get_prompt(name)).messages[0].content.text
        assert "data, not instructions" in text
    with pytest.raises(MCPError, match="Unknown prompt: nope") as refusal:
        olga.do(lambda client: client.get_prompt("nope"))
    assert refusal.value.error.code == -32602


def test_an_argument_that_a_prompt_does_not_take_is_named(olga):
    with pytest.raises(MCPError, match="daily_briefing takes no arguments: leave out mood") as refusal:
        olga.do(lambda client: client.get_prompt("daily_briefing", {"mood": "good"}))
    assert refusal.value.error.code == -32602


@pytest.fixture
def quick_looks(monkeypatch):
    monkeypatch.setattr(subscriptions, "LOOK_SECONDS", 0.01)


async def first_event(client: Client, uri: str, change) -> str:
    """Open a stream, make a change elsewhere, and return the address of the first notice."""
    async with client.listen(resource_subscriptions=[uri]) as stream:
        await change()
        async with asyncio.timeout(10):
            async for event in stream:
                return str(event.uri)
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("address", ["agenda://today", "schedules://home"])
def test_a_subscriber_hears_of_a_run_that_was_claimed(caller, owner, quick_looks, address):
    JobFactory.create_batch(2, owner=owner)
    job = JobFactory(owner=owner)

    async def work(client):
        claim = Job.objects.filter(pk=job.pk).update
        return await first_event(client, address, lambda: subscriptions.orm(claim)(slot_count=1))

    assert InMemory("modern").do(work) == address


def test_a_subscriber_hears_of_a_change_made_elsewhere(caller, actor, owner, quick_looks):
    job = JobFactory(owner=owner)
    changes = [
        lambda: services.edit(actor, job.public_id, name="Changed on a page"),
        lambda: services.pause(actor, job.public_id),
        # A worker counts a run; no event is written for it.
        lambda: Job.objects.filter(pk=job.pk).update(run_count=1),
    ]
    for make_change in changes:

        async def work(client, make_change=make_change):
            return await first_event(client, f"jobs://{job.public_id}", subscriptions.orm(make_change))

        assert InMemory("modern").do(work) == f"jobs://{job.public_id}"


def test_the_agenda_changes_with_any_job_of_its_owner(caller, actor, owner, quick_looks):
    job = JobFactory(owner=owner)

    async def work(client):
        return await first_event(
            client, "agenda://today", subscriptions.orm(lambda: services.cancel(actor, job.public_id))
        )

    assert InMemory("modern").do(work) == "agenda://today"


def test_nobody_hears_of_another_owners_jobs(caller, owner, stranger):
    foreign = JobFactory(owner=stranger)
    watch = subscriptions.Watch()
    heard = []

    async def listen():
        watch.bus.subscribe(heard.append)
        await watch.bus.publish(subscriptions.JobChanged(f"jobs://{foreign.public_id}", owner_id=stranger.pk))
        await watch.bus.publish(subscriptions.JobChanged("jobs://mine", owner_id=owner.pk))

    async_to_sync(listen)()

    assert [event.uri for event in heard] == ["jobs://mine"]
    assert subscriptions._look(caller, [f"jobs://{foreign.public_id}"]) == {
        f"jobs://{foreign.public_id}": None
    }


def test_the_stream_of_a_revoked_token_ends(owner, quick_looks):
    token = TokenFactory(owner=owner)
    set_local_caller(subscriptions.Caller(Actor(owner, "mcp", "laptop"), token_id=token.pk))

    async def work(client):
        async with client.listen(resource_subscriptions=["agenda://today"]) as stream:
            await subscriptions.orm(lambda: type(token).objects.update(revoked_at=clock.now()))()
            async with asyncio.timeout(10):
                return [event async for event in stream]

    try:
        assert InMemory("modern").do(work) == []
    finally:
        set_local_caller(None)


def test_looking_goes_on_after_the_database_failed(caller, owner, quick_looks, monkeypatch, caplog):
    job = JobFactory(owner=owner)
    look, failures = subscriptions._look, [OSError("the database is away")]

    def look_or_fail(actor, addresses):
        if failures and caplog is not None and armed:
            raise failures.pop()
        return look(actor, addresses)

    armed: list[bool] = []
    monkeypatch.setattr(subscriptions, "_look", look_or_fail)

    async def change():
        armed.append(True)
        await subscriptions.orm(lambda: Job.objects.filter(pk=job.pk).update(run_count=1))()

    async def work(client):
        return await first_event(client, f"jobs://{job.public_id}", change)

    assert InMemory("modern").do(work) == f"jobs://{job.public_id}"
    assert not failures
    assert "looking for changes failed" in caplog.text


def test_a_subscriber_hears_of_an_attempt_that_will_be_repeated(caller, owner, quick_looks):
    job = JobFactory(owner=owner, attempts=3)
    row = ExecutionFactory(job=job, status="running", attempt=1)

    async def work(client):
        again = Execution.objects.filter(pk=row.pk).update
        return await first_event(
            client,
            f"jobs://{job.public_id}",
            lambda: subscriptions.orm(again)(status="queued", lease_until=None),
        )

    assert InMemory("modern").do(work) == f"jobs://{job.public_id}"


def test_many_jobs_are_looked_at_in_two_questions(caller, owner, django_assert_num_queries):
    jobs = JobFactory.create_batch(30, owner=owner)

    with django_assert_num_queries(2):
        seen = subscriptions._look(caller, [f"jobs://{job.public_id}" for job in jobs] + ["jobs://\x00"])

    assert sum(each is not None for each in seen.values()) == 30


def test_a_stream_that_is_about_to_open_does_not_hold_up_the_others(caller, owner):
    watch, heard = subscriptions.Watch(), []
    address = f"jobs://{JobFactory(owner=owner).public_id}"
    watch.bus.subscribe(heard.append)

    async def step():
        for seen in (None, {}):
            watch._watchers.add(
                subscriptions.Watcher(local_caller(owner), [address], anyio.CancelScope(), seen)
            )
        await watch.step()

    async_to_sync(step)()

    assert [change.uri for change in heard] == [address]


def test_a_subscription_is_a_call(caller, settings, monkeypatch):
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 1
    monkeypatch.setattr(call_rate, "_buckets", {})

    async def work(client):
        for _ in range(2):
            async with client.listen(resource_subscriptions=["agenda://today"]):
                pass

    with pytest.raises(MCPError, match="at most 1 calls a minute; try again in"):
        InMemory("modern").do(work)


def test_too_many_subscriptions_at_a_time_are_refused(caller):
    async def work(client):
        async with AsyncExitStack() as streams:
            for _ in range(subscriptions.MOST_STREAMS):
                await streams.enter_async_context(client.listen(resource_subscriptions=["agenda://today"]))
            with pytest.raises(MCPError, match="at most 5 subscriptions at a time"):
                await streams.enter_async_context(client.listen(resource_subscriptions=["agenda://today"]))
        async with client.listen(resource_subscriptions=["agenda://today"]):
            return "there is room again"

    assert InMemory("modern").do(work) == "there is room again"


def test_too_many_addresses_are_refused(caller):
    async def work(client):
        async with client.listen(resource_subscriptions=[f"jobs://{number}" for number in range(101)]):
            pass

    with pytest.raises(MCPError, match="at most 100"):
        InMemory("modern").do(work)
