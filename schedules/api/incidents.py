"""Schemas of incidents: what went wrong, and the alerts about it."""

from typing import Literal

from ninja import Router
from pydantic import ConfigDict, Field

from schedules.api.common import Input, Moment, Output, Paged, Phrase
from schedules.api.endpoints import route
from schedules.services.people import operations


class IncidentFilters(Paged):
    """Which incidents to list: the open ones first, then those that have ended."""

    state: Literal["open", "ended"] | None = None


class SnoozeIn(Input):
    """Until when no alert is sent."""

    until: Phrase | None = Field(
        None, description='A time or a phrase like "monday", in the zone of the owner. Default: for a day.'
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"until": "tomorrow at 9:00"}]})


class SentAlertOut(Output):
    """One message about an incident."""

    at: Moment
    title: str
    text: str
    place: str


class IncidentOut(Output):
    """One thing that went wrong: since when, how it ended, and which alerts were sent."""

    id: int
    kind: str
    name: str
    job_id: str | None
    is_open: bool
    opened_at: Moment
    ended_at: Moment | None
    ending: str | None
    details: str | None
    alerts: int
    last_alert_at: Moment | None
    next_alert_at: Moment | None
    snoozed_until: Moment | None
    snoozed_by: str | None
    description: str
    delivery: str | None
    plan: str | None = Field(description="Until when it is snoozed, or when the next alert is due.")
    sent: list[SentAlertOut]


class IncidentsOut(Output):
    """A page of incidents."""

    incidents: list[IncidentOut]
    next_cursor: str | None


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
