"""Activity over the API: a list, and a stream that can be resumed."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from schedules import clock
from schedules.api import streams
from schedules.models import Event, Token
from schedules.services import long_answers, pause, resume, revoke_token
from tests.api.conftest import Program, program_of
from tests.factories import JobFactory
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def no_connections_left() -> Iterator[None]:
    """Close the connections of the threads that serve asynchronous requests, or the database could not be dropped."""
    yield
    long_answers._reader.submit(connections.close_all).result()
    asyncio.run(sync_to_async(connections.close_all)())


def test_changes_are_listed_with_their_words_and_filtered(owner, actor, program: Program, program_with):
    job = JobFactory(owner=owner, task="notify", name="Tea")
    pause(actor, job.public_id, reason="holidays")
    program.ok("PATCH", f"/jobs/{job.pk}", {"name": "Green tea"}, **{"If-Match": "*"})

    newest, *_ = program.ok("GET", "/events")["events"]
    assert (newest["verb"], newest["door"], newest["actor"], newest["job_id"]) == (
        "edit",
        "api",
        "n8n",
        job.public_id,
    )
    assert newest["changes"] == ["Name Tea → Green tea"]
    for query, verbs in {
        "door=api&verb=edit": ["edit"],
        "actor=olga&verb=pause": ["pause"],
        f"job={job.pk}&limit=1": ["edit"],
    }.items():
        assert [event["verb"] for event in program.ok("GET", f"/events?{query}")["events"]] == verbs
    prompts = program_with(name="prompts", families=["prompts"])
    assert job.public_id not in [event["job_id"] for event in prompts.ok("GET", "/events")["events"]]


@pytest.mark.parametrize("door", Event.Door.values)
def test_changes_through_each_door_are_found(owner, program: Program, door: str):
    for each in (door, "web" if door == "api" else "api"):
        Event.objects.create(
            owner=owner, actor="olga", door=each, verb="pause", subject="Tea", at=clock.now()
        )

    events = program.ok("GET", f"/events?door={door}")["events"]
    assert {event["door"] for event in events} == {door}


def test_unknown_door_is_refused_with_the_known_ones(program: Program):
    answer = program.call("GET", "/events?door=window")

    [problem] = json.loads(answer.content)["errors"]
    assert (answer.status_code, problem["field"]) == (422, "door")
    assert all(door in problem["detail"] for door in Event.Door.values)


@pytest.fixture
def activity(transactional_db: None, owner, actor) -> list[Event]:
    job = JobFactory(owner=owner)
    for change in (pause, resume, pause):
        change(actor, job.public_id)
    return list(Event.objects.filter(job=job).order_by("pk"))


def in_thread(act: Callable[[], Any]) -> Any:
    """Act as somebody else does meanwhile, with a connection of its own."""
    try:
        return act()
    finally:
        connections.close_all()


async def first_messages(
    program: Program, wanted: int, act, path: str = "/events/stream", **headers: str
) -> list[str]:
    answer = await AsyncClient().get(
        f"/api/v1{path}", headers={"Authorization": f"Bearer {program.text}", **headers}
    )
    found: list[str] = []
    assert answer["Content-Type"] == "text/event-stream"
    async with asyncio.timeout(PATIENCE):
        async for part in answer.streaming_content:
            if not found and act:
                await asyncio.to_thread(in_thread, act)
                act = None
            found += [each for each in part.decode().split("\n\n") if each.startswith("id:")]
            if len(found) >= wanted:
                break
    await answer.streaming_content.aclose()
    return found


def test_stream_sends_what_changes_and_is_resumed(owner, actor, activity, monkeypatch):
    monkeypatch.setattr(streams, "POLL_SECONDS", 0.02)
    program = program_of(owner)
    job_id = activity[0].job.public_id

    [live] = asyncio.run(first_messages(program, 1, lambda: resume(actor, job_id)))
    resumed = asyncio.run(first_messages(program, 3, None, **{"Last-Event-ID": str(activity[0].pk)}))

    assert "event: resume" in live
    assert [message.partition("\n")[0] for message in resumed[:2]] == [
        f"id: {event.pk}" for event in activity[1:]
    ]
    assert json.loads(resumed[0].rpartition("data: ")[2])["verb"] == "resume"
    assert not streams._open


def test_list_of_changes_is_a_stream_for_whoever_accepts_that(owner, activity, monkeypatch):
    monkeypatch.setattr(streams, "POLL_SECONDS", 0.02)
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(activity[0].pk)}

    messages = asyncio.run(first_messages(program_of(owner), 1, None, "/events", **headers))

    assert messages[0].startswith(f"id: {activity[1].pk}\n")


def test_stream_ends_with_its_token_and_with_the_server(owner, activity, monkeypatch):
    monkeypatch.setattr(streams, "POLL_SECONDS", 0.02)
    for number, end in enumerate(
        (lambda program: revoke_token(owner, program.token.pk), lambda program: streams.end_streams())
    ):
        program = program_of(owner, name=f"p{number}")
        messages = asyncio.run(first_messages(program, 10**6, lambda program=program, end=end: end(program)))
        assert len(messages) <= 2


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("MAX_STREAMS", "of a token"),
        ("MAX_STREAMS_PER_PERSON", "of a person"),
        ("MAX_STREAMS_IN_PROCESS", "of this server"),
    ],
)
def test_streams_are_bounded_and_the_refusal_says_by_what(owner, activity, monkeypatch, limit, words):
    monkeypatch.setattr(streams, limit, 0)

    async def ask() -> tuple[int, str]:
        program = await asyncio.to_thread(in_thread, lambda: program_of(owner))
        headers = {"Authorization": f"Bearer {program.text}"}
        answer = await AsyncClient().get("/api/v1/events/stream", headers=headers)
        return answer.status_code, answer.content.decode()

    status, problem = asyncio.run(ask())
    assert (status, words in problem) == (429, True), problem


@pytest.mark.parametrize("kind", ["none", "revoked", "write"])
def test_stream_asks_for_a_usable_token_that_may_read(owner, activity, kind):
    program = program_of(owner, scopes=["write"])
    if kind == "revoked":
        revoke_token(owner, program.token.pk)
    headers = {} if kind == "none" else {"Authorization": f"Bearer {program.text}"}

    async def ask() -> int:
        return (await AsyncClient().get("/api/v1/events/stream", headers=headers)).status_code

    assert asyncio.run(ask()) == (403 if kind == "write" else 401)
    assert Token.objects.count() == 1
