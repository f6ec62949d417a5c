"""Routes of secrets, whose values can only be written, and of the owner's tokens."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.access import (
    NewToken,
    NewTokenOut,
    SecretChange,
    SecretIn,
    SecretOut,
    SecretsOut,
    TokensOut,
)
from schedules.services.people import operations

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
