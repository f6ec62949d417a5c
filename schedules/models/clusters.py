"""Clusters with their heartbeats, and machine starts, one row each."""

from datetime import datetime, timedelta
from typing import Self

from django.db import models

FRESH_FOR = timedelta(seconds=15)
# Shorter waits for a lock are part of normal work.
BLOCKED_AFTER = timedelta(seconds=10)


class ClusterQuerySet(models.QuerySet["Cluster"]):
    def fresh(self, now: datetime) -> Self:
        """Clusters that are alive: not stopped, and with a recent heartbeat."""
        return self.filter(stopped_at=None, last_seen_at__gte=now - FRESH_FOR)

    def blocked(self, now: datetime) -> Self:
        """Clusters that are alive but have waited for locked rows or tables for a long time."""
        return self.fresh(now).filter(blocked_since__lt=now - BLOCKED_AFTER)


class Cluster(models.Model):
    """A cluster and its heartbeats; if none is recent, no worker is running."""

    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    # When the last probe that returned was sent through the pusher and a worker.
    probe_returned_at = models.DateTimeField()
    # When the leader last checked whether the database takes writes.
    watched_at = models.DateTimeField(null=True)
    # Since when it waits for rows or tables that another session has locked.
    blocked_since = models.DateTimeField(null=True)
    stopped_at = models.DateTimeField(null=True)
    claimed_count = models.PositiveBigIntegerField(default=0)
    # How many seconds its host's clock is ahead of the database's.
    clock_ahead = models.FloatField(default=0)
    zone_data = models.CharField(max_length=20, blank=True, default="")
    # The fingerprints of the secret keys that it can read with.
    secret_keys = models.JSONField(default=list)
    # When it could not claim lately: first and last moment, and the reason.
    interruptions = models.JSONField(null=True)
    note = models.CharField(max_length=200, blank=True)

    objects = ClusterQuerySet.as_manager()

    class Meta:
        ordering = ["-last_seen_at"]

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


def is_any_cluster_running(now: datetime) -> bool:
    return Cluster.objects.fresh(now).exists()


class MachineStart(models.Model):
    """A start of a machine with a cluster, for which jobs that run at machine starts were armed."""

    # The kernel's random id of this start of the machine.
    boot_id = models.CharField(max_length=64, unique=True)
    host = models.CharField(max_length=255)
    noticed_at = models.DateTimeField()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.host} {self.boot_id}"
