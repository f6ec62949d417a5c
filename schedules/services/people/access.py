"""What people and the bearers of tokens may do with access: issue lesser tokens, revoke those of the owner, end all of it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from schedules import clock, limits
from schedules.models import Event, Token, UserSession
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.people.profiles import is_above, profile_of
from schedules.services.people.tokens import FAMILIES, IssuedToken, issue_token, revoke_token
from schedules.services.permissions import Actor
from schedules.services.quotas import wait_for_turn

# Whoever steals a token must not keep access for long after it was revoked.
LONGEST_LIFE = timedelta(days=30)
MAX_LISTED = 200


def own_tokens(actor: Actor) -> list[Token]:
    """Return the tokens of this person that are not revoked, the newest first."""
    return list(Token.objects.filter(owner=actor.user.pk, revoked_at=None)[:MAX_LISTED])


def issue_lesser_token(
    actor: Actor,
    own: Token,
    *,
    name: str,
    scopes: Sequence[str],
    families: Sequence[str],
    kind: str,
    confirm: str,
    expires_in: timedelta,
) -> Result[IssuedToken]:
    """Create a token with no more permissions than the requesting one, which expires no later."""
    if actor.is_agent:
        return Err(Code.TOKENS_HIDDEN_FROM_AGENTS)
    if set(scopes) - set(own.scopes):
        return invalid("scopes", f"This token may pass on: {', '.join(own.scopes)}.")
    allowed = own.families or FAMILIES
    if set(families) - set(allowed):
        return invalid("tools", f"This token may pass on: {', '.join(allowed)}.")
    strictness = Token.Confirm.values
    if confirm in strictness and strictness.index(confirm) < strictness.index(own.confirm):
        return invalid(
            "confirm", f"This token may pass on: {', '.join(strictness[strictness.index(own.confirm) :])}."
        )
    # A second less, because the new one begins a moment later.
    remaining = own.expires_at - clock.now() - timedelta(seconds=1) if own.expires_at else LONGEST_LIFE
    return issue_token(
        actor.user,
        name=name,
        scopes=scopes,
        families=families or own.families,
        kind=kind,
        confirm=confirm,
        expires_in=min(expires_in, remaining, LONGEST_LIFE),
        door=actor.door,
    )


def revoke_own_token(actor: Actor, own: Token, token_id: int) -> Result[Token]:
    """Revoke a token of this person; an agent may revoke only its own."""
    if actor.is_agent and token_id != own.pk:
        return Err(Code.TOKENS_HIDDEN_FROM_AGENTS)
    return revoke_token(actor.user, token_id, door=actor.door)


OUR_SESSIONS = "schedules.models.sessions"


def ends_sessions() -> bool:
    """Return whether sessions can be ended by user: a project that embeds the app may use another session engine."""
    return bool(settings.SESSION_ENGINE == OUR_SESSIONS)


def end_access(user: Any, *, by: Any, door: Event.Door = Event.Door.WEB) -> Result[int]:
    """End all sessions of a user, including the current one, and revoke all tokens; return the number of tokens."""
    if is_above(user, by):
        return Err(Code.USER_IS_SUPERIOR)
    now = clock.now()
    with transaction.atomic():
        # Wait, so that a token that is being created now is revoked, too.
        wait_for_turn(profile_of(user))
        revoked = Token.objects.filter(owner=user, revoked_at=None).update(revoked_at=now)
        if ends_sessions():
            UserSession.objects.filter(user_key=str(user.pk)).delete()
        Event.objects.create(
            at=now,
            owner=user,
            actor=by.get_username()[: limits.ACTOR_LENGTH],
            door=door,
            verb="end access",
            subject=user.get_username()[: limits.NAME_LENGTH],
            after={"tokens": revoked},
        )
    return Ok(revoked)
