"""Calendars: list, preview, set and delete."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads, reads_by_post
from schedules.api.schemas.calendars import CalendarIn, CalendarOut, CalendarsOut
from schedules.result import expect
from schedules.services.documents import calendar_json
from schedules.services.people.calendars import (
    CalendarSpec,
    delete_calendar,
    list_calendars,
    preview_calendar,
    set_calendar,
)

router = Router(tags=["calendars"])


@reads(router, "", CalendarsOut)
def list_all_calendars(request: HttpRequest) -> Any:
    """List calendars, with the next days that they mark and the jobs that use them."""
    return {"calendars": [calendar_json(each) for each in list_calendars(actor_of(request))]}


@changes(router, "PUT", "/{calendar}", {200: CalendarOut})
def set_one_calendar(request: HttpRequest, calendar: str, body: CalendarIn) -> Any:
    """Add a calendar, or replace the one of this name; the jobs that use it follow at once."""
    return calendar_json(expect(set_calendar(actor_of(request), _spec(calendar, body))))


@reads_by_post(router, "/{calendar}/preview", CalendarOut)
def preview_one_calendar(request: HttpRequest, calendar: str, body: CalendarIn) -> Any:
    """Show a calendar as it would be; nothing is stored."""
    return calendar_json(expect(preview_calendar(actor_of(request), _spec(calendar, body))))


@changes(router, "DELETE", "/{calendar}", {204: None})
def delete_one_calendar(request: HttpRequest, calendar: str) -> Any:
    """Delete a calendar that no job uses."""
    expect(delete_calendar(actor_of(request), calendar))
    return Status(204, None)


def _spec(name: str, body: CalendarIn) -> CalendarSpec:
    categories = ["public", *(each for each in body.categories if each != "public")]
    return CalendarSpec(
        name,
        body.kind,
        body.place,
        categories,
        body.lines,
        closes=body.closes,
        timezone=body.timezone,
        address=body.address,
        file_name=body.file_name,
        file_text=body.file_text,
    )
