"""Activity: who changed what, as a list and as a stream."""

from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router

from schedules import clock
from schedules.api.auth import READS, actor_of
from schedules.api.endpoints import check_query, reads
from schedules.api.schemas.events import EventFilters, EventsOut
from schedules.api.streams import Stream, feed_of, listen, take_place
from schedules.services.documents import event_json
from schedules.services.event_list import EventQuery, read_events
from schedules.services.listing import position_of
from schedules.services.long_answers import stream_while_waiting
from schedules.services.reading import known_job_of, read_past_moment

router = Router(tags=["activity"])


@reads(router, "", EventsOut)
def list_events(request: HttpRequest, filters: Query[EventFilters]) -> Any:
    """List who changed what, the newest first, with the changes in words; secrets are masked.

    With `Accept: text/event-stream`, the answer is the stream of `GET /events/stream`.
    """
    actor, now = actor_of(request), clock.now()
    zone = actor.read_profile().zone
    query = EventQuery(
        actor=filters.actor,
        door=filters.door or "",
        verb=filters.verb,
        job=known_job_of(actor, filters.job).public_id if filters.job else "",
        since=read_past_moment(filters.since, "since", zone, now),
        until=read_past_moment(filters.until, "until", zone, now),
    )
    page = read_events(actor, query, position_of(filters.cursor), filters.limit)
    return {"events": [event_json(event, zone) for event in page.rows], "next_cursor": page.after or None}


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
