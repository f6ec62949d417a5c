"""Browser sessions with a user key, so that all sessions of one user can be ended."""

from typing import Any, cast

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models

# The session key of an unsaved form.
DRAFT = "cronty_draft"


class UserSession(AbstractBaseSession):
    """A session; `user_key` is the user's primary key, or empty before the login.

    Before the login, an unsaved form counts as a draft of the person whose pages the browser has shown.
    """

    user_key = models.CharField(max_length=64, blank=True, db_index=True)

    @classmethod
    def get_session_store_class(cls) -> type["SessionStore"]:
        return SessionStore


class SessionStore(DatabaseStore):
    """The session engine: `SESSION_ENGINE = "schedules.models.sessions"`."""

    @classmethod
    def get_model_class(cls) -> Any:
        return UserSession

    def create_model_instance(self, data: dict[str, Any]) -> UserSession:
        session = cast(UserSession, super().create_model_instance(data))
        person = data.get(DRAFT, {}).get("person", "")
        session.user_key = str(data.get("_auth_user_id") or (draft_key(person) if person else ""))
        return session


def draft_key(person: str) -> str:
    """Return the `user_key` of drafts from browsers that have shown this person's pages."""
    return f"draft of {person}"
