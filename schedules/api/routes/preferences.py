"""Preferences: the time zone, where notifications and alerts go, which alerts come and when, and how times are shown."""

from typing import Any, cast

from django.http import HttpRequest
from ninja import Router

from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads
from schedules.api.schemas.preferences import PreferencesIn, PreferencesOut
from schedules.result import expect
from schedules.services.people.preferences import Preferences, preferences_of, set_preferences
from schedules.services.reading import read_value
from schedules.spec.readers import read_span

router = Router(tags=["preferences"])


@reads(router, "", PreferencesOut)
def show_preferences(request: HttpRequest) -> Any:
    """Show the preferences of the token's owner."""
    return preferences_of(actor_of(request).read_profile())


@changes(router, "PATCH", "", {200: PreferencesOut})
def change_preferences(request: HttpRequest, body: PreferencesIn) -> Any:
    """Change the preferences that are given."""
    given: dict[str, Any] = body.model_dump(exclude_none=True)
    if "alert_every" in given:
        given["alert_every"] = int(read_value(read_span, given["alert_every"], "alert_every").total_seconds())
    return preferences_of(expect(set_preferences(actor_of(request), **cast(Preferences, given))))
