"""Tools for the user's preferences: the time zone, and the topics of notifications and failure alerts."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.answers.job_refusals import ErrorOut, refused
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import ZoneText, refuse
from schedules.models import Profile
from schedules.result import Ok
from schedules.services.people.channels import channel_names


class PreferencesOut(TypedDict):
    """The user's time zone and topics, or null where none is set, and the time in that zone."""

    timezone: str | None
    topic: str | None
    failure_topic: str | None
    local_time: str
    channels: NotRequired[list[str]]
    note: NotRequired[str]


def get_preferences() -> PreferencesOut | ErrorOut:
    """Show the user's time zone and topic, which are used where a call names none, and the topic of failure alerts."""
    return preferences_out(current_actor().read_profile())


def set_preferences(
    timezone: Annotated[
        ZoneText | None, Field(description='City or IANA zone, like Europe/Berlin. "" removes it.')
    ] = None,
    topic: Annotated[
        str | None, Field(description='An ntfy topic or one of the channels. "" removes it.')
    ] = None,
    failure_topic: Annotated[
        str | None,
        Field(description='Where to report failing jobs. "" turns it off.'),
    ] = None,
) -> PreferencesOut | ErrorOut:
    """Remember where the user lives ("I live in Berlin"), their topic, or where failures of all jobs are reported
    ("tell me when it fails"). Existing jobs keep theirs.
    """
    request = {"timezone": timezone, "topic": topic, "failure_topic": failure_topic}
    if timezone is None and topic is None and failure_topic is None:
        return refused(refuse("preferences", "give timezone, topic or failure_topic"), request)
    match services.set_preferences(
        current_actor(), timezone=timezone, topic=topic, failure_topic=failure_topic
    ):
        case Ok(profile):
            out = preferences_out(profile)
            if timezone and (words := _staying_words(profile)):
                out["note"] = words
            return out
        case error:
            return refused(error, request)


def _staying_words(profile: Profile) -> str:
    """Say which jobs stay in another zone, and how to move them."""
    zones = services.other_zones(current_actor(), profile.zone)
    words = [
        f"{count} {'job stays' if count == 1 else 'jobs stay'} in {zone}: to move "
        f'{"it" if count == 1 else "them"}, call bulk_jobs with action "update", in_timezone "{zone}", '
        f'timezone "{profile.zone}".'
        for zone, count in zones
    ]
    return " ".join(words)


def preferences_out(profile: Profile) -> PreferencesOut:
    out: PreferencesOut = {
        "timezone": profile.timezone or None,
        "topic": profile.channel or profile.default_topic or None,
        "failure_topic": profile.alert_channel or profile.failure_topic or None,
        "local_time": answers.iso(clock.now(), profile.zone),
    }
    if names := channel_names(current_actor()):
        out["channels"] = names
    if not profile.timezone:
        out["note"] = answers.no_zone(profile.zone, "local times are")
    return out
