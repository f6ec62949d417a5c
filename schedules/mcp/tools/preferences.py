"""Tools for the user's preferences: the time zone, and the topics of notifications and failure alerts."""

from collections.abc import Mapping
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.answers.job_refusals import ErrorOut, refusal_of
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import ZoneText
from schedules.models import Profile
from schedules.result import Ok, invalid
from schedules.services.people.channels import channel_names
from schedules.services.people.holidays import calendar_titles
from schedules.services.people.preferences import Preferences, quiet_words
from schedules.services.runs.agent_stops import read_stop
from schedules.services.runs.runner_list import ListedRunner, list_runners

MAX_NAMED_CALENDARS = 20


class PreferencesOut(TypedDict):
    """The user's time zone and topics, or null where none is set, and the time in that zone."""

    timezone: str | None
    topic: str | None
    failure_topic: str | None
    local_time: str
    channels: NotRequired[list[str]]
    runners: NotRequired[list[str]]
    note: NotRequired[str]


def get_preferences() -> PreferencesOut | ErrorOut:
    """Show the user's time zone and topic, which are used where a call names none, the topic of failure alerts, and the runners that
    prompts may name, with what is left of their limits today.
    """
    return preferences_out(current_actor().read_profile())


def set_preferences(
    timezone: Annotated[ZoneText | None, Field(description='City or IANA zone. "" removes it.')] = None,
    topic: Annotated[str | None, Field(description='A topic or a channel. "" removes it.')] = None,
    failure_topic: Annotated[
        str | None,
        Field(description='Where alerts go. "": nowhere.'),
    ] = None,
    quiet_hours: Annotated[str | None, Field(description="Messages wait: 22:00-07:00.")] = None,
) -> PreferencesOut | ErrorOut:
    """Remember where the user lives ("I live in Berlin"), their topic, or where failures go
    ("tell me when it fails"). Existing jobs keep theirs.
    """
    request: Preferences = {
        "timezone": timezone,
        "topic": topic,
        "failure_topic": failure_topic,
        "quiet_hours": quiet_hours,
    }
    if all(value is None for value in request.values()):
        return refusal_of(
            invalid("preferences", "give timezone, topic, failure_topic or quiet_hours"), request
        )
    match services.set_preferences(current_actor(), **request):
        case Ok(profile):
            out = preferences_out(profile)
            if timezone and (note := _other_zones_note(profile)):
                out["note"] = f"{note} {out.get('note', '')}".strip()
            return out
        case error:
            return refusal_of(error, request)


def _other_zones_note(profile: Profile) -> str:
    """Say which jobs stay in other zones, and how to move them."""
    zones = services.other_zones(current_actor(), profile.zone)
    parts = [
        f"{count} {'job stays' if count == 1 else 'jobs stay'} in {zone}: to move "
        f'{"it" if count == 1 else "them"}, call bulk_jobs with action "update", in_timezone "{zone}", '
        f'timezone "{profile.zone}".'
        for zone, count in zones
    ]
    return " ".join(parts)


def preferences_out(profile: Profile) -> PreferencesOut:
    out: PreferencesOut = {
        "timezone": profile.timezone or None,
        "topic": profile.channel or profile.default_topic or None,
        "failure_topic": profile.alert_channel or profile.failure_topic or None,
        "local_time": answers.iso(clock.now(), profile.zone),
    }
    actor = current_actor()
    if names := channel_names(actor):
        out["channels"] = names
    if runners := list_runners(actor, clock.now(), with_runs=False):
        out["runners"] = [_runner_line(each) for each in runners]
    notes = []
    if not profile.timezone:
        notes.append(answers.no_zone(profile.zone, "local times are"))
    if profile.quiet_hours:
        notes.append(f"{quiet_words(profile.quiet_hours)} send_push_notification goes at once.")
    if titles := calendar_titles(actor.user.pk):
        notes.append(_calendars_line(titles))
    if stop := read_stop(actor):
        notes.append(f"{stop.sentence} Only a person can start them again.")
    if notes:
        out["note"] = " ".join(notes)
    return out


def _calendars_line(titles: Mapping[str, str]) -> str:
    """Name the calendars that jobs may use, each with what it closes where the name does not say that."""
    names = [name if name == words else f"{name} ({words})" for name, words in titles.items()]
    more = f" and {len(names) - MAX_NAMED_CALENDARS} more" if len(names) > MAX_NAMED_CALENDARS else ""
    return f"Calendars: {answers.line(', '.join(names[:MAX_NAMED_CALENDARS]), 2000)}{more}."


def _runner_line(listed: ListedRunner) -> str:
    line = f"{listed.name}: {answers.line(listed.runner.description, 200)}"
    if listed.limits:
        line += f" Limits: {listed.limits}."
    return f"{line} Left today: {', '.join(listed.left)}." if listed.left else line
