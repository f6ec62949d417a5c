"""Daily limits of agents: raise one incident when a limit is used up, until a run fits again."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from schedules.engine.incidents import Kind, end_all, raise_incident
from schedules.models import Incident


def update_limit_incident(owner_id: int, values: Mapping[str, Any], now: datetime) -> None:
    """Raise an incident if a run was skipped because of a daily limit; the first run that fits ends it."""
    subject = f"limits of {values.get('runner')}"
    if values.get("cap"):
        raise_incident(Kind.OVER_LIMIT, owner_id, subject, f"Runner {values['runner']}", values["cap"], now)
    elif values.get("ended_at"):
        # Runs that were already under way when the limit was reached do not end the incident.
        open_before = Incident.objects.filter(
            owner=owner_id, kind=Kind.OVER_LIMIT, subject=subject, opened_at__lt=values["started_at"]
        )
        end_all(open_before, now)
