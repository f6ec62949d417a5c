"""Streams of server-sent events: changes, sent to each open stream about once a second."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import sync_to_async

from schedules import clock
from schedules.api.problems import ProblemError
from schedules.models import Event, Token
from schedules.services import Actor
from schedules.services.event_feed import EventFeed, Position
from schedules.services.long_answers import read_while_waiting

POLL_SECONDS = 1.0
# Proxies close connections that are silent for a minute.
SILENT_POLLS = 15
MAX_EVENTS = 100
# Open at a time, of one token, of one person and in this process.
MAX_STREAMS = 5
MAX_STREAMS_PER_PERSON = 20
MAX_STREAMS_IN_PROCESS = 100

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Stream:
    """An open stream: its token, its events, and how they are described."""

    token: Token
    feed: EventFeed
    describe: Callable[[Event], dict[str, Any]]
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


_open: set[Stream] = set()


def end_streams() -> None:
    """End all streams of this process: a stopping server waits for open responses."""
    for stream in list(_open):
        stream.is_over.set()


def refuse_if_full(token: Token) -> None:
    of_person = [each for each in _open if each.token.owner_id == token.owner_id]
    of_token = sum(each.token.pk == token.pk for each in of_person)
    if (
        of_token >= MAX_STREAMS
        or len(of_person) >= MAX_STREAMS_PER_PERSON
        or len(_open) >= MAX_STREAMS_IN_PROCESS
    ):
        detail = f"At most {MAX_STREAMS} streams of a token are open at a time: end one first."
        raise ProblemError(429, "too_many_streams", detail, headers={"Retry-After": "30"})


async def listen(stream: Stream) -> AsyncGenerator[str]:
    """Yield new events until the client disconnects, the token ends or the server stops."""
    _open.add(stream)
    silent_polls = 0
    try:
        yield "retry: 5000\n\n"
        while not stream.is_over.is_set():
            try:
                messages = await read_while_waiting(_read_messages)(stream)
            except Exception:
                # The database will come back.
                logger.exception("Reading for a stream failed; trying again")
                messages = []
            if messages is None:
                return
            silent_polls = 0 if messages else silent_polls + 1
            if messages:
                yield "".join(messages)
            elif silent_polls % SILENT_POLLS == 0:
                yield ": still here\n\n"
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await stream.is_over.wait()
            except TimeoutError:
                pass
    finally:
        _open.discard(stream)


def feed_of(actor: Actor, last_id: str) -> EventFeed:
    """Return the feed of events after this id, or of those from now on without an id."""
    position = Position.parse(last_id)
    if last_id and position is None:
        raise ProblemError(
            422,
            "invalid",
            "Last-Event-ID: Send the id of an event of this stream.",
            errors=[("Last-Event-ID", "Send the id of an event of this stream.")],
        )
    return EventFeed(actor, position, clock.now())


def _read_messages(stream: Stream) -> list[str] | None:
    """Return the next messages; None if the token is no longer valid."""
    token = Token.objects.usable(clock.now()).filter(pk=stream.token.pk).first()
    if token is None or (token.scopes, token.families) != (stream.token.scopes, stream.token.families):
        return None
    events = stream.feed.read(MAX_EVENTS, clock.now())
    return [_message(position, event, stream.describe(event)) for position, event in events]


def _message(position: Position, event: Event, document: dict[str, Any]) -> str:
    return f"id: {position}\nevent: {event.verb.replace(' ', '-')}\ndata: {json.dumps(document)}\n\n"


async def in_threads(chunks: Iterator[str]) -> AsyncIterator[str]:
    """Yield the chunks of a synchronous iterator without blocking the event loop."""
    read_next = sync_to_async(lambda: next(chunks, None))
    while (chunk := await read_next()) is not None:
        yield chunk
