"""Resource subscriptions: notify connected agents about changed jobs, whoever changed them."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated, ServerEvent
from mcp_types import INVALID_PARAMS, SubscriptionsListenRequestParams, SubscriptionsListenResult
from pydantic import ValidationError

from schedules import clock
from schedules.mcp.answers import line
from schedules.mcp.auth import Caller, families_of, reading
from schedules.mcp.orm import orm
from schedules.mcp.resources import watched_address
from schedules.models import Token
from schedules.services import Actor
from schedules.services.people.connected_apps import read_app_token
from schedules.services.people.profiles import is_active_user
from schedules.services.versions import version_of_active_jobs, version_of_waiting, versions_of_jobs

POLL_SECONDS = 1.0
MOST_ADDRESSES = 100
# At a time: of one token, and of all tokens of one person, who would otherwise take every place for requests.
MOST_STREAMS = 5
MOST_STREAMS_OF_PERSON = 20

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Watcher:
    """One open stream: its caller, its resources, and their last known states."""

    caller: Caller
    addresses: Mapping[str, str]
    """The addresses that the client has named, each with the one that is watched."""
    stream: anyio.CancelScope
    states: dict[str, Any]
    deliver: Callable[[ServerEvent], None] = lambda event: None


_opening: ContextVar[Watcher] = ContextVar("opening")


@dataclass(eq=False, slots=True)
class Watch:
    """The open streams of a server, each of which polls its own resources for changes.

    For the SDK it is the event bus: a stream hears only of its own resources, because a bus that publishes to all
    streams would notify anyone who guesses an id.
    """

    _watchers: set[Watcher] = field(default_factory=set)
    _is_over: bool = False

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        _opening.get().deliver = listener
        return lambda: None

    async def publish(self, event: ServerEvent) -> None:
        """Ignore what the SDK tells everybody: the list of tools does not change."""

    async def listen(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Poll for a stream while it is open."""
        try:
            params = SubscriptionsListenRequestParams.model_validate(ctx.params or {})
        except ValidationError:
            # Leave it to the SDK's own validation, which refuses requests and ignores notifications.
            return await call_next(ctx)
        addresses = list(params.notifications.resource_subscriptions or ())
        if len(addresses) > MOST_ADDRESSES:
            raise MCPError(code=INVALID_PARAMS, message=f"subscribe to at most {MOST_ADDRESSES} resources")
        caller, watched, states = await orm(_watched)(addresses)
        if self._is_full(caller):
            problem = f"at most {MOST_STREAMS} subscriptions at a time: end one, or name all resources in one"
            raise MCPError(code=INVALID_PARAMS, message=problem)
        with anyio.CancelScope() as stream:
            watcher = Watcher(caller, watched, stream, states)
            _opening.set(watcher)
            self._watchers.add(watcher)
            if self._is_over:
                stream.cancel()
            polling = asyncio.create_task(_poll(watcher))
            try:
                return await call_next(ctx)
            finally:
                polling.cancel()
                self._watchers.discard(watcher)
        return SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    def _is_full(self, caller: Caller) -> bool:
        others = [other.caller for other in self._watchers if other.caller.actor.user == caller.actor.user]
        of_token = sum(other.token_id == caller.token_id for other in others)
        return of_token >= MOST_STREAMS or len(others) >= MOST_STREAMS_OF_PERSON

    @asynccontextmanager
    async def lifespan(self, server: object) -> AsyncIterator[dict[str, Any]]:
        """End the streams when the server stops."""
        self._is_over = False
        _running.add(self)
        try:
            yield {}
        finally:
            _running.discard(self)
            self.end()

    def end(self) -> None:
        """End every open stream with an answer, and any stream that opens later at once."""
        self._is_over = True
        for watcher in list(self._watchers):
            watcher.stream.cancel()


async def _poll(watcher: Watcher) -> None:
    while True:
        await asyncio.sleep(POLL_SECONDS)
        try:
            await step(watcher)
        except Exception:
            # Keep the stream open: the database will come back.
            logger.exception("Polling for changes failed; trying again")


async def step(watcher: Watcher) -> None:
    """Notify a subscriber about changes since the last step, or end the stream if its token is no longer valid."""
    if not await orm(_is_valid)(watcher.caller):
        watcher.stream.cancel()
        return
    states = await orm(_states)(watcher.caller.actor, [*watcher.addresses.values()])
    for name, address in watcher.addresses.items():
        if states[address] != watcher.states.get(address):
            watcher.deliver(ResourceUpdated(name))
    watcher.states = states


_running: set[Watch] = set()


def end_streams() -> None:
    """End all streams of this process: a stopping web server waits for open responses, and these never finish."""
    for watch in list(_running):
        watch.end()


def _watched(addresses: Sequence[str]) -> tuple[Caller, dict[str, str], dict[str, Any]]:
    """Return the caller, the watched address for each of these, and their states.

    Raise MCPError for an address that cannot be read, or if the caller may not read now.
    """
    try:
        with reading() as caller:
            watched = {address: watched_address(caller.actor, address) for address in addresses}
            states = _states(caller.actor, [*watched.values()])
    except (ToolError, ResourceNotFoundError) as error:
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from error
    for named, address in watched.items():
        if address.startswith("jobs://") and states[address] is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Job not found: {line(named, 200)}")
    return caller, watched, states


def _states(actor: Actor, addresses: Sequence[str]) -> dict[str, Any]:
    """Return for each address a value that changes whenever the resource changes."""
    every_job = functools.cache(lambda: version_of_active_jobs(actor))
    schemes = {address: address.partition("://")[0] for address in addresses}
    job_ids = [address.removeprefix("jobs://") for address in addresses if schemes[address] == "jobs"]
    jobs = versions_of_jobs(actor, job_ids) if job_ids else {}
    states: dict[str, Any] = dict.fromkeys(addresses)
    for address, scheme in schemes.items():
        if scheme == "jobs":
            states[address] = jobs.get(address.removeprefix("jobs://"))
        elif scheme in ("agenda", "schedules"):
            states[address] = every_job()
        elif scheme == "waiting":
            states[address] = version_of_waiting(actor)
    return states


def _is_valid(caller: Caller) -> bool:
    """Return whether the token is still valid, with the permissions that it had when the stream was opened."""
    if caller.token_id is None:
        return is_active_user(caller.actor.user)
    if caller.access_id is not None:
        token = read_app_token(caller.access_id)
    else:
        token = Token.objects.usable(clock.now()).filter(pk=caller.token_id).first()
    if token is None:
        return False
    return (frozenset(token.scopes), families_of(token)) == (caller.scopes, caller.families)
