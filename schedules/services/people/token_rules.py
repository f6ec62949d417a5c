"""What the bearer of a token may do with tokens: issue lesser ones, and revoke those of its owner."""

from collections.abc import Sequence
from datetime import timedelta

from schedules import clock
from schedules.models import Token
from schedules.result import Code, Err, Result, invalid
from schedules.services.people.tokens import FAMILIES, IssuedToken, issue_token, revoke_token
from schedules.services.permissions import Actor

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
