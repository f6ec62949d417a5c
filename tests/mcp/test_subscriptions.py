"""Resource subscriptions: who is notified of which change, and when a stream ends."""

import asyncio
from contextlib import AsyncExitStack

import anyio
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from mcp import Client, MCPError

from schedules import clock, services
from schedules.mcp import subscriptions
from schedules.mcp.auth import call_rate, caller_of, local_caller, set_local_caller
from schedules.models import Job
from tests.factories import JobFactory, TokenFactory
from tests.mcp.agents import InMemory
from tests.waiting import PATIENCE


@pytest.fixture
def fast_polling(monkeypatch):
    monkeypatch.setattr(subscriptions, "POLL_SECONDS", 0.01)


async def first_event(client: Client, uri: str, change) -> str:
    """Open a stream, make a change elsewhere, and return the URI of the first notification."""
    async with client.listen(resource_subscriptions=[uri]) as stream:
        await change()
        async with asyncio.timeout(PATIENCE):
            async for event in stream:
                return str(event.uri)
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("address", ["agenda://today", "schedules://home"])
def test_subscriber_is_notified_of_a_claimed_run(caller, owner, fast_polling, address):
    JobFactory.create_batch(2, owner=owner)
    job = JobFactory(owner=owner)

    async def work(client):
        claim = Job.objects.filter(pk=job.pk).update
        return await first_event(client, address, lambda: subscriptions.orm(claim)(slot_count=1))

    assert InMemory("modern").do(work) == address


def test_subscriber_is_notified_of_a_change_made_elsewhere(caller, actor, owner, fast_polling):
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


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("agenda://tomorrow", "No resource to subscribe to: agenda://tomorrow"),
        ("nothing://here", "No resource to subscribe to: nothing://here"),
        ("jobs://job_404_0", "Job not found: jobs://job_404_0"),
        ("jobs://Twice", "Several jobs have this name"),
    ],
)
def test_resource_that_cannot_be_read_is_refused(caller, owner, uri, words):
    JobFactory.create_batch(2, owner=owner, name="Twice")

    async def work(client):
        async with client.listen(resource_subscriptions=["agenda://today", uri]):
            pass

    with pytest.raises(MCPError, match=words):
        InMemory("modern").do(work)


def test_state_of_another_owners_job_is_not_read(caller, stranger):
    job = JobFactory(owner=stranger)
    addresses = [f"jobs://{job.public_id}", "agenda://today", "schedules://home"]

    before = subscriptions._states(caller, addresses)
    Job.objects.update(last_run_at=clock.now())

    assert before[addresses[0]] is None
    assert subscriptions._states(caller, addresses) == before


@pytest.mark.parametrize(
    "change",
    [
        {"revoked_at": clock.now()},
        {"expires_at": clock.now()},
        {"scopes": ["read"]},
        {"families": ["core"]},
    ],
)
def test_stream_of_a_revoked_token_ends(owner, fast_polling, change):
    token = TokenFactory(owner=owner)
    caller = caller_of(token)
    set_local_caller(caller)
    assert subscriptions._is_valid(caller)

    async def work(client):
        async with client.listen(resource_subscriptions=["agenda://today"]) as stream:
            await subscriptions.orm(lambda: type(token).objects.update(**change))()
            async with asyncio.timeout(PATIENCE):
                return [event async for event in stream]

    try:
        assert InMemory("modern").do(work) == []
    finally:
        set_local_caller(None)


def test_polling_continues_after_a_database_error(caller, owner, fast_polling, monkeypatch, caplog):
    job = JobFactory(owner=owner)
    look, failures = subscriptions._states, [OSError("the database is away")]

    def look_or_fail(actor, addresses):
        if failures and caplog is not None and armed:
            raise failures.pop()
        return look(actor, addresses)

    armed: list[bool] = []
    monkeypatch.setattr(subscriptions, "_states", look_or_fail)

    async def change():
        armed.append(True)
        await subscriptions.orm(lambda: Job.objects.filter(pk=job.pk).update(run_count=1))()

    async def work(client):
        return await first_event(client, f"jobs://{job.public_id}", change)

    assert InMemory("modern").do(work) == f"jobs://{job.public_id}"
    assert not failures
    assert "Polling for changes failed" in caplog.text


def test_many_jobs_are_polled_in_two_queries(caller, owner, django_assert_num_queries):
    jobs = JobFactory.create_batch(30, owner=owner)

    with django_assert_num_queries(2):
        seen = subscriptions._states(caller, [f"jobs://{job.public_id}" for job in jobs] + ["jobs://\x00"])

    assert sum(each is not None for each in seen.values()) == 30


def test_stream_is_notified_of_what_has_changed_since_it_was_opened(caller, owner):
    heard = []
    address = f"jobs://{JobFactory(owner=owner).public_id}"

    async def step():
        subscription = subscriptions.Subscription(
            local_caller(owner), {address: address}, anyio.CancelScope(), {}, heard.append
        )
        await subscriptions.step(subscription)

    async_to_sync(step)()

    assert [change.uri for change in heard] == [address]


def test_subscription_counts_as_a_call(caller, settings, monkeypatch):
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 1
    monkeypatch.setattr(call_rate, "_buckets", {})

    async def work(client):
        for _ in range(2):
            async with client.listen(resource_subscriptions=["agenda://today"]):
                pass

    with pytest.raises(MCPError, match="at most 1 calls a minute; try again in"):
        InMemory("modern").do(work)


async def open_stream(client: Client) -> None:
    async with client.listen(resource_subscriptions=["agenda://today"]):
        pass


def test_user_of_a_local_server_who_is_gone_cannot_subscribe(caller, owner):
    get_user_model().objects.filter(pk=owner.pk).update(is_active=False)

    with pytest.raises(MCPError, match="deactivated"):
        InMemory("modern").do(open_stream)


def test_too_many_open_subscriptions_are_refused(caller):
    async def work(client):
        async with AsyncExitStack() as streams:
            for _ in range(subscriptions.MAX_STREAMS):
                await streams.enter_async_context(client.listen(resource_subscriptions=["agenda://today"]))
            with pytest.raises(MCPError, match="at most 5 subscriptions at a time"):
                await streams.enter_async_context(client.listen(resource_subscriptions=["agenda://today"]))
        async with client.listen(resource_subscriptions=["agenda://today"]):
            return "there is room again"

    assert InMemory("modern").do(work) == "there is room again"


def test_person_with_many_tokens_has_few_subscriptions(owner, stranger):
    most = subscriptions.MAX_STREAMS_PER_PERSON

    async def work(client):
        async with AsyncExitStack() as streams:

            async def listen(token):
                set_local_caller(caller_of(token))
                await streams.enter_async_context(client.listen(resource_subscriptions=["agenda://today"]))

            for token in tokens[:most]:
                await listen(token)
            with pytest.raises(MCPError, match="20 subscriptions of all your tokens at a time"):
                await listen(tokens[most])
            await listen(foreign)
        return "somebody else has room"

    tokens = TokenFactory.create_batch(most + 1, owner=owner)
    foreign = TokenFactory(owner=stranger)
    try:
        assert InMemory("modern").do(work) == "somebody else has room"
    finally:
        set_local_caller(None)
