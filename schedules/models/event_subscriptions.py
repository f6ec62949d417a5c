"""Event subscriptions: which receivers get which events about the jobs of a person."""

import json
from typing import Self

from django.conf import settings
from django.db import models

from schedules import limits
from schedules.models.jobs import Job
from schedules.models.people import is_active

# The pause reason of a receiver that wants no more.
GONE = "The receiver answered 410 Gone: it wants no more events."


class EventType(models.TextChoices):
    PROMPT_DUE = "prompt.due", "A prompt is due"
    RUN_FAILED = "run.failed", "A run failed"
    RUN_RECOVERED = "run.recovered", "A job works again"
    SLOT_MISSED = "slot.missed", "A run was missed"
    JOB_CHANGED = "job.changed", "A job was changed"
    APPROVAL_REQUESTED = "approval.requested", "An agent asks for an approval"


class EventSubscriptionQuerySet(models.QuerySet["EventSubscription"]):
    def listening(self) -> Self:
        """Those that get events: switched on, of active people."""
        return self.filter(is_active("owner__"), job__status=Job.Status.PENDING, job__deleted_at=None)


class EventSubscription(models.Model):
    """A receiver of events; its deliveries are the runs of its own job, which is paused while it is switched off."""

    NAME_LENGTH = 80

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="event_subscription")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_event_subscriptions"
    )
    public_id = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=NAME_LENGTH)
    url = models.CharField(max_length=2048)
    types = models.JSONField(default=list)
    tag = models.CharField(max_length=limits.TAG_LENGTH, blank=True, default="")
    only_job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    # Its signing secret, encrypted together with the address.
    sealed = models.TextField()
    old_sealed = models.TextField(blank=True, default="")
    # Until when requests are signed with both.
    old_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = EventSubscriptionQuerySet.as_manager()

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(
                name="event_subscription_of_person_has_its_name", fields=["owner", "name"]
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_on(self) -> bool:
        return self.job.status == Job.Status.PENDING and self.job.deleted_at is None

    @property
    def place(self) -> str:
        """The encryption context of the secret, so that nobody can point it at another receiver in the database."""
        return json.dumps(["event subscription", self.owner_id, self.public_id, self.url])

    def wants(self, event_type: str, job: Job) -> bool:
        """Return whether it wants an event of this type about this job."""
        if event_type not in self.types or self.only_job_id not in (None, job.pk):
            return False
        return not self.tag or self.tag.casefold() in (tag.casefold() for tag in job.tags)
