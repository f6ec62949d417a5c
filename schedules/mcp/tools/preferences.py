"""Tools for the user's preferences."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import ZoneText
from schedules.models import Profile
from schedules.result import RefusedError, expect, invalid
from schedules.services import Actor
from schedules.services.people.channels import channel_names
from schedules.services.people.holidays import calendar_titles
from schedules.services.people.preferences import Preferences, preferences_of, quiet_words
from schedules.services.runs.agent_stops import read_stop
from schedules.services.runs.runner_list import ListedRunner, list_runners

MAX_NAMED_CALENDARS = 20


def get_preferences() -> Any:
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
) -> Any:
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
        raise RefusedError(invalid("preferences", "give timezone, topic, failure_topic or quiet_hours"))
    profile = expect(services.set_preferences(current_actor(), **request))
    return preferences_out(profile, is_moved=bool(timezone))


def preferences_out(profile: Profile, *, is_moved: bool = False) -> dict[str, Any]:
    """Return the preferences, and what else a call may name."""
    actor = current_actor()
    out: dict[str, Any] = {name: value or None for name, value in preferences_of(profile).items()}
    out["topic"] = profile.channel or profile.default_topic or None
    out["local_time"] = answers.iso(clock.now(), profile.zone)
    out["channels"] = channel_names(actor)
    out["runners"] = [_runner_line(each) for each in list_runners(actor, clock.now(), with_runs=False)]
    if note := " ".join(_notes(actor, profile, is_moved)):
        out["note"] = note
    return out


def _notes(actor: Actor, profile: Profile, is_moved: bool) -> Iterator[str]:
    for zone, count in services.other_zones(actor, profile.zone) if is_moved else ():
        stay, them = ("job stays", "it") if count == 1 else ("jobs stay", "them")
        yield (
            f'{count} {stay} in {zone}: to move {them}, call bulk_jobs with action "update", in_timezone "{zone}", '
            f'timezone "{profile.zone}".'
        )
    if not profile.timezone:
        yield answers.no_zone(profile.zone, "local times are")
    if profile.quiet_hours:
        yield f"{quiet_words(profile.quiet_hours)} send_push_notification goes at once."
    if titles := calendar_titles(actor.user.pk):
        # Each with what it closes, unless the name says that.
        names = [name if name == words else f"{name} ({words})" for name, words in titles.items()]
        rest = len(names) - MAX_NAMED_CALENDARS
        more = f" and {rest} more" if rest > 0 else ""
        yield f"Calendars: {answers.line(', '.join(names[:MAX_NAMED_CALENDARS]), 2000)}{more}."
    if stop := read_stop(actor):
        yield f"{stop.sentence} Only a person can start them again."


def _runner_line(listed: ListedRunner) -> str:
    line = f"{listed.name}: {answers.line(listed.runner.description, 200)}"
    if listed.limits:
        line += f" Limits: {listed.limits}."
    return f"{line} Left today: {', '.join(listed.left)}." if listed.left else line
