"""The kill switch: read whether agents are stopped for a person or for everybody."""

from collections.abc import Collection
from typing import Any

from schedules.models import AgentStop


def stop_in_force(owner_id: Any) -> AgentStop | None:
    """Return the stop that keeps agents from working for a person, or None; a stop for everybody comes first."""
    return AgentStop.objects.filter(scope__in=[AgentStop.EVERYBODY, str(owner_id)]).order_by("scope").first()


def stops_in_force(owner_ids: Collection[Any]) -> dict[Any, AgentStop]:
    """Return the stops that keep agents from working for these people, by owner."""
    scopes = [AgentStop.EVERYBODY, *map(str, owner_ids)]
    by_scope = {stop.scope: stop for stop in AgentStop.objects.filter(scope__in=scopes)}
    stops = {owner: by_scope.get(AgentStop.EVERYBODY) or by_scope.get(str(owner)) for owner in owner_ids}
    return {owner: stop for owner, stop in stops.items() if stop}
