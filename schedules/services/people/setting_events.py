"""The event that records a change to somebody's settings: a secret, a channel, a calendar or a receiver of events."""

from datetime import datetime
from typing import Any

from schedules.models import Event
from schedules.services.permissions import Actor


def record_setting(actor: Actor, verb: str, subject: str, now: datetime, **values: Any) -> None:
    """Write an event; call it inside the transaction that makes the change."""
    Event.objects.create(
        at=now,
        owner_id=actor.user.pk,
        actor=actor.label,
        door=actor.door,
        verb=verb,
        subject=subject,
        **values,
    )
