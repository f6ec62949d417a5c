"""Incidents: what went wrong, when it began and ended, and which alerts were sent."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import Q

from schedules import limits
from schedules.models.jobs import Job

LONGEST_DETAILS = 2000


class Incident(models.Model):
    """One thing that went wrong for one person: alerted once, again if it lasts, and once more when it is over."""

    class Kind(models.TextChoices):
        FAILING = "failing"
        """A job began to fail."""
        PAUSED = "paused"
        """Cronty has paused a job."""
        LATE = "late"
        """A run that is due has not started."""
        MISSED = "missed"
        """Runs were missed because no worker could start them."""
        NO_WORKER = "no-worker", "no worker"
        """No cluster was running while jobs were due."""
        PROMPT = "prompt"
        """A due prompt waits, and no agent takes it."""
        EXPIRING = "expiring"
        """A secret or token stops working soon."""
        NEEDS_YOU = "needs-you", "needs you"
        """An agent or a job waits for this person."""
        OVER_LIMIT = "over-limit", "over limit"
        """A limit that this person has set was reached."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_incidents", db_index=False
    )
    job = models.ForeignKey(
        Job, null=True, on_delete=models.SET_NULL, related_name="incidents", db_index=False
    )
    kind = models.CharField(max_length=12, choices=Kind)
    # What it is about; only one of a kind is open for each.
    subject = models.CharField(max_length=limits.NAME_LENGTH)
    name = models.CharField(max_length=limits.NAME_LENGTH)
    details = models.TextField(blank=True, default="")
    opened_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ending = models.CharField(max_length=200, blank=True, default="")
    # When the next message about it is due, if one is.
    due_at = models.DateTimeField(null=True)
    told = models.PositiveSmallIntegerField(default=0)
    told_at = models.DateTimeField(null=True)
    # The newest messages that named it: when, title, text and place.
    sent = models.JSONField(default=list)
    snoozed_until = models.DateTimeField(null=True)
    snoozed_by = models.CharField(max_length=limits.ACTOR_LENGTH, blank=True, default="")
    # The notification that named it last.
    notice = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="reported")

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                name="incident_is_open_once", fields=["owner", "kind", "subject"], condition=Q(ended_at=None)
            )
        ]
        indexes = [
            # Read every few seconds, so these indexes hold only pending alerts and open incidents.
            models.Index(name="incident_due", fields=["due_at"], condition=Q(due_at__isnull=False)),
            models.Index(name="incident_open", fields=["kind", "job"], condition=Q(ended_at=None)),
            models.Index(name="incident_of_owner", fields=["owner", "-id"]),
            models.Index(name="incident_of_job", fields=["job", "-id"]),
            models.Index(name="incident_ended", fields=["ended_at"], condition=Q(ended_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.get_kind_display()}"

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    @property
    def lasted(self) -> timedelta | None:
        """How long it lasted, or None while it does."""
        return self.ended_at - self.opened_at if self.ended_at else None
