"""The kill switch as runs see it: whether agents may start to work for a person."""

from typing import Any

from schedules.models import AgentStop


def stop_in_force(owner_id: Any) -> AgentStop | None:
    """Return why no agent may work for a person now, or None; a stop for everybody comes first."""
    return AgentStop.objects.filter(scope__in=[AgentStop.EVERYBODY, str(owner_id)]).order_by("scope").first()
