"""Schemas of secrets and tokens."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from schedules.api.common import Input, Moment, Output, Phrase
from schedules.api.endpoints import route
from schedules.services.people import operations

Scope = Literal["read", "write"]


class SecretIn(Input):
    """The value of a secret, and where it may go."""

    value: str = Field(max_length=16_384)
    hosts: list[Phrase] = Field(default_factory=list, max_length=20, examples=[["api.github.com"]])
    commands: list[Phrase] = Field(default_factory=list, max_length=20)
    expires_at: Phrase | None = Field(
        None,
        description="When the other side stops accepting it: a date, a time or a phrase. The owner is alerted a week before.",
        examples=["2030-03-31"],
    )


class SecretChange(Input):
    """What can be changed of a secret without its value."""

    expires_at: Phrase | None = Field(description="A date, a time or a phrase; null if it does not expire.")


class SecretOut(Output):
    """A secret without its value."""

    name: str
    hosts: list[str]
    commands: list[str]
    of_installation: bool
    updated_at: Moment
    expires_at: Moment | None
    expired: bool


class SecretsOut(Output):
    """The secrets of the owner, without their values."""

    secrets: list[SecretOut]


class NewToken(Input):
    """A token that may do no more than the one that asks."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    scopes: list[Scope] = Field(default=["read"], min_length=1, max_length=2)
    tools: list[Phrase] = Field(default_factory=list, max_length=5)
    kind: Literal["conversation", "heartbeat", "program"] = "program"
    confirm: Literal["never", "prompts", "always"] | None = Field(
        None,
        description="Which of the jobs that it makes wait until a person confirms them; default: as this token.",
    )
    expires_in_days: float = Field(30, gt=0, le=30)


class TokenOut(Output):
    """A token without its text."""

    id: int
    name: str
    kind: str
    scopes: list[str]
    tools: list[str]
    confirm: str
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None
    revoked_at: Moment | None
    is_connected_app: bool


class TokensOut(Output):
    """The tokens that are not revoked."""

    tokens: list[TokenOut]


class NewTokenOut(TokenOut):
    """A new token with its text, which is shown only now."""

    text: str


router = Router(tags=["access"])


def own_token(request: HttpRequest) -> dict[str, Any]:
    """Return the token of a request, for operations that depend on it."""
    return {"own": request.auth.token}  # type: ignore[attr-defined]


route(router, "GET /secrets", operations.list_secrets, SecretsOut)
route(router, "PUT /secrets/{secret}", operations.set_secret, SecretOut, body=SecretIn)
route(router, "PATCH /secrets/{secret}", operations.move_secret_expiry, SecretOut, body=SecretChange)
route(router, "DELETE /secrets/{secret}", operations.delete_secret, None)
route(router, "GET /tokens", operations.list_tokens, TokensOut)
route(
    router,
    "POST /tokens",
    operations.create_token,
    NewTokenOut,
    body=NewToken,
    status=201,
    repeatable=False,
    given=own_token,
)
route(router, "DELETE /tokens/{int:token}", operations.revoke_token, None, given=own_token)
