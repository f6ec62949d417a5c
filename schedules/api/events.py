"""Schemas of the activity: who changed what."""

from functools import partial
from typing import Annotated, Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router
from pydantic import Field, WithJsonSchema

from schedules.api.auth import READS, actor_of
from schedules.api.common import Moment, Output, Paged
from schedules.api.endpoints import check_query, route
from schedules.api.streams import Stream, feed_of, listen, take_place
from schedules.models import Event
from schedules.services.listing import list_events
from schedules.services.long_answers import stream_while_waiting
from schedules.services.people.documents import event_json

# Without a schema of its own, because the reference page lists values where they are used.
Door = Annotated[Event.Door, WithJsonSchema({"type": "string", "enum": Event.Door.values})]


class EventFilters(Paged):
    """Which changes to list, the newest first."""

    actor: str = Field("", max_length=150, description="The name of a person, an agent or a program.")
    door: Door | None = None
    verb: str = Field("", max_length=20, description="Like create, edit or pause.")
    job: str = Field("", max_length=200, description="The id, number or exact name of a job.")
    since: str = Field("", max_length=200, description="At or after: a time or a phrase.")
    until: str = Field("", max_length=200, description="Before: a time or a phrase.")


class EventOut(Output):
    """Who changed what, when and through which door."""

    id: int
    at: Moment
    actor: str
    door: str
    verb: str
    job_id: str | None
    subject: str
    undoes: int | None
    changes: list[str]
    before: Any
    after: Any


class EventsOut(Output):
    """A page of changes, the newest first."""

    events: list[EventOut]
    next_cursor: str | None


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
