"""Routes of calendars: list, preview, set and delete."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.calendars import CalendarIn, CalendarOut, CalendarsOut
from schedules.services.people import operations

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
