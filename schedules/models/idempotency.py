"""Stored API answers by idempotency key, which a repeated request gets again."""

from django.conf import settings
from django.db import models

from schedules import limits


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
