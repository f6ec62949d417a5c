"""Schemas of heartbeats, jobs that run elsewhere, and of their pings."""

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Router
from pydantic import ConfigDict, Field

from schedules import limits
from schedules.api.common import Input, Moment, Output, Paged
from schedules.api.endpoints import route
from schedules.services import listing, pings
from schedules.services.people.hourly_limits import network_of


class HeartbeatOut(Output):
    """A job that runs elsewhere, where its pings go, and what they have said."""

    id: str
    name: str
    status: str
    schedule: str
    timezone: str
    next_run: Moment | None
    grace: str
    ping_url: str
    ping_url_by_name: str | None
    pings: int
    last_ping_at: Moment | None
    last_ping: str | None
    last_success_at: Moment | None
    last_seconds: float | None


class PingOut(Output):
    """An accepted ping."""

    at: Moment
    kind: str
    run_id: str | None
    exit_code: int | None
    late_by: float | None
    sender: str | None
    run: int | None


class HeartbeatsOut(Output):
    """A page of heartbeats."""

    heartbeats: list[HeartbeatOut]
    next_cursor: str | None


class WholeHeartbeatOut(HeartbeatOut):
    """A heartbeat with its last pings, the newest first."""

    received: list[PingOut]


class PingIn(Input):
    """What a job that runs elsewhere reports."""

    kind: Literal["start", "end", "log"] = Field("end", description="`log` changes no state.")
    exit_code: int = Field(0, ge=0, le=255, description="Of an end: 0 is success, anything else failure.")
    run_id: Annotated[UUID | None, Field(strict=False)] = Field(
        None, description="An end with the id of its start gives the duration."
    )
    output: str = Field("", max_length=limits.PING_BODY_BYTES, description="What it printed last.")
    late_by: float = Field(0.0, ge=0, le=31_536_000, description="For how many seconds the report was kept.")

    model_config = ConfigDict(json_schema_extra={"examples": [{"exit_code": 0, "output": "12 files\n"}]})


class PingedOut(Output):
    """The ping is stored."""

    stored: bool


def _sender(request: HttpRequest) -> dict[str, Any]:
    return {"sender": network_of(request.META.get("REMOTE_ADDR", "")) or ""}


router = Router(tags=["heartbeats"])
route(router, "GET ", listing.list_heartbeats, HeartbeatsOut, query=Paged)
route(router, "GET /{job}", listing.show_heartbeat, WholeHeartbeatOut)
route(
    router,
    "POST /{job}/ping",
    pings.ping_heartbeat,
    PingedOut,
    body=PingIn,
    repeatable=False,
    given=_sender,
)
