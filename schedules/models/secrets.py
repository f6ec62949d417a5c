"""Secrets: values that jobs and commands refer to by name, encrypted at rest."""

import json

from django.conf import settings
from django.db import models
from django.db.models import Q


class Secret(models.Model):
    """A secret of one person or of the installation, and the hosts and commands that may get it."""

    # Empty for a secret of the installation, which commands.toml refers to.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="cronty_secrets"
    )
    name = models.CharField(max_length=64)
    # The value, encrypted together with its place.
    sealed = models.TextField()
    hosts = models.JSONField(default=list)
    commands = models.JSONField(default=list)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    # When the other side stops accepting it; Cronty itself goes on using it.
    expires_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(name="secret_of_owner_has_its_name", fields=["owner", "name"]),
            models.UniqueConstraint(
                name="secret_of_installation_has_its_name", fields=["name"], condition=Q(owner=None)
            ),
        ]
        # Read every few seconds, so it holds only secrets that expire.
        indexes = [
            models.Index(name="secret_expires", fields=["expires_at"], condition=Q(expires_at__isnull=False))
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def place(self) -> str:
        """The encryption context of the value, so that nobody can change its name or destinations in the database."""
        return json.dumps([self.owner_id, self.name, self.hosts, self.commands])
