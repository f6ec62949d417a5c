"""The kill switch as runs see it: whether agents may start to work for a person."""

from collections.abc import Collection
from typing import Any

from schedules.models import AgentStop


def stop_in_force(owner_id: Any) -> AgentStop | None:
    """Return why no agent may work for a person now, or None; a stop for everybody comes first."""
    return AgentStop.objects.filter(scope__in=[AgentStop.EVERYBODY, str(owner_id)]).order_by("scope").first()


def stops_in_force(owner_ids: Collection[Any]) -> dict[Any, AgentStop]:
    """Return why no agent may work for these people now; those whose agents may are left out."""
    scopes = [AgentStop.EVERYBODY, *map(str, owner_ids)]
    stops = {stop.scope: stop for stop in AgentStop.objects.filter(scope__in=scopes)}
    found = {owner: stops.get(AgentStop.EVERYBODY) or stops.get(str(owner)) for owner in owner_ids}
    return {owner: stop for owner, stop in found.items() if stop}
