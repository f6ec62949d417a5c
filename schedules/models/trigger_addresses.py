"""Trigger addresses: requests to them start runs; received messages are remembered against replays."""

from django.conf import settings
from django.db import models

from schedules.models.executions import Execution
from schedules.models.jobs import Job


class TriggerAddress(models.Model):
    """The trigger address of one job; only a digest of its key is stored."""

    class Scheme(models.TextChoices):
        KEY = "", "The address is secret"
        GITHUB = "github", "Signed by GitHub"
        STRIPE = "stripe", "Signed by Stripe"
        STANDARD = "standard", "Signed by Standard Webhooks"
        CRONTY = "cronty", "Signed by Cronty"

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, primary_key=True, related_name="trigger_address"
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    digest = models.CharField(max_length=64, unique=True)
    # The digest of the previous key.
    old_digest = models.CharField(max_length=64, null=True, unique=True)  # noqa: DJ001  (NULL is not unique)
    old_until = models.DateTimeField(null=True)
    scheme = models.CharField(max_length=8, choices=Scheme, blank=True)
    # The secret of its owner that verifies signatures.
    secret_name = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    rotated_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"Trigger address of job {self.job_id}"


class TriggerCall(models.Model):
    """A message that has started a run, so that it does not start another."""

    address = models.ForeignKey(
        TriggerAddress, on_delete=models.CASCADE, related_name="calls", db_index=False
    )
    # A digest of what names the message.
    message_id = models.CharField(max_length=64)
    # A digest of its signature: a replay has the same.
    signature = models.CharField(max_length=64)
    received_at = models.DateTimeField()
    execution = models.ForeignKey(
        Execution,
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="trigger_call_is_received_once", fields=["address", "message_id"])
        ]
        indexes = [models.Index(name="trigger_call_received", fields=["received_at"])]

    def __str__(self) -> str:
        return f"Message of {self.received_at:%Y-%m-%d %H:%M:%S}"
