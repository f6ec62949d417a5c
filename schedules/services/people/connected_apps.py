"""Apps that a person has connected by OAuth, such as hosted assistants.

A consent is a Token row without a text, so that connected apps have scopes, tool families, an expiry, a rate limit and a
place on the pages like every other agent. Clients, codes and access tokens belong to django-oauth-toolkit, whose models
exist only if it is installed (`CRONTY_OAUTH`).
"""

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import transaction

from schedules import clock, limits
from schedules.models import Event, Token
from schedules.result import Ok, Result, invalid
from schedules.services.people.hourly_limits import HourlyLimit, network_of
from schedules.services.people.profiles import is_person, profile_of
from schedules.services.people.tokens import FAMILIES, SCOPES, mark_used, record_token_event
from schedules.services.quotas import token_problem, wait_for_turn

UNUSED_CLIENT_LIFETIME = timedelta(days=1)
MAX_UNUSED_CLIENTS = 1000
# Per address; every fetched document counts, even if it describes no client.
_registrations = HourlyLimit(30)


def mcp_address() -> str:
    """Return the address of the MCP server, which is also the audience of its access tokens."""
    return f"{settings.CRONTY_URL}/mcp"


def connect_app(
    user: Any,
    client: Any,
    *,
    scopes: Sequence[str],
    families: Sequence[str] = (),
    confirm: str = Token.Confirm.NEVER,
    expires_in: timedelta | None = None,
) -> Result[Token]:
    """Store a person's consent to the access of a client; a new consent replaces the previous one."""
    if not scopes or set(scopes) - set(SCOPES):
        return invalid("scopes", "Choose from: read, write.")
    if set(families) - set(FAMILIES):
        return invalid("families", f"Choose from: {', '.join(FAMILIES)}.")
    if confirm not in Token.Confirm.values:
        return invalid("confirm", f"Choose one of: {', '.join(Token.Confirm.values)}.")
    now = clock.now()
    consent = {
        "scopes": [scope for scope in SCOPES if scope in scopes],
        "families": [family for family in FAMILIES if family in families],
        "confirm": confirm,
        "expires_at": now + expires_in if expires_in else None,
    }
    with transaction.atomic():
        wait_for_turn(profile_of(user))
        token = connection_of(user.pk, client.pk, now)
        # Check again: a revocation does not wait for this lock.
        if token and Token.objects.filter(pk=token.pk, revoked_at=None).update(**consent):
            token.refresh_from_db()
        else:
            if refusal := token_problem(user):
                return refusal
            # Tokens from an earlier consent must not become valid again under this one.
            _end_earlier_access(user, client, now)
            token = Token.objects.create(
                owner=user,
                name=_free_name(user, client.name),
                prefix=secrets.token_hex(4),
                oauth_client=client.pk,
                created_at=now,
                **consent,
            )
        record_token_event(token, "connect app", user, Event.Door.WEB, now)
    return Ok(token)


def connection_of(user_id: Any, client_id: int, now: datetime) -> Token | None:
    """Return the consent of a person to a client, with owner and profile, if it is neither revoked nor expired."""
    tokens = Token.objects.filter(owner=user_id, oauth_client=client_id, revoked_at=None)
    token = tokens.select_related("owner__cronty_profile").order_by("-pk").first()
    return token if token and token.is_usable_at(now) else None


def verify_app_token(text: str) -> Token | None:
    """Return the consent behind an access token, narrowed to the token's scopes, or None."""
    now = clock.now()
    checksum = sha256(text.encode("utf-8", "replace")).hexdigest()
    token = _consent_behind(_model("AccessToken").objects.filter(token_checksum=checksum).first(), now)
    if token:
        mark_used(token, now)
    return token


def read_app_token(access_id: int) -> Token | None:
    """Return the consent behind an access token that was verified before, or None if it is no longer valid."""
    return _consent_behind(_model("AccessToken").objects.filter(pk=access_id).first(), clock.now())


def _consent_behind(access: Any, now: datetime) -> Token | None:
    if (
        access is None
        or access.user_id is None
        or access.expires <= now
        or mcp_address() not in access.resource
    ):
        return None
    token = connection_of(access.user_id, access.application_id, now)
    if token is None:
        return None
    token.access_id = access.pk
    token.scopes = [scope for scope in token.scopes if scope in access.scope.split()]
    return token


def may_register(address: str) -> bool:
    """Return whether another client may register itself from this address; if so, make room for it."""
    if not _registrations.allows(network_of(address) or ""):
        return False
    _remove_unused_clients(clock.now())
    return True


def _remove_unused_clients(now: datetime) -> None:
    """Delete clients that nobody connected within a day, and the oldest ones beyond the limit."""
    connected = Token.objects.exclude(oauth_client=None).values("oauth_client")
    clients = _model("Application").objects
    unused = clients.exclude(registration_source="manual").exclude(pk__in=connected)
    unused.filter(created__lt=now - UNUSED_CLIENT_LIFETIME).delete()
    surplus = unused.order_by("-pk").values_list("pk", flat=True)[MAX_UNUSED_CLIENTS - 1 :]
    clients.filter(pk__in=list(surplus)).delete()


def _end_earlier_access(user: Any, client: Any, now: datetime) -> None:
    # An expired consent would still occupy its name.
    Token.objects.filter(owner=user, oauth_client=client.pk, revoked_at=None).update(revoked_at=now)
    mine = {"user": user, "application": client}
    _model("RefreshToken").objects.filter(**mine, revoked=None).update(revoked=now)
    _model("AccessToken").objects.filter(**mine).delete()
    _model("Grant").objects.filter(**mine).delete()


def _free_name(user: Any, name: str) -> str:
    """Return the client's own name, changed if it could be mistaken for a person or another agent."""
    is_unusable = not name.strip() or limits.line_problem(name) or is_person(name.strip())
    stem = "connected app" if is_unusable else name.strip()[:90]
    taken = set(Token.objects.filter(owner=user, revoked_at=None).values_list("name", flat=True))
    names = [stem, *(f"{stem} {number}" for number in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def _model(name: str) -> Any:
    return apps.get_model("oauth2_provider", name)
