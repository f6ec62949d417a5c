"""Pings to an external monitor: one a minute for the whole installation, and the result of the last ones."""

from datetime import datetime, timedelta

from django.db.models import Q

from schedules import limits
from schedules.models import Installation

PING_EVERY = timedelta(minutes=1)
LONGEST_ERROR = 200


def take_watch_turn(now: datetime) -> bool:
    """Return True to exactly one process of all clusters in each minute: it sends the ping."""
    row = Installation.objects.get_or_create(pk=Installation.ONLY)[0]
    minute = now.replace(second=0, microsecond=0)
    # A moment in the future was written before a clock was set back.
    is_free = (
        Q(watch_pinged_at=None) | Q(watch_pinged_at__lt=minute) | Q(watch_pinged_at__gt=now + PING_EVERY)
    )
    return bool(Installation.objects.filter(is_free, pk=row.pk).update(watch_pinged_at=now))


def note_watch_answer(now: datetime, error: str = "") -> None:
    """Record how a ping went, for `doctor`."""
    text = limits.strip_unprintable(error)[:LONGEST_ERROR]
    changes = {"watch_error": text} if text else {"watch_error": "", "watch_answered_at": now}
    Installation.objects.filter(pk=Installation.ONLY).update(**changes)
