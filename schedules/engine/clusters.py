"""Who is there to fire jobs: the rows of running clusters."""

import os
import socket
from datetime import datetime

from django.db.models import Q

from schedules.models import Worker


def enlist(now: datetime) -> Worker:
    """Register the cluster that this process leads."""
    return Worker.objects.create(
        host=socket.gethostname(), pid=os.getpid(), started_at=now, last_seen_at=now, circled_at=now
    )


def beat(worker_id: int, now: datetime) -> None:
    """Note that the claim loop came round."""
    Worker.objects.filter(pk=worker_id).update(last_seen_at=now)


def circle(worker_id: int, sent_at: datetime) -> None:
    """Note that a probe which set out then has come all the way round the cluster."""
    Worker.objects.filter(pk=worker_id).update(circled_at=sent_at)


def retire(worker_id: int, now: datetime, note: str = "") -> None:
    Worker.objects.filter(pk=worker_id, stopped_at=None).update(stopped_at=now, note=note)


def is_any_worker_running(now: datetime) -> bool:
    return Worker.objects.fresh(now).exists()


def cover(moment: datetime) -> bool:
    """Tell whether some cluster was alive at that moment."""
    return (
        Worker.objects.filter(started_at__lte=moment)
        .filter(Q(stopped_at__gte=moment) | Q(stopped_at=None, last_seen_at__gte=moment))
        .exists()
    )
