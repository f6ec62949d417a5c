"""Who is there to fire jobs: the rows of running clusters."""

import os
import socket
from collections.abc import Callable
from datetime import datetime
from functools import cache

from django.db.models import DateTimeField, F

from schedules.models import FRESH_FOR, Cluster
from schedules.models.prepared import Given, Prepared


def enlist(now: datetime) -> Cluster:
    """Register the cluster that this process leads."""
    return Cluster.objects.create(
        host=socket.gethostname(), pid=os.getpid(), started_at=now, last_seen_at=now, probe_returned_at=now
    )


def beat(cluster_id: int, now: datetime, *, claimed: int = 0) -> None:
    """Note that the claim loop came round; who was given up for dead, but only slept, is back."""
    Cluster.objects.filter(pk=cluster_id).update(
        last_seen_at=now, stopped_at=None, claimed_count=F("claimed_count") + claimed
    )


def probe_returned(cluster_id: int, sent_at: datetime) -> None:
    """Note that a probe which set out then has come all the way round the cluster."""
    Cluster.objects.filter(pk=cluster_id).update(probe_returned_at=sent_at)


def retire(cluster_id: int, now: datetime, note: str = "") -> None:
    Cluster.objects.filter(pk=cluster_id, stopped_at=None).update(stopped_at=now, note=note)


_SEEN = Prepared(
    lambda: (
        Cluster.objects.seen_since(Given("moment", DateTimeField()))
        .order_by()
        .values_list("pk", flat=True)[:1]
    )
)


def is_any_worker_running(now: datetime) -> bool:
    return _SEEN.first(moment=now - FRESH_FOR) is not None


def coverage() -> Callable[[datetime], bool]:
    """Give what tells whether some cluster was alive at a moment; it asks the database once, if at all."""

    @cache
    def spans() -> list[tuple[datetime, datetime]]:
        rows = Cluster.objects.values_list("started_at", "stopped_at", "last_seen_at")
        return [(started_at, stopped_at or last_seen_at) for started_at, stopped_at, last_seen_at in rows]

    return lambda moment: any(start <= moment <= end for start, end in spans())
