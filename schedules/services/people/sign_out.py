"""End all access of a user, for somebody who has lost a device or a password."""

from typing import Any

from django.conf import settings
from django.db import transaction

from schedules import clock, limits
from schedules.models import Event, Token, UserSession
from schedules.result import Code, Err, Ok, Result
from schedules.services.people.profiles import is_above, profile_of
from schedules.services.quotas import wait_for_turn

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
