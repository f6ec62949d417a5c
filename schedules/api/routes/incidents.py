"""Incidents: what went wrong, which alerts were sent, and snoozing them."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads
from schedules.api.schemas.incidents import IncidentFilters, IncidentOut, IncidentsOut, SnoozeIn
from schedules.models import Incident
from schedules.result import expect
from schedules.services import Actor
from schedules.services.documents import incident_json
from schedules.services.listing import position_of
from schedules.services.people.incidents import described, read_incidents, snooze_incident

router = Router(tags=["alerts"])


@reads(router, "", IncidentsOut)
def list_incidents(request: HttpRequest, filters: Query[IncidentFilters]) -> Any:
    """List what went wrong, open incidents first, then those that have ended, both the newest first.

    `description` says since when, how it ended and which alerts were sent; `delivery`, why the last alert has not arrived.
    """
    actor = actor_of(request)
    is_open = None if filters.state is None else filters.state == "open"
    page = read_incidents(actor, position_of(filters.cursor), filters.limit, is_open=is_open)
    return {"incidents": _incidents_json(actor, page.rows), "next_cursor": page.after or None}


@changes(router, "POST", "/{int:incident}/snooze", {200: IncidentOut})
def snooze_one_incident(request: HttpRequest, incident: int, body: SnoozeIn | None = None) -> Any:
    """Send no alert about an open incident until a time, or for a day; its end is still announced.

    Only a token of the type Program may do this.
    """
    actor, options = actor_of(request), body or SnoozeIn()
    snoozed = expect(snooze_incident(actor, min(incident, 2**63 - 1), options.until or ""))
    return _incidents_json(actor, [snoozed])[0]


def _incidents_json(actor: Actor, incidents: list[Incident]) -> list[dict[str, Any]]:
    zone = actor.read_profile().zone
    return [incident_json(shown, zone) for shown in described(incidents, zone)]
