"""What is stored of people and of the agents they let in."""

import secrets
from datetime import datetime
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Expression, Q


class TokenQuerySet(models.QuerySet["Token"]):
    def usable(self, now: datetime | Expression) -> Self:
        return self.filter(revoked_at=None, owner__is_active=True).filter(
            Q(expires_at=None) | Q(expires_at__gt=now)
        )


class Token(models.Model):
    """A key for an agent: only its prefix and a keyed digest are stored."""

    class Kind(models.TextChoices):
        CONVERSATION = "conversation", "Talks with a person"
        HEARTBEAT = "heartbeat", "Wakes up by itself"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
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

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="profile")
    timezone = models.CharField(max_length=64, blank=True)
    failure_topic = models.CharField(max_length=64, blank=True)
    signing_key = models.CharField(max_length=64, default=_random_key)
    calendar_key = models.CharField(max_length=64, default=_random_key, unique=True)

    def __str__(self) -> str:
        return str(self.user)

    @property
    def zone(self) -> str:
        return self.timezone or settings.CRONTY_TIME_ZONE
