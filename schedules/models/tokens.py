"""Access tokens of agents."""

from datetime import datetime
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from schedules.models.people import is_active


class TokenQuerySet(models.QuerySet["Token"]):
    def usable(self, now: datetime) -> Self:
        is_unexpired = Q(expires_at=None) | Q(expires_at__gt=now)
        return self.filter(is_unexpired, is_active("owner__"), revoked_at=None)


class Token(models.Model):
    """An access token, of which only the prefix and a keyed digest are stored."""

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
    families = models.JSONField(
        default=list, help_text="The tool families that the agent sees; empty means all."
    )
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
