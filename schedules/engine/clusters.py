"""Clusters: register them, and write their heartbeats."""

import os
import socket
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import F

from schedules import clock
from schedules.engine.interruptions import Interruption
from schedules.engine.upkeep.hosts import warn_of_wrong_clock
from schedules.models import Cluster
from schedules.secrets.encryption import accepted_keys
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
        secret_keys=list(accepted_keys()),
    )


def beat(
    cluster_id: int,
    now: datetime,
    *,
    claimed: int = 0,
    blocked_since: datetime | None = None,
    interruptions: Sequence[Interruption] | None = None,
) -> None:
    """Write a heartbeat of the claim loop; this revives a cluster that was marked as stopped."""
    ahead = clock.ahead()
    changes: dict[str, Any] = {
        "last_seen_at": now,
        "stopped_at": None,
        "clock_ahead": ahead,
        "blocked_since": blocked_since,
    }
    if interruptions is not None:
        changes["interruptions"] = [item.to_json() for item in interruptions]
    Cluster.objects.filter(pk=cluster_id).update(claimed_count=F("claimed_count") + claimed, **changes)
    warn_of_wrong_clock(ahead)


def probe_returned(cluster_id: int, sent_at: datetime) -> None:
    """Record that the probe sent at this moment has passed through the whole cluster."""
    Cluster.objects.filter(pk=cluster_id).update(probe_returned_at=sent_at)


def retire(cluster_id: int, now: datetime, note: str = "") -> None:
    Cluster.objects.filter(pk=cluster_id, stopped_at=None).update(stopped_at=now, note=note)
