"""Routes of incidents: what went wrong, which alerts were sent, and snoozing them."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.incidents import IncidentFilters, IncidentOut, IncidentsOut, SnoozeIn
from schedules.services.people import operations

router = Router(tags=["alerts"])

route(router, "GET ", operations.list_incidents, IncidentsOut, query=IncidentFilters)
route(router, "GET /{int:incident}", operations.show_incident, IncidentOut)
route(
    router,
    "POST /{int:incident}/snooze",
    operations.snooze_incident,
    IncidentOut,
    body=SnoozeIn,
    is_optional=True,
)
