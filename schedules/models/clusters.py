"""Clusters: one row per running cluster, with its heartbeat."""

from datetime import datetime, timedelta
from typing import Self

from django.db import models

FRESH_FOR = timedelta(seconds=15)


class ClusterQuerySet(models.QuerySet["Cluster"]):
    def fresh(self, now: datetime) -> Self:
        """Clusters that are alive: seen within the last seconds and not stopped."""
        return self.filter(stopped_at=None, last_seen_at__gte=now - FRESH_FOR)


class Cluster(models.Model):
    """One running cluster; without a recent heartbeat, "no worker is running" is certain."""

    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(help_text="The claim loop came round.")
    probe_returned_at = models.DateTimeField(
        help_text="When the last probe that came round set out, through pusher, worker and monitor."
    )
    watched_at = models.DateTimeField(null=True, help_text="The leader last looked at the pulse.")
    stopped_at = models.DateTimeField(null=True)
    claimed_count = models.PositiveBigIntegerField(default=0)
    note = models.CharField(max_length=200, blank=True, help_text="Why it was restarted, if it was.")

    objects = ClusterQuerySet.as_manager()

    class Meta:
        ordering = ["-last_seen_at"]

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
