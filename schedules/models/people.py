"""What is stored of people and of the agents they let in."""

import secrets
from datetime import datetime
from typing import Self

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import Expression, Q


def is_active(path: str = "") -> Q:
    """Select active users; in a user model without a column for it everybody is active."""
    columns = {field.name for field in get_user_model()._meta.get_fields()}
    return Q(**{f"{path}is_active": True}) if "is_active" in columns else Q()


class TokenQuerySet(models.QuerySet["Token"]):
    def usable(self, now: datetime | Expression) -> Self:
        is_unexpired = Q(expires_at=None) | Q(expires_at__gt=now)
        return self.filter(is_unexpired, is_active("owner__"), revoked_at=None)


class Token(models.Model):
    """A key for an agent: only its prefix and a keyed digest are stored."""

    class Kind(models.TextChoices):
        CONVERSATION = "conversation", "Talks with a person"
        HEARTBEAT = "heartbeat", "Wakes up by itself"

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_tokens"
    )
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=12, choices=Kind, default=Kind.CONVERSATION)
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64)
    scopes = models.JSONField(default=list)
    families = models.JSONField(default=list, help_text="Tool families it is offered; empty means all.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    objects = TokenQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                name="token_name_is_unique_per_owner",
                fields=["owner", "name"],
                condition=Q(revoked_at=None),
                violation_error_message="name: another live token of this owner has this name.",
            )
        ]

    def __str__(self) -> str:
        return self.name


def _random_key() -> str:
    return secrets.token_urlsafe(32)


class Profile(models.Model):
    """What Cronty knows about a person beyond their login."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_profile"
    )
    timezone = models.CharField(max_length=64, blank=True)
    failure_topic = models.CharField(max_length=64, blank=True)
    signing_key = models.CharField(max_length=64, default=_random_key)
    calendar_key = models.CharField(max_length=64, default=_random_key, unique=True)

    def __str__(self) -> str:
        return str(self.user)

    @property
    def zone(self) -> str:
        return self.timezone or settings.CRONTY_TIME_ZONE
