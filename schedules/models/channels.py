"""Channels: the named ways to reach a person."""

import json

from django.conf import settings
from django.db import models


class Channel(models.Model):
    """A way to reach one person, with encrypted secrets, and the result of the last message."""

    NAME_LENGTH = 40

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_channels", db_index=False
    )
    name = models.CharField(max_length=NAME_LENGTH)
    kind = models.CharField(max_length=20)
    # What may be shown: addresses and ids.
    options = models.JSONField(default=dict)
    # Its secrets, encrypted together with the owner, the kind and the options.
    sealed = models.TextField(blank=True)
    # When its owner showed that messages arrive there; only e-mail asks for that.
    confirmed_at = models.DateTimeField(null=True)
    last_sent_at = models.DateTimeField(null=True)
    last_failed_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

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
