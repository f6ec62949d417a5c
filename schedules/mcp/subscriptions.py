"""Resource subscriptions: notify connected agents about changed jobs, whoever changed them."""

import asyncio
import functools
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from django.db.models import Count, Max, Min, Sum
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    InMemorySubscriptionBus,
    ResourceUpdated,
    ServerEvent,
)
from mcp_types import INVALID_PARAMS, SubscriptionsListenRequestParams, SubscriptionsListenResult
from pydantic import ValidationError

from schedules import clock
from schedules.mcp.answers import line
from schedules.mcp.auth import Caller, current_caller, families_of, is_local_user_gone, reading
from schedules.mcp.orm import orm
from schedules.mcp.resources import watched_address
from schedules.models import Event, Execution, Token
from schedules.models.job_queries import is_public_id
from schedules.services import Actor
from schedules.services.people.connected_apps import read_app_token

POLL_SECONDS = 1.0
MOST_ADDRESSES = 100
# At a time: of one token, and of all tokens of one person, who would otherwise take every place for requests.
MOST_STREAMS = 5
MOST_STREAMS_OF_PERSON = 20

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobChanged(ResourceUpdated):
    """A changed resource; only streams of its owner that may see the same jobs are notified."""

    owner_id: int | None = None
    tasks: frozenset[str] | None = None


class OwnerBus(InMemorySubscriptionBus):
    """An event bus that delivers only to the owner's streams; the stock bus would notify anyone who guesses an id."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        caller = current_caller()

        def deliver(event: ServerEvent) -> None:
            if not isinstance(event, JobChanged) or caller is None:
                return
            if (event.owner_id, event.tasks) == (caller.actor.user.pk, caller.actor.tasks):
                listener(event)

        return super().subscribe(deliver)


@dataclass(eq=False, slots=True)
class Watcher:
    """One open stream: its caller, its resources, and their last known state."""

    caller: Caller
    addresses: Mapping[str, str]
    """The addresses that the client has named, each with the one that is watched."""
    stream: anyio.CancelScope
    seen: dict[str, Any]


@dataclass(eq=False, slots=True)
class Watch:
    """Polls the subscribed resources for changes; does nothing while there is no subscription."""

    bus: OwnerBus = field(default_factory=OwnerBus)
    _watchers: set[Watcher] = field(default_factory=set)
    _is_over: bool = False

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Register a stream while it is open, as a middleware of the server; pass on every other request."""
        if ctx.method != "subscriptions/listen":
            return await call_next(ctx)
        try:
            params = SubscriptionsListenRequestParams.model_validate(ctx.params or {})
        except ValidationError:
            # Leave it to the SDK's own validation, which refuses requests and ignores notifications.
            return await call_next(ctx)
        addresses = list(params.notifications.resource_subscriptions or ())
        if len(addresses) > MOST_ADDRESSES:
            raise MCPError(code=INVALID_PARAMS, message=f"subscribe to at most {MOST_ADDRESSES} resources")
        caller, watched, seen = await orm(_watched)(addresses)
        if self._is_full(caller):
            words = f"at most {MOST_STREAMS} subscriptions at a time: end one, or name all resources in one"
            raise MCPError(code=INVALID_PARAMS, message=words)
        with anyio.CancelScope() as stream:
            watcher = Watcher(caller, watched, stream, seen)
            self._watchers.add(watcher)
            if self._is_over:
                stream.cancel()
            try:
                return await call_next(ctx)
            finally:
                self._watchers.discard(watcher)
        return SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    def _is_full(self, caller: Caller) -> bool:
        others = [other.caller for other in self._watchers if other.caller.actor.user == caller.actor.user]
        of_token = sum(other.token_id == caller.token_id for other in others)
        return of_token >= MOST_STREAMS or len(others) >= MOST_STREAMS_OF_PERSON

    @asynccontextmanager
    async def lifespan(self, server: object) -> AsyncIterator[dict[str, Any]]:
        """Poll every second while the server runs, then end the streams."""
        self._is_over = False
        task = asyncio.create_task(self._poll())
        _running.add(self)
        try:
            yield {}
        finally:
            _running.discard(self)
            task.cancel()
            self.end()

    def end(self) -> None:
        """End every open stream with an answer, and any stream that opens later at once."""
        self._is_over = True
        for watcher in list(self._watchers):
            watcher.stream.cancel()

    async def step(self) -> None:
        """Notify subscribers about changes since the last step, and end the streams of tokens that are no longer valid."""
        changes: set[JobChanged] = set()
        for watcher in list(self._watchers):
            if not await orm(_is_valid)(watcher.caller):
                watcher.stream.cancel()
                continue
            actor = watcher.caller.actor
            now = await orm(_states)(actor, [*watcher.addresses.values()])
            changes |= {
                JobChanged(named, owner_id=actor.user.pk, tasks=actor.tasks)
                for named, watched in watcher.addresses.items()
                if now[watched] != watcher.seen.get(watched)
            }
            watcher.seen = now
        for change in changes:
            await self.bus.publish(change)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.step()
            except Exception:
                # Keep the streams open: the database will come back.
                logger.exception("Polling for changes failed; trying again")


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
    every_job = functools.cache(lambda: _every_job(actor))
    named = [address.removeprefix("jobs://") for address in addresses if address.startswith("jobs://")]
    jobs = _these_jobs(actor, named) if named else {}
    seen: dict[str, Any] = {}
    for address in addresses:
        scheme, _, name = address.partition("://")
        match scheme:
            case "jobs":
                seen[address] = jobs.get(name)
            case "agenda" | "schedules":
                seen[address] = every_job()
            case _:
                seen[address] = None
    return seen


def _these_jobs(actor: Actor, job_ids: Collection[str]) -> dict[str, Any]:
    """Return the state of jobs by id, with the progress of their unfinished runs."""
    jobs = actor.jobs().filter(public_id__in=filter(is_public_id, job_ids)).order_by().in_bulk()
    runs: dict[int | None, list[Any]] = defaultdict(list)
    live = Execution.objects.live().filter(job__in=jobs).order_by("pk")
    for job_pk, *run in live.values_list("job", "pk", "status", "attempt"):
        runs[job_pk].append(run)
    return {
        job.public_id: (
            (job.revision, job.status, job.run_count, job.recent, job.next_run_at, job.last_error),
            runs[pk],
        )
        for pk, job in jobs.items()
    }


def _every_job(actor: Actor) -> Any:
    """Return a summary of all active jobs; a claim changes `slot_count`, and the end of a run `last_run_at`."""
    events = Event.objects.filter(actor.within_tasks("job__task"), owner=actor.user.pk)
    # The newest alone: an aggregate would read every event of the owner if only some tasks may be seen.
    changed = events.order_by("-pk").values_list("pk", flat=True).first()
    jobs = actor.jobs().active().order_by()
    return changed, jobs.aggregate(Count("pk"), Sum("slot_count"), Min("next_run_at"), Max("last_run_at"))


def _is_valid(caller: Caller) -> bool:
    """Return whether the token is still valid, with the permissions that it had when the stream was opened."""
    if caller.token_id is None:
        return not is_local_user_gone(caller)
    if caller.access_id is not None:
        token = read_app_token(caller.access_id)
    else:
        token = Token.objects.usable(clock.now()).filter(pk=caller.token_id).first()
    if token is None:
        return False
    return (frozenset(token.scopes), families_of(token)) == (caller.scopes, caller.families)
