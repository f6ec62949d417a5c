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
from schedules.mcp.auth import Caller, families_of, orm, read_access
from schedules.mcp.resources import polled_address
from schedules.models import Token
from schedules.services import Actor
from schedules.services.people.connected_apps import read_app_token
from schedules.services.people.profiles import is_active_user
from schedules.services.versions import version_of_active_jobs, version_of_waiting, versions_of_jobs

POLL_SECONDS = 1.0
MAX_ADDRESSES = 100
# Open at a time, of one token and of one person: open streams take the places of requests.
MAX_STREAMS = 5
MAX_STREAMS_PER_PERSON = 20

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Subscription:
    """One open stream: its caller, its resources, and their last known states."""

    caller: Caller
    addresses: Mapping[str, str]
    """The addresses that the client has named, each with the one that is polled."""
    cancel_scope: anyio.CancelScope
    states: dict[str, Any]
    deliver: Callable[[ServerEvent], None] = lambda event: None


_opening: ContextVar[Subscription] = ContextVar("opening")


@dataclass(eq=False, slots=True)
class SubscriptionHub:
    """The open streams of a server, each of which polls its own resources for changes.

    The SDK uses it as its event bus. A stream gets only changes of its own resources, because a bus that publishes to
    all streams would notify anyone who guesses an id.
    """

    _subscriptions: set[Subscription] = field(default_factory=set)
    _is_ended: bool = False

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        _opening.get().deliver = listener
        return lambda: None

    async def publish(self, event: ServerEvent) -> None:
        """Ignore what the SDK publishes to everybody: the list of tools does not change."""

    async def listen(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Open a stream, and poll for it until it ends."""
        try:
            params = SubscriptionsListenRequestParams.model_validate(ctx.params or {})
        except ValidationError:
            # Leave it to the SDK's own validation, which refuses requests and ignores notifications.
            return await call_next(ctx)
        addresses = list(params.notifications.resource_subscriptions or ())
        if len(addresses) > MAX_ADDRESSES:
            raise MCPError(code=INVALID_PARAMS, message=f"subscribe to at most {MAX_ADDRESSES} resources")
        caller, polled, states = await orm(_read_addresses)(addresses)
        if limit := self._reached_limit(caller):
            message = f"at most {limit} at a time: end one, or name all resources in one"
            raise MCPError(code=INVALID_PARAMS, message=message)
        with anyio.CancelScope() as cancel_scope:
            subscription = Subscription(caller, polled, cancel_scope, states)
            _opening.set(subscription)
            self._subscriptions.add(subscription)
            if self._is_ended:
                cancel_scope.cancel()
            polling = asyncio.create_task(_poll(subscription))
            try:
                return await call_next(ctx)
            finally:
                polling.cancel()
                self._subscriptions.discard(subscription)
        return SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    def _reached_limit(self, caller: Caller) -> str:
        open_callers = [each.caller for each in self._subscriptions]
        of_person = [each for each in open_callers if each.actor.user == caller.actor.user]
        of_token = sum(each.token_id == caller.token_id for each in of_person)
        if of_token >= MAX_STREAMS:
            return f"{MAX_STREAMS} subscriptions"
        too_many = len(of_person) >= MAX_STREAMS_PER_PERSON
        return f"{MAX_STREAMS_PER_PERSON} subscriptions of all your tokens" if too_many else ""

    @asynccontextmanager
    async def lifespan(self, server: object) -> AsyncIterator[dict[str, Any]]:
        """End the streams when the server stops."""
        self._is_ended = False
        _running.add(self)
        try:
            yield {}
        finally:
            _running.discard(self)
            self.end()

    def end(self) -> None:
        """End every open stream with an answer, and any that opens later at once."""
        self._is_ended = True
        for subscription in list(self._subscriptions):
            subscription.cancel_scope.cancel()


async def _poll(subscription: Subscription) -> None:
    while True:
        await asyncio.sleep(POLL_SECONDS)
        try:
            await step(subscription)
        except Exception:
            # Keep the stream open: the database will come back.
            logger.exception("Polling for changes failed; trying again")


async def step(subscription: Subscription) -> None:
    """Notify a subscriber about changes since the last step, or end the stream if its token is no longer valid."""
    if not await orm(_is_valid)(subscription.caller):
        subscription.cancel_scope.cancel()
        return
    states = await orm(_states)(subscription.caller.actor, [*subscription.addresses.values()])
    for name, address in subscription.addresses.items():
        if states[address] != subscription.states.get(address):
            subscription.deliver(ResourceUpdated(name))
    subscription.states = states


_running: set[SubscriptionHub] = set()


def end_streams() -> None:
    """End all streams of this process: a stopping web server waits for open responses, and these never finish."""
    for hub in list(_running):
        hub.end()


def _read_addresses(addresses: Sequence[str]) -> tuple[Caller, dict[str, str], dict[str, Any]]:
    """Return the caller, the address to poll for each of these, and their states.

    Raise MCPError for an address that cannot be read, or if the caller may not read now.
    """
    try:
        with read_access() as caller:
            polled = {address: polled_address(caller.actor, address) for address in addresses}
            states = _states(caller.actor, [*polled.values()])
    except (ToolError, ResourceNotFoundError) as error:
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from error
    for requested, address in polled.items():
        if address.startswith("jobs://") and states[address] is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Job not found: {line(requested, 200)}")
    return caller, polled, states


def _states(actor: Actor, addresses: Sequence[str]) -> dict[str, Any]:
    """Return for each address a value that changes whenever the resource changes."""
    active_jobs_version = functools.cache(lambda: version_of_active_jobs(actor))
    schemes = {address: address.partition("://")[0] for address in addresses}
    job_ids = [address.removeprefix("jobs://") for address in addresses if schemes[address] == "jobs"]
    jobs = versions_of_jobs(actor, job_ids) if job_ids else {}
    states: dict[str, Any] = dict.fromkeys(addresses)
    for address, scheme in schemes.items():
        if scheme == "jobs":
            states[address] = jobs.get(address.removeprefix("jobs://"))
        elif scheme in ("agenda", "schedules"):
            states[address] = active_jobs_version()
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
