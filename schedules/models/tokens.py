"""Access tokens of agents and programs, and the stored answers that a repeated request gets again."""

from datetime import datetime
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from schedules import limits
from schedules.models.people import is_active


class TokenQuerySet(models.QuerySet["Token"]):
    def usable(self, now: datetime) -> Self:
        """Tokens for which `is_usable_at` is true."""
        is_unexpired = Q(expires_at=None) | Q(expires_at__gt=now)
        return self.filter(is_unexpired, is_active("owner__"), revoked_at=None)


class Token(models.Model):
    """The access of an agent or program: a token, stored only as a keyed digest, or OAuth."""

    class Kind(models.TextChoices):
        CONVERSATION = "conversation", "Interactive (chat)"
        HEARTBEAT = "heartbeat", "Autonomous (runs on its own)"
        PROGRAM = "program", "Program (HTTP API, terminal)"

    class Confirm(models.TextChoices):
        NEVER = "never", "Never"
        PROMPTS = "prompts", "Prompts and commands"
        ALWAYS = "always", "All jobs"

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_tokens"
    )
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=12, choices=Kind, default=Kind.CONVERSATION)
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64)
    scopes = models.JSONField(default=list)
    # The tool families that the agent sees; empty means all.
    families = models.JSONField(default=list)
    # Which of the jobs that it makes wait until a person confirms them.
    confirm = models.CharField(max_length=7, choices=Confirm, default=Confirm.NEVER)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    # The application that a person has connected by OAuth; it has access tokens of its own.
    oauth_client = models.PositiveBigIntegerField(null=True)
    # Calls that all web processes have reported so far.
    call_count = models.PositiveBigIntegerField(default=0)

    objects = TokenQuerySet.as_manager()

    access_id: int | None = None
    """The id of the app's access token, if the row was looked up by one."""

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

    def is_usable_at(self, now: datetime) -> bool:
        """Return whether the token is neither revoked nor expired, and its owner is active."""
        is_unexpired = self.expires_at is None or self.expires_at > now
        return self.revoked_at is None and is_unexpired and getattr(self.owner, "is_active", True)


class IdempotencyKey(models.Model):
    """A key that a caller has chosen, the digest of the request, and its answer; kept for a day."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="cronty_idempotency_keys",
        db_index=False,
    )
    key = models.CharField(max_length=limits.NAME_LENGTH)
    digest = models.CharField(max_length=64)
    answer = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="idempotency_key_is_unique_per_owner", fields=["owner", "key"])
        ]
        indexes = [models.Index(name="idempotency_owner", fields=["owner", "created_at"])]

    def __str__(self) -> str:
        return self.key
