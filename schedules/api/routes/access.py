"""Secrets, which can only be written, and the owner's tokens."""

from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads
from schedules.api.schemas.access import NewToken, NewTokenOut, SecretChange, SecretIn, SecretOut, TokensOut
from schedules.models import Token
from schedules.result import expect
from schedules.services.documents import iso_in, token_json
from schedules.services.people.access import issue_lesser_token, own_tokens, revoke_own_token
from schedules.services.people.stored_secrets import ListedSecret, delete_secret, move_expiry, set_secret

router = Router(tags=["access"])


@changes(router, "PUT", "/secrets/{name}", {200: SecretOut})
def set_secret_value(request: HttpRequest, name: str, body: SecretIn) -> Any:
    """Set a secret, with the hosts and commands that it may go to; nothing ever shows its value again.

    Only a token of the type Program may do this.
    """
    actor = actor_of(request)
    stored = set_secret(
        actor,
        name,
        body.value,
        hosts=body.hosts,
        commands=body.commands,
        expires=body.expires_at or "",
    )
    return _secret_json(expect(stored), actor.read_profile().zone)


@changes(router, "PATCH", "/secrets/{name}", {200: SecretOut})
def move_secret_expiry(request: HttpRequest, name: str, body: SecretChange) -> Any:
    """Change when a secret expires, without setting its value again.

    Only a token of the type Program may do this.
    """
    actor = actor_of(request)
    moved = expect(move_expiry(actor, name, body.expires_at or ""))
    return _secret_json(moved, actor.read_profile().zone)


def _secret_json(secret: ListedSecret, zone: str) -> dict[str, Any]:
    return {
        "name": secret.name,
        "hosts": list(secret.hosts),
        "commands": list(secret.commands),
        "expires_at": iso_in(secret.expires_at, zone),
        "expired": secret.is_expired,
    }


@changes(router, "DELETE", "/secrets/{name}", {204: None})
def delete_secret_value(request: HttpRequest, name: str) -> Any:
    """Delete a secret; runs that refer to it fail from now on."""
    expect(delete_secret(actor_of(request), name))
    return Status(204, None)


@reads(router, "/tokens", TokensOut)
def list_tokens(request: HttpRequest) -> Any:
    """List the tokens of the owner, without their texts."""
    actor = actor_of(request)
    return {"tokens": [_listed_token(token, actor.read_profile().zone) for token in own_tokens(actor)]}


@changes(router, "POST", "/tokens", {201: NewTokenOut}, repeatable=False)
def create_token(request: HttpRequest, body: NewToken) -> Any:
    """Create a token that may do no more than this one, and ends no later, within 30 days; its text is shown once.

    Only a token of the type Program may do this.
    """
    actor = actor_of(request)
    issued = expect(
        issue_lesser_token(
            actor,
            request.auth.token,  # type: ignore[attr-defined]
            name=body.name,
            scopes=body.scopes,
            families=body.tools,
            kind=body.kind,
            confirm=body.confirm or request.auth.token.confirm,  # type: ignore[attr-defined]
            expires_in=timedelta(days=body.expires_in_days),
        )
    )
    return Status(201, _listed_token(issued.token, actor.read_profile().zone) | {"text": issued.text})


@changes(router, "DELETE", "/tokens/{int:number}", {204: None})
def revoke_token(request: HttpRequest, number: int) -> Any:
    """Revoke a token of the owner at once; only a token of the type Program may revoke others than itself."""
    expect(revoke_own_token(actor_of(request), request.auth.token, min(number, 2**63 - 1)))  # type: ignore[attr-defined]
    return Status(204, None)


def _listed_token(token: Token, zone: str) -> dict[str, Any]:
    return {"id": token.pk, **token_json(token, zone)}
