"""Event subscriptions: which receivers get which events about the jobs of a person."""

import json
from datetime import datetime
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from schedules import limits
from schedules.models.jobs import PAUSED_AFTER, Job
from schedules.models.people import is_active
from schedules.models.tokens import Token

# The pause reason of a receiver that Cronty gave up on, as opposed to one that a person switched off.
GONE = "The receiver answered 410 Gone: it wants no more events."
_GAVE_UP = Q(job__pause_reason=GONE) | Q(job__pause_reason__startswith=PAUSED_AFTER)


class EventType(models.TextChoices):
    PROMPT_DUE = "prompt.due", "A prompt is due"
    RUN_FAILED = "run.failed", "A run failed"
    RUN_RECOVERED = "run.recovered", "A job works again"
    SLOT_MISSED = "slot.missed", "A run was missed"
    JOB_CHANGED = "job.changed", "A job was changed"
    APPROVAL_REQUESTED = "approval.requested", "An agent asks for an approval"


class EventSubscriptionQuerySet(models.QuerySet["EventSubscription"]):
    def has_access(self, now: datetime) -> Self:
        """Those that have not expired, and whose access over MCP was not revoked."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), _has_token(now))

    def ended(self, now: datetime) -> Self:
        """Those without access, except those that a person switched off: the app could subscribe again after the end."""
        switched_off = self.filter(_has_token(now), job__status=Job.Status.PAUSED).exclude(_GAVE_UP)
        return self.exclude(pk__in=self.has_access(now).values("pk")).exclude(
            pk__in=switched_off.values("pk")
        )

    def listening(self, now: datetime) -> Self:
        """Those that get events: switched on, and with access."""
        is_on = Q(job__status=Job.Status.PENDING, job__deleted_at=None)
        return self.has_access(now).filter(is_on, is_active("owner__"))


class EventSubscription(models.Model):
    """A receiver of events; its deliveries are the runs of its own job, which is paused while it is switched off."""

    class Kind(models.TextChoices):
        WEBHOOK = "webhook"
        """A person has entered the address."""
        MCP = "mcp", "MCP Events"
        """An app has subscribed over MCP."""

    NAME_LENGTH = 80

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="event_subscription")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_event_subscriptions"
    )
    public_id = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=NAME_LENGTH)
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.WEBHOOK)
    url = models.CharField(max_length=2048)
    types = models.JSONField(default=list)
    tag = models.CharField(
        max_length=limits.TAG_LENGTH, blank=True, default="", help_text="Only events of jobs with this tag."
    )
    only_job = models.ForeignKey(
        Job,
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        help_text="Only events of this job.",
    )
    sealed = models.TextField(help_text="Its signing secret, encrypted together with the address.")
    old_sealed = models.TextField(blank=True, default="", help_text="The secret before that.")
    old_until = models.DateTimeField(null=True, help_text="Until when requests are signed with both.")
    token = models.ForeignKey(
        Token,
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Of an app that has subscribed over MCP: the access that it needs to keep.",
    )
    verified_at = models.DateTimeField(null=True, help_text="When the address answered a challenge.")
    expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = EventSubscriptionQuerySet.as_manager()

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(
                name="event_subscription_of_person_has_its_name",
                fields=["owner", "name"],
                condition=Q(kind="webhook"),
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_on(self) -> bool:
        return self.job.status == Job.Status.PENDING and self.job.deleted_at is None

    @property
    def is_given_up(self) -> bool:
        """Whether it is off because deliveries failed, and not because a person switched it off."""
        reason = self.job.pause_reason
        return not self.is_on and (reason == GONE or reason.startswith(PAUSED_AFTER))

    @property
    def place(self) -> str:
        """The encryption context of the secret, so that nobody can point it at another receiver in the database."""
        return json.dumps(["event subscription", self.owner_id, self.public_id, self.url])

    def wants(self, event_type: str, job: Job) -> bool:
        """Return whether it wants an event of this type about this job."""
        if event_type not in self.types or self.only_job_id not in (None, job.pk):
            return False
        return not self.tag or self.tag.casefold() in (tag.casefold() for tag in job.tags)


def _has_token(now: datetime) -> Q:
    is_unexpired = Q(token__expires_at=None) | Q(token__expires_at__gt=now)
    return Q(token=None) | Q(token__revoked_at=None) & is_unexpired
