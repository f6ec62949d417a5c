"""Channels: the named ways to reach a person or a program, and which events a program is told of."""

import json
from typing import Self

from django.conf import settings
from django.db import models

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


class ChannelQuerySet(models.QuerySet["Channel"]):
    def listening(self) -> Self:
        """Those that are told of events: switched on, of active people."""
        return self.filter(is_active("owner__"), job__status=Job.Status.PENDING, job__deleted_at=None)


class Channel(models.Model):
    """A way to reach one person, with encrypted secrets, and the result of the last message.

    The deliveries of events to a webhook are the runs of its own job, which is paused while it is switched off.
    """

    NAME_LENGTH = 40

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_channels", db_index=False
    )
    name = models.CharField(max_length=NAME_LENGTH)
    kind = models.CharField(max_length=20)
    # What may be shown: addresses, ids, and the filter of events.
    options = models.JSONField(default=dict)
    # Its secrets, encrypted together with the owner, the kind and the options.
    sealed = models.TextField(blank=True)
    # When its owner showed that messages arrive there; only e-mail asks for that.
    confirmed_at = models.DateTimeField(null=True)
    last_sent_at = models.DateTimeField(null=True)
    last_failed_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True, default="")
    job = models.OneToOneField(Job, null=True, on_delete=models.SET_NULL, related_name="webhook")
    # Until when requests are also signed with the secret before the current one.
    old_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = ChannelQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(name="channel_of_owner_has_its_name", fields=["owner", "name"])
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def place(self) -> str:
        """The encryption context of the secrets, so that nobody can point them at another server in the database."""
        return json.dumps(["channel", self.owner_id, self.kind, self.options], sort_keys=True)

    @property
    def is_on(self) -> bool:
        """Whether it is told of events."""
        return self.job is not None and self.job.status == Job.Status.PENDING and self.job.deleted_at is None

    @property
    def event_types(self) -> list[str]:
        return str(self.options.get("events", "")).split()

    def wants(self, event_type: str, job: Job) -> bool:
        """Return whether it is told of an event of this type about this job."""
        tag, only_job = str(self.options.get("tag", "")), self.options.get("job", "")
        if event_type not in self.event_types or only_job not in ("", job.public_id):
            return False
        return not tag or tag.casefold() in (each.casefold() for each in job.tags)
