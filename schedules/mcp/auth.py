"""The caller of a tool: identity, scopes, tool families and call rate."""

import logging
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import InterfaceError, OperationalError
from django.urls import reverse
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ConfigDict

from schedules.mcp.messages import message_of
from schedules.mcp.orm import orm
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
    """The access token, if the caller is a connected app."""
    served: frozenset[str] = frozenset(FAMILIES)
    """The families that the server offers to anybody."""

    def is_offered(self, families: Collection[str]) -> bool:
        """Return whether the caller is offered a tool of these families."""
        return not (self.families.isdisjoint(families) or self.served.isdisjoint(families))

    def may(self, scope: str, families: Collection[str]) -> bool:
        return scope in self.scopes and self.is_offered(families)


class CallerToken(AccessToken):
    """The SDK's access token, with the caller that it identifies."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    caller: Caller


# Why the token of the current request was refused; empty without a token.
refused_token: ContextVar[str] = ContextVar("refused_token", default="")

_WHAT_IS_WRONG = {
    "": "This server needs an access token, and the request has none.",
    "unknown": "This access token is unknown.",
    "expired": "This access token has expired.",
    "revoked": "This access token was revoked.",
    "inactive": "The account of this access token is not active: ask the operator.",
}


def why_unauthorized() -> str:
    """Say what is wrong with the token of the current request, and where to make a new one."""
    return f"{_WHAT_IS_WRONG[refused_token.get()]} Make a new one at {settings.CRONTY_URL}{reverse('schedules:connect')}"


class CrontyTokens:
    """The token verifier of a server with these tool families, which the SDK calls for every request."""

    def __init__(self, families: Collection[str] = FAMILIES) -> None:
        self._families = families

    async def verify_token(self, token: str) -> AccessToken | None:
        token_row = await _found(token)
        if token_row is None:
            refused_token.set(await orm(why_unusable)(token))
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


_found = orm(_verify)


def families_of(token: Token) -> frozenset[str]:
    return frozenset(token.families or FAMILIES)


def caller_of(token: Token, served: Collection[str] = FAMILIES) -> Caller:
    """Return the caller with this token at a server with these families: it sees what both are about."""
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
# The local caller with the profile that was read at the beginning of the current call.
_local_in_call: ContextVar[Caller | None] = ContextVar("local_caller", default=None)


def set_local_caller(caller: Caller | None) -> None:
    """Set the caller for requests without a token: the user for whom this process was started."""
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
def reading() -> Iterator[Caller]:
    """Check scope, call rate and user before something else than a tool reads; raises ToolError with the reason."""
    caller = require("read")
    if refusal := too_many_calls(caller):
        raise ToolError(message_of(refusal))
    try:
        # A token is checked by `verify_token` at every request.
        if caller.token_id is None and not is_active_user(caller.actor.user):
            raise ToolError("The user of this server was deactivated.")
        yield caller
    except (OperationalError, InterfaceError) as error:
        logger.exception("The database did not answer")
        raise ToolError(TRY_AGAIN) from error


def with_profile(caller: Caller) -> Caller:
    """Raise ToolError if the user of a local server is gone; else return the caller with the profile of the user.

    A token is checked, and its owner's profile read, by `verify_token`.
    """
    if caller.token_id is not None:
        return caller
    try:
        profile = profile_of_active(caller.actor.user)
    except (OperationalError, InterfaceError):
        # The tool itself meets the same error, and has the words for it.
        return caller
    if profile is None:
        raise ToolError(
            f"The user {caller.actor.user.get_username()} was deactivated: this server serves nobody."
        )
    return replace(caller, actor=replace(caller.actor, profile=profile))


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """Make this the current caller if no token says otherwise."""
    before = _local_in_call.set(caller)
    try:
        yield
    finally:
        _local_in_call.reset(before)


def current_actor() -> Actor:
    """Return the actor for whom the current call is made; the scope has been checked before."""
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
