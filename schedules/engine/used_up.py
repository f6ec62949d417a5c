"""Limits of agents that are used up: their owner is told once, until a run fits again."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from schedules.engine.incidents import Kind, end_all, raise_incident
from schedules.models import Incident


def tell_of_cap(owner_id: int, values: Mapping[str, Any], now: datetime) -> None:
    """Raise an incident for a run that was skipped over a limit of the day; the first one that fits ends it."""
    subject = f"limits of {values.get('runner')}"
    if values.get("cap"):
        raise_incident(Kind.OVER_LIMIT, owner_id, subject, f"Runner {values['runner']}", values["cap"], now)
    elif values.get("ended_at"):
        # Runs that were under way when the limit was reached do not end it.
        open_before = Incident.objects.filter(
            owner=owner_id, kind=Kind.OVER_LIMIT, subject=subject, opened_at__lt=values["started_at"]
        )
        end_all(open_before, now)
