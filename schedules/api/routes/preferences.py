"""Routes of preferences: the time zone, where notifications and alerts go and when, and how times are shown."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.preferences import PreferencesIn, PreferencesOut
from schedules.services.people import operations

router = Router(tags=["preferences"])

route(router, "GET ", operations.show_preferences, PreferencesOut)
route(router, "PATCH ", operations.change_preferences, PreferencesOut, body=PreferencesIn)
