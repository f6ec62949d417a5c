"""Events: the audit log of changes."""

from django.conf import settings
from django.db import models

from schedules import limits


class Event(models.Model):
    """Who did what to which job, through which interface; written in the same transaction as the change."""

    class Door(models.TextChoices):
        WEB = "web"
        ADMIN = "admin"
        MCP = "mcp"
        API = "api"
        COMMAND = "command"
        TERMINAL = "terminal"
        PING = "ping"
        CODE = "code"
        """A project that embeds the app."""
        ENGINE = "engine"
        TRIGGER = "trigger"
        """A trigger address."""
        LINK = "link"
        """A button or a link in a notification, without a login."""

    at = models.DateTimeField()
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="cronty_events", db_index=False
    )
    actor = models.CharField(max_length=limits.ACTOR_LENGTH)
    door = models.CharField(max_length=8, choices=Door)
    verb = models.CharField(max_length=20)
    job = models.ForeignKey(
        "schedules.Job", null=True, on_delete=models.SET_NULL, related_name="events", db_index=False
    )
    # The name of the changed job or token.
    subject = models.CharField(max_length=limits.NAME_LENGTH)
    # The id of the event that this one has reversed.
    undoes = models.PositiveBigIntegerField(null=True, editable=False)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(name="event_owner", fields=["owner", "-id"]),
            models.Index(name="event_job", fields=["job", "-id"]),
            # Few events reverse another one.
            models.Index(name="event_undoes", fields=["undoes"], condition=models.Q(undoes__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.subject}"
