"""Tools for the user's preferences: the time zone, and the topic of notifications."""

from typing import Annotated

from pydantic import Field

from schedules import services
from schedules.mcp.answers.jobs import ErrorOut, refused
from schedules.mcp.answers.preferences import PreferencesOut, preferences_out
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import ZoneText, refuse
from schedules.result import Ok


def get_preferences() -> PreferencesOut | ErrorOut:
    """Show the user's time zone and notification topic, which are used where a call names none."""
    return preferences_out(current_actor().read_profile())


def set_preferences(
    timezone: Annotated[
        ZoneText | None, Field(description='A city or IANA zone, like "Europe/Berlin". "" removes it.')
    ] = None,
    topic: Annotated[
        str | None, Field(description='The ntfy topic, 1 to 64 letters, digits, - and _. "" removes it.')
    ] = None,
) -> PreferencesOut | ErrorOut:
    """Remember where the user lives or which topic they follow ("I live in Berlin"). Existing jobs stay as they are."""
    given = {"timezone": timezone, "topic": topic}
    if timezone is None and topic is None:
        return refused(refuse("preferences", "give timezone or topic"), given)
    match services.set_preferences(current_actor(), timezone=timezone, topic=topic):
        case Ok(profile):
            return preferences_out(profile)
        case error:
            return refused(error, given)
