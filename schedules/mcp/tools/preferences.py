"""Tools for the user's preferences: the time zone, and the topics of notifications and failure alerts."""

from typing import Annotated

from pydantic import Field

from schedules import services
from schedules.mcp.answers.jobs import ErrorOut, refused
from schedules.mcp.answers.preferences import PreferencesOut, preferences_out
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import ZoneText, refuse
from schedules.result import Ok


def get_preferences() -> PreferencesOut | ErrorOut:
    """Show the user's time zone and topic, which are used where a call names none, and the topic of failure alerts."""
    return preferences_out(current_actor().read_profile())


def set_preferences(
    timezone: Annotated[
        ZoneText | None, Field(description='A city or IANA zone, like "Europe/Berlin". "" removes it.')
    ] = None,
    topic: Annotated[
        str | None, Field(description='The ntfy topic, 1 to 64 letters, digits, - and _. "" removes it.')
    ] = None,
    failure_topic: Annotated[
        str | None,
        Field(
            description='Where to tell the user that a job starts failing or was paused for it. "" turns that off.'
        ),
    ] = None,
) -> PreferencesOut | ErrorOut:
    """Remember where the user lives, which topic they follow ("I live in Berlin"), or where failures are reported.

    Existing jobs keep their zones and topics. Failures of all the user's jobs are reported ("tell me when it fails").
    """
    given = {"timezone": timezone, "topic": topic, "failure_topic": failure_topic}
    if timezone is None and topic is None and failure_topic is None:
        return refused(refuse("preferences", "give timezone, topic or failure_topic"), given)
    match services.set_preferences(
        current_actor(), timezone=timezone, topic=topic, failure_topic=failure_topic
    ):
        case Ok(profile):
            return preferences_out(profile)
        case error:
            return refused(error, given)
