"""Schemas of the activity: who changed what."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from schedules.api.schemas.common import Moment, Output, Paged
from schedules.models import Event

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
