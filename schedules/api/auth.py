"""Authentication of the API: the owner of a token as the caller, its scopes and its call rate."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from ninja.security import HttpBearer

from schedules.api.problems import ProblemError, problem_of
from schedules.models import Event, Token
from schedules.result import Code, Err
from schedules.services import Actor, verify_token
from schedules.services.people.tokens import FAMILIES, call_rate, report_calls, tasks_of, why_unusable

_TOKEN_PROBLEMS = {
    "": "The API needs an access token in the header Authorization: Bearer cronty_…, and the request has none.",
    "unknown": "This access token is unknown.",
    "expired": "This access token has expired.",
    "revoked": "This access token was revoked.",
    "inactive": "The account of this access token is not active: ask the operator.",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """The owner of a token, as an actor, and what the token allows."""

    actor: Actor
    token: Token

    @property
    def token_id(self) -> int:
        return self.token.pk

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset(self.token.scopes)


def caller_of(token: Token) -> Caller:
    actor = Actor(
        token.owner,
        Event.Door.API,
        name=token.name,
        key=f"token {token.pk}",
        profile=getattr(token.owner, "cronty_profile", None),
        confirm=token.confirm,
        tasks=tasks_of(token.families or FAMILIES),
        is_program=token.kind == Token.Kind.PROGRAM,
    )
    return Caller(actor, token)


class BearerToken(HttpBearer):
    """Identifies the caller, and refuses a request without the scope or after too many calls."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self._scope = scope

    def __call__(self, request: HttpRequest) -> Caller:
        caller: Caller | None = super().__call__(request)
        if caller is None:
            raise unauthorized("")
        return caller

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        access_token = verify_token(token.strip())
        if access_token is None:
            raise unauthorized(why_unusable(token.strip()))
        if calls := call_rate.exchange(access_token):
            report_calls(access_token.pk, calls)
        caller = caller_of(access_token)
        wait = call_rate.wait(caller)
        vars(request)["rate_left"] = call_rate.left(caller)
        if wait:
            limit = settings.CRONTY_MCP_CALLS_PER_MINUTE
            raise problem_of(Err(Code.CALLS_TOO_FAST, limit=limit, retry_after=wait))
        if self._scope not in caller.scopes:
            raise scope_missing(self._scope)
        return caller


READS = BearerToken("read")
WRITES = BearerToken("write")


def scope_missing(scope: str) -> ProblemError:
    return ProblemError(
        403,
        "scope_missing",
        f"This call needs a token with the scope {scope}. Make one at {connect_address()}",
        headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
    )


def unauthorized(reason: str) -> ProblemError:
    """Say what is wrong with the token of a request, and where to make a new one."""
    detail = f"{_TOKEN_PROBLEMS[reason]} Make a new one at {connect_address()}"
    error = f' error="invalid_token", error_description="{_TOKEN_PROBLEMS[reason]}"' if reason else ""
    return ProblemError(
        401,
        "unauthorized",
        detail,
        headers={"WWW-Authenticate": f'Bearer realm="Cronty"{"," * bool(error)}{error}'},
    )


def connect_address() -> str:
    return f"{settings.CRONTY_URL}{reverse('schedules:connect')}"


def actor_of(request: HttpRequest) -> Actor:
    """Return the actor of a request that `READS` or `WRITES` has authenticated."""
    caller: Any = request.auth  # type: ignore[attr-defined]
    actor: Actor = caller.actor
    return actor
