"""Routes of heartbeats: where pings go, which were received, and pings with a token instead of a ping address."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.common import Paged
from schedules.api.schemas.heartbeats import HeartbeatsOut, PingedOut, PingIn, WholeHeartbeatOut
from schedules.services import listing, pings
from schedules.services.people.hourly_limits import network_of


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
