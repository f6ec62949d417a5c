"""Streams of server-sent events: changes, sent to each open stream about once a second."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

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


@dataclass(eq=False, slots=True, weakref_slot=True)
class Stream:
    """An open stream: its token, its events, and how they are described."""

    token: Token
    feed: EventFeed
    describe: Callable[[Event], dict[str, Any]]
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


# Weak, because the response of a client that is gone already is never read.
_open: WeakSet[Stream] = WeakSet()


def end_streams() -> None:
    """End all streams of this process: a stopping server waits for open responses."""
    for stream in list(_open):
        stream.is_over.set()


def take_place(stream: Stream) -> None:
    """Count a stream as open, unless its person or this process has too many."""
    most = MAX_STREAMS, MAX_STREAMS_PER_PERSON, MAX_STREAMS_IN_PROCESS
    if reason := reason_if_full("streams", [each.token for each in _open], stream.token, most):
        raise ProblemError(429, "too_many_streams", reason, headers={"Retry-After": "30"})
    _open.add(stream)


def reason_if_full(what: str, taken: Collection[Token], token: Token, most: tuple[int, int, int]) -> str:
    """Return which limit is reached: that of a token, of a person, or of this process; empty if none is."""
    of_person = [each for each in taken if each.owner_id == token.owner_id]
    of_token = sum(each.pk == token.pk for each in of_person)
    for count, limit, whose in zip((of_token, len(of_person)), most, ("token", "person"), strict=False):
        if count >= limit:
            return f"At most {limit} {what} of a {whose} are open at a time: end one first."
    return f"All {most[2]} {what} of this server are taken: try again later." if len(taken) >= most[2] else ""


async def listen(stream: Stream) -> AsyncGenerator[str]:
    """Yield new events until the client disconnects, the token ends or the server stops."""
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
