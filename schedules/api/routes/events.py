"""Activity: who changed what, as a list and as a stream."""

from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from schedules.api.auth import READS, actor_of
from schedules.api.endpoints import check_query, route
from schedules.api.schemas.events import EventFilters, EventsOut
from schedules.api.streams import Stream, feed_of, listen, take_place
from schedules.services.documents import event_json
from schedules.services.listing import list_events
from schedules.services.long_answers import stream_while_waiting

router = Router(tags=["activity"])


route(router, "GET ", list_events, EventsOut, query=EventFilters)


@router.get(
    "/stream",
    auth=READS,
    operation_id="stream_events",
    summary="Follow what changes, as server-sent events",
    description=(
        "Follow what changes, as server-sent events.\n\n"
        "The stream begins with what changes from now on, or after the event that `Last-Event-ID` names: the id of an "
        "event of the stream, or of `GET /events`. The data of each event is that of `GET /events`. A token may keep "
        "five streams open."
    ),
    openapi_extra={
        "x-scope": "read",
        "x-repeatable": False,
        "x-if-match": "",
        "x-last-event-id": True,
        "responses": {
            200: {"description": "OK", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
        },
    },
)
async def stream_events(request: HttpRequest) -> Any:
    check_query(request, ())
    actor, token = actor_of(request), request.auth.token  # type: ignore[attr-defined]
    zone = (await sync_to_async(actor.read_profile)()).zone
    feed = await sync_to_async(feed_of)(actor, request.headers.get("Last-Event-ID", ""))
    # Compression would hold back what is sent.
    request.META["HTTP_ACCEPT_ENCODING"] = ""
    stream = Stream(token, feed, partial(event_json, zone=zone))
    take_place(stream)
    response = StreamingHttpResponse(
        stream_while_waiting(request, listen(stream)), content_type="text/event-stream"
    )
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response
