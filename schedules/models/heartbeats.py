"""Heartbeats: the ping address and state of a job that runs elsewhere, and its newest pings."""

import uuid

from django.conf import settings
from django.db import models

from schedules import limits
from schedules.models.executions import Execution
from schedules.models.jobs import Job
from schedules.tasks.heartbeat import SLUG_LENGTH

# How many pings of one heartbeat are kept; their effects stay in the ledger.
KEPT_PINGS = 100
# The source of imported checks: as before, a ping resumes those that are paused.
HEALTHCHECKS = "healthchecks"


class Heartbeat(models.Model):
    """The ping address of one job, and the state from its pings."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="heartbeat")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_heartbeats", db_index=False
    )
    ping_id = models.UUIDField(default=uuid.uuid4, unique=True)
    # Its name in addresses with the owner's ping key.
    slug = models.CharField(max_length=SLUG_LENGTH, blank=True)
    pings = models.PositiveBigIntegerField(default=0)
    last_ping_at = models.DateTimeField(null=True)
    last_kind = models.CharField(max_length=7, blank=True)
    last_rid = models.UUIDField(null=True)
    # Of the newest success, for the error about a missing ping.
    last_success_at = models.DateTimeField(null=True)
    last_duration = models.DurationField(null=True)
    started_rid = models.UUIDField(null=True)

    class Meta:
        indexes = [models.Index(name="heartbeat_slug", fields=["owner", "slug"])]

    def __str__(self) -> str:
        return str(self.ping_id)


class Ping(models.Model):
    """One accepted ping."""

    class Kind(models.TextChoices):
        SUCCESS = "success"
        START = "start"
        FAIL = "fail"
        LOG = "log"
        """Stored without any effect on the state of its job."""

    # No index: the constraint has one.
    heartbeat = models.ForeignKey(
        Heartbeat, on_delete=models.CASCADE, related_name="received", db_index=False
    )
    number = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=7, choices=Kind)
    rid = models.UUIDField(null=True)
    exit_status = models.PositiveSmallIntegerField(null=True)
    # How long its sender kept it, while Cronty was away.
    late_by = models.DurationField(null=True)
    sender = models.CharField(max_length=45, blank=True)
    # No database constraint: pruning the ledger must not check every ping.
    execution = models.ForeignKey(
        Execution,
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    # Its body, if no run has it as output.
    body = models.TextField(blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(name="ping_has_its_number", fields=["heartbeat", "number"]),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.at:%Y-%m-%d %H:%M:%S}"


def is_ping_key(text: str) -> bool:
    """Return whether a text can be a ping key, to avoid a query for one that cannot."""
    return (
        8 <= len(text) <= limits.PING_KEY_LENGTH
        and text.isascii()
        and text.replace("-", "").replace("_", "").isalnum()
    )
