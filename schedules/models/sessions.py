"""Browser sessions with a user key, so that all sessions of one user can be ended."""

from typing import Any, cast

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class UserSession(AbstractBaseSession):
    """A session; `user_key` is the user's primary key, or empty before the login."""

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
        session.user_key = str(data.get("_auth_user_id") or "")
        return session
