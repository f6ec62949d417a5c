"""Answers of the tools for the user's preferences."""

from typing import NotRequired

from typing_extensions import TypedDict

from schedules import clock
from schedules.mcp import answers
from schedules.models import Profile


class PreferencesOut(TypedDict):
    """The user's time zone and topics, or null where none is set, and the time in that zone."""

    timezone: str | None
    topic: str | None
    failure_topic: str | None
    local_time: str
    note: NotRequired[str]


def preferences_out(profile: Profile) -> PreferencesOut:
    out: PreferencesOut = {
        "timezone": profile.timezone or None,
        "topic": profile.default_topic or None,
        "failure_topic": profile.failure_topic or None,
        "local_time": answers.iso(clock.now(), profile.zone),
    }
    if not profile.timezone:
        out["note"] = answers.no_zone(profile.zone, "local times are")
    return out
