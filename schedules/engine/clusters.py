"""The rows of clusters: registration, heartbeats, and the times at which any cluster was alive."""

import os
import socket
from collections.abc import Callable
from datetime import datetime
from functools import cache

from django.db.models import F

from schedules import clock
from schedules.engine.hosts import warn_of_wrong_clock
from schedules.models import Cluster
from schedules.when import zones


def enlist(now: datetime) -> Cluster:
    """Register the cluster that this process leads."""
    return Cluster.objects.create(
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=now,
        last_seen_at=now,
        probe_returned_at=now,
        clock_ahead=clock.ahead(),
        zone_data=zones.release(),
    )


def beat(cluster_id: int, now: datetime, *, claimed: int = 0) -> None:
    """Record that the claim loop is alive; this revives a cluster that was marked as stopped."""
    ahead = clock.ahead()
    Cluster.objects.filter(pk=cluster_id).update(
        last_seen_at=now, stopped_at=None, claimed_count=F("claimed_count") + claimed, clock_ahead=ahead
    )
    warn_of_wrong_clock(ahead)


def probe_returned(cluster_id: int, sent_at: datetime) -> None:
    """Record that the probe sent at this moment has passed through the whole cluster."""
    Cluster.objects.filter(pk=cluster_id).update(probe_returned_at=sent_at)


def retire(cluster_id: int, now: datetime, note: str = "") -> None:
    Cluster.objects.filter(pk=cluster_id, stopped_at=None).update(stopped_at=now, note=note)


def is_any_cluster_running(now: datetime) -> bool:
    return Cluster.objects.fresh(now).exists()


def coverage() -> Callable[[datetime], bool]:
    """Return a function that checks whether any cluster was alive at a moment, with at most one query."""

    @cache
    def spans() -> list[tuple[datetime, datetime]]:
        rows = Cluster.objects.values_list("started_at", "stopped_at", "last_seen_at")
        return [(started_at, stopped_at or last_seen_at) for started_at, stopped_at, last_seen_at in rows]

    return lambda moment: any(start <= moment <= end for start, end in spans())
