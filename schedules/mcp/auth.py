"""The caller of a tool: identity, scopes, tool families and call rate."""

import math
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ConfigDict

from schedules.mcp.orm import orm
from schedules.models import Event, Token
from schedules.result import Code, Err
from schedules.services import Actor, verify_token
from schedules.services.tokens import FAMILIES, SCOPES

LOCAL_NAME = "local agent"
_PROCESS = secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent that calls tools: the user for whom it acts, and its permissions."""

    actor: Actor
    scopes: frozenset[str] = frozenset(SCOPES)
    families: frozenset[str] = frozenset(FAMILIES)
    token_id: int | None = None

    def may(self, scope: str, family: str) -> bool:
        return scope in self.scopes and family in self.families


class CallerToken(AccessToken):
    """The SDK's access token, with the caller that it identifies."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    caller: Caller


class CrontyTokens:
    """The token verifier that the SDK calls for every request."""

    async def verify_token(self, token: str) -> AccessToken | None:
        found = await orm(verify_token)(token)
        if found is None:
            return None
        caller = caller_of(found)
        return CallerToken(
            token="",  # nosec B106
            client_id=found.prefix,
            subject=found.owner.get_username(),
            scopes=sorted(caller.scopes),
            caller=caller,
        )


def caller_of(token: Token) -> Caller:
    profile = getattr(token.owner, "cronty_profile", None)
    return Caller(
        Actor(token.owner, Event.Door.MCP, name=token.name, key=f"token {token.pk}", profile=profile),
        scopes=frozenset(token.scopes),
        families=frozenset(token.families or FAMILIES),
        token_id=token.pk,
    )


def local_caller(
    user: AbstractBaseUser,
    *,
    scopes: Collection[str] = SCOPES,
    families: Collection[str] = FAMILIES,
    name: str = LOCAL_NAME,
) -> Caller:
    """Build the caller for stdio, where the protocol carries no identity."""
    actor = Actor(user, Event.Door.MCP, name=name, key=_PROCESS)
    return Caller(actor, frozenset(scopes), frozenset(families))


_local: Caller | None = None


def set_local_caller(caller: Caller | None) -> None:
    """Set the caller for requests without a token: the user for whom this process was started."""
    global _local
    _local = caller


def current_caller() -> Caller | None:
    """Return the caller of the current request, or None if it is unknown."""
    token = get_access_token()
    return token.caller if isinstance(token, CallerToken) else _local


def require(scope: str) -> Caller:
    """Return the caller, or raise ToolError if it lacks the scope."""
    caller = current_caller()
    if caller is None or scope not in caller.scopes:
        raise ToolError(f"this call needs the scope {scope}")
    return caller


def current_actor() -> Actor:
    """Return the actor for whom the current call is made; the scope has been checked before."""
    caller = current_caller()
    if caller is None:
        raise ToolError("this call needs a token")
    return caller.actor


@dataclass(slots=True)
class CallRate:
    """A token bucket per caller, which limits calls per minute."""

    _buckets: dict[Any, tuple[float, float]] = field(default_factory=dict)

    def wait(self, caller: Caller) -> float:
        """Count one call; return the seconds to wait if the caller has none left, else zero."""
        most = settings.CRONTY_MCP_CALLS_PER_MINUTE
        now = time.monotonic()
        left, at = self._buckets.get(caller.token_id, (float(most), now))
        left = min(float(most), left + (now - at) * most / 60)
        if left < 1:
            return (1 - left) * 60 / most
        self._buckets[caller.token_id] = (left - 1, now)
        return 0.0


call_rate = CallRate()


def too_many_calls(caller: Caller) -> Err | None:
    """Count one call of this caller; return an error with the time to wait if there were too many."""
    wait = call_rate.wait(caller)
    if not wait:
        return None
    words = f"at most {settings.CRONTY_MCP_CALLS_PER_MINUTE} calls a minute"
    return Err(Code.TOO_FAST, f"{words}; try again in {math.ceil(wait)} seconds", retry_after=wait)
