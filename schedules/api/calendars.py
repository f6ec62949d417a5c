"""Schemas of calendars: the days and hours that jobs leave out."""

from typing import Annotated, Literal

from ninja import Router
from pydantic import ConfigDict, Field

from schedules.api.common import Day, Input, Moment, Output, Phrase, Text
from schedules.api.endpoints import route
from schedules.services.people import operations

CalendarKind = Literal["holidays", "dates", "hours", "ics"]


class CalendarIn(Input):
    """What a calendar is made from: public holidays of a place, own dates, weekly hours, or an ICS address or file."""

    kind: CalendarKind
    place: Text = Field("", description="For holidays: a country or a part of it, like DE-BY.")
    categories: list[Phrase] = Field(
        default_factory=list, max_length=20, description="For holidays: categories besides public ones."
    )
    lines: list[Phrase] = Field(
        default_factory=list,
        max_length=1000,
        description="For dates and hours.",
    )
    address: Annotated[str, Field(max_length=2000)] = Field("", description="For ics: where it is read.")
    file_name: Text = Field("", description="For ics: the name of a file instead of an address.")
    file_text: Annotated[str, Field(max_length=1_000_000)] = Field("", description="For ics: its content.")
    closes: bool = Field(True, description="False: jobs run only at these times.")
    timezone: Annotated[str, Field(max_length=64)] = Field("", description="Default: that of each job.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "holidays", "place": "DE-BY"},
                {"kind": "dates", "lines": ["12-24..01-02 Christmas break"]},
            ]
        }
    )


class MarkedDay(Output):
    """A day that a calendar marks."""

    day: Day
    title: str


class CalendarOut(Output):
    """A calendar, the next days that it marks, and the jobs that use it."""

    name: str
    kind: str
    closes: bool
    timezone: str | None
    description: str
    place: str | None
    categories: list[str]
    lines: list[str]
    days: list[MarkedDay]
    source: str | None
    read_at: Moment | None
    error: str | None
    until: Day | None
    jobs: list[str]


class CalendarsOut(Output):
    """The calendars of the owner."""

    calendars: list[CalendarOut]


router = Router(tags=["calendars"])

route(router, "GET ", operations.list_calendars, CalendarsOut)
route(router, "PUT /{calendar}", operations.set_calendar, CalendarOut, body=CalendarIn)
route(
    router,
    "POST /{calendar}/preview",
    operations.preview_calendar,
    CalendarOut,
    body=CalendarIn,
    writes=False,
)
route(router, "DELETE /{calendar}", operations.delete_calendar, None)
