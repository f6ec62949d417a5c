"""Authentication of agents: who calls a tool, with which scopes and tool families, and how often."""

import functools
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import InterfaceError, OperationalError, connections
from django.urls import reverse
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ConfigDict

from schedules.engine import sqlite_file
from schedules.models import Event, Token
from schedules.result import Code, Err
from schedules.services import Actor, verify_token
from schedules.services.people.connected_apps import verify_app_token
from schedules.services.people.profiles import is_active_user, profile_of_active
from schedules.services.people.tokens import FAMILIES, SCOPES, call_rate, report_calls, tasks_of, why_unusable
from schedules.worker.database_errors import TRY_AGAIN

logger = logging.getLogger(__name__)

LOCAL_NAME = "local agent"
_PROCESS = secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent that calls tools: the user for whom it acts, and its permissions."""

    actor: Actor
    scopes: frozenset[str] = frozenset(SCOPES)
    families: frozenset[str] = frozenset(FAMILIES)
    token_id: int | None = None
    access_id: int | None = None
    """The id of the OAuth access token, if the caller is a connected app."""
    served: frozenset[str] = frozenset(FAMILIES)
    """The families that the server offers at all."""

    def is_offered(self, families: Collection[str]) -> bool:
        """Return whether the caller sees a tool of these families."""
        return not (self.families.isdisjoint(families) or self.served.isdisjoint(families))

    def may(self, scope: str, families: Collection[str]) -> bool:
        return scope in self.scopes and self.is_offered(families)


class CallerToken(AccessToken):
    """The SDK's access token, with the caller that it identifies."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    caller: Caller


# Why the token of the current request was refused; empty without a token.
token_problem: ContextVar[str] = ContextVar("token_problem", default="")

_TOKEN_PROBLEMS = {
    "": "This server needs an access token, and the request has none.",
    "unknown": "This access token is unknown.",
    "expired": "This access token has expired.",
    "revoked": "This access token was revoked.",
    "inactive": "The account of this access token is not active: ask the operator.",
}


def why_unauthorized() -> str:
    """Say what is wrong with the token of the current request, and where to make a new one."""
    return f"{_TOKEN_PROBLEMS[token_problem.get()]} Make a new one at {settings.CRONTY_URL}{reverse('schedules:connect')}"


class CrontyTokens:
    """Verifies the token of every request to a server with these tool families."""

    def __init__(self, families: Collection[str] = FAMILIES) -> None:
        self._families = families

    async def verify_token(self, token: str) -> AccessToken | None:
        token_row = await orm(_verify)(token)
        if token_row is None:
            token_problem.set(await orm(why_unusable)(token))
            return None
        caller = caller_of(token_row, self._families)
        return CallerToken(
            token="",  # nosec B106  # left out, so that nothing can show it
            client_id=token_row.prefix,
            subject=token_row.owner.get_username(),
            scopes=sorted(caller.scopes),
            caller=caller,
        )


def _verify(text: str) -> Token | None:
    token = verify_token(text)
    if token is None and settings.CRONTY_OAUTH:
        token = verify_app_token(text)
    if token and (calls := call_rate.exchange(token)):
        report_calls(token.pk, calls)
    return token


def families_of(token: Token) -> frozenset[str]:
    return frozenset(token.families or FAMILIES)


def caller_of(token: Token, served: Collection[str] = FAMILIES) -> Caller:
    """Return the caller with this token; it sees the families that both the token and the server have."""
    families = families_of(token)
    limits = [tasks for tasks in (tasks_of(families), tasks_of(served)) if tasks is not None]
    actor = Actor(
        token.owner,
        Event.Door.MCP,
        name=token.name,
        key=f"token {token.pk}",
        profile=getattr(token.owner, "cronty_profile", None),
        confirm=token.confirm,
        tasks=frozenset.intersection(*limits) if limits else None,
    )
    return Caller(
        actor,
        scopes=frozenset(token.scopes),
        families=families,
        token_id=token.pk,
        access_id=token.access_id,
        served=frozenset(served),
    )


def local_caller(
    user: AbstractBaseUser,
    *,
    scopes: Collection[str] = SCOPES,
    families: Collection[str] = FAMILIES,
    name: str = LOCAL_NAME,
) -> Caller:
    """Build the caller for stdio, where the protocol carries no identity."""
    actor = Actor(user, Event.Door.MCP, name=name, key=_PROCESS, tasks=tasks_of(families))
    return Caller(actor, frozenset(scopes), frozenset(families))


_local: Caller | None = None
# The local caller with its profile, as read at the start of the current call.
_local_in_call: ContextVar[Caller | None] = ContextVar("local_caller", default=None)


def set_local_caller(caller: Caller | None) -> None:
    """Set the caller of requests without a token: the user for whom this process was started."""
    global _local
    _local = caller


def current_caller() -> Caller | None:
    """Return the caller of the current request, or None if it is unknown."""
    token = get_access_token()
    return token.caller if isinstance(token, CallerToken) else _local_in_call.get() or _local


def require(scope: str) -> Caller:
    """Return the caller, or raise ToolError if it lacks the scope."""
    caller = current_caller()
    if caller is None or scope not in caller.scopes:
        raise ToolError(f"this call needs the scope {scope}")
    return caller


@contextmanager
def read_access() -> Iterator[Caller]:
    """Check scope, call rate and user before a read that is no tool call; raise ToolError if one does not allow it."""
    caller = require("read")
    if refusal := too_many_calls(caller):
        raise ToolError(refusal.text)
    try:
        # For tokens, `verify_token` has checked the user already.
        if caller.token_id is None and not is_active_user(caller.actor.user):
            raise ToolError("The user of this server was deactivated.")
        yield caller
    except (OperationalError, InterfaceError) as error:
        logger.exception("The database did not answer")
        raise ToolError(TRY_AGAIN) from error


def with_profile(caller: Caller) -> Caller:
    """Return a local caller with the profile of its user; raise ToolError if that user was deactivated.

    For callers with a token, `verify_token` has done both already.
    """
    if caller.token_id is not None:
        return caller
    try:
        profile = profile_of_active(caller.actor.user)
    except (OperationalError, InterfaceError):
        # The tool will meet the same error, and answers it.
        return caller
    if profile is None:
        raise ToolError(
            f"The user {caller.actor.user.get_username()} was deactivated: this server serves nobody."
        )
    return replace(caller, actor=replace(caller.actor, profile=profile))


@contextmanager
def as_caller(caller: Caller) -> Iterator[None]:
    """Make this the current caller if the request has no token."""
    previous = _local_in_call.set(caller)
    try:
        yield
    finally:
        _local_in_call.reset(previous)


def current_actor() -> Actor:
    """Return the actor of the current call, whose scope was checked before."""
    caller = current_caller()
    if caller is None:
        raise ToolError("this call needs a token")
    return caller.actor


def too_many_calls(caller: Caller) -> Err | None:
    """Count one call of this caller; return an error with the time to wait if there were too many."""
    wait = call_rate.wait(caller)
    if not wait:
        return None
    return Err(Code.CALLS_TOO_FAST, limit=settings.CRONTY_MCP_CALLS_PER_MINUTE, retry_after=wait)


P = ParamSpec("P")
T = TypeVar("T")


def orm(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Make a function that uses the database awaitable; each process runs one such function at a time."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        sqlite_file.refuse_replaced()
        _drop_stale_connections()
        return function(*args, **kwargs)

    run = sync_to_async(guarded, thread_sensitive=True)

    @functools.wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run(*args, **kwargs)

    return wrapper


def _drop_stale_connections() -> None:
    # Django does this only after its own requests. A transaction must keep its connection.
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
