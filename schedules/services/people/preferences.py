"""A person's preferences: time zone, default places and runner, which alerts come and when, and how times are shown."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Count, Q
from typing_extensions import Unpack

from schedules import clock, engine, limits
from schedules.agents.choice import usable
from schedules.models import Job, Profile
from schedules.models.alert_rules import read_quiet_hours, rules_problem
from schedules.models.people import is_active
from schedules.result import Ok, Result, invalid, invalid_fields
from schedules.services.people.channels import channel_called, place_of
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor, record_setting
from schedules.services.quotas import wait_for_turn
from schedules.when.triggers import TriggerError, load_zone
from schedules.when.zone_names import zone_named

MIN_ALERT_SECONDS, MAX_ALERT_SECONDS = 3600, 30 * 86_400


class Preferences(TypedDict, total=False):
    """The preferences to change; None leaves one as it is, and an empty text removes it."""

    timezone: str | None
    topic: str | None
    """Where notifications without a place go: a topic, or the name of a channel."""
    failure_topic: str | None
    """Where alerts go: a topic, or the name of a channel."""
    runner: str | None
    alert_rules: str | None
    quiet_hours: str | None
    alert_every: int | None
    """The seconds between reminders of an alert that lasts; 0 for none."""
    clock_hours: int | None
    week_start: int | None


def update_profile(user: Any, **preferences: Unpack[Preferences]) -> Result[Profile]:
    """Change preferences as the pages do, without an event; all of them or, if one is invalid, none."""
    profile = profile_of(user)
    columns: dict[str, Any] = {}
    problems: dict[str, list[str]] = {}
    for name, value in preferences.items():
        if value is None:
            continue
        try:
            columns |= _READERS[name](user, value)
        except ValueError as error:
            problems[name] = [str(error)]
    if problems:
        name, reasons = next(iter(problems.items()))
        return invalid(name, reasons[0]) if len(problems) == 1 else invalid_fields(problems)
    for name, value in columns.items():
        setattr(profile, name, value)
    profile.save(update_fields=list(columns))
    if columns.keys() & {"quiet_hours", "timezone"}:
        engine.release_held(user.pk, clock.now())
    return Ok(profile)


def set_preferences(actor: Actor, **preferences: Unpack[Preferences]) -> Result[Profile]:
    """Change preferences with an event, because agents and staff act for somebody else."""
    with transaction.atomic():
        wait_for_turn(profile_of(actor.user))
        before = Profile.objects.get(user=actor.user.pk)
        result = update_profile(actor.user, **preferences)
        if isinstance(result, Ok):
            names = [name for name, value in preferences.items() if value is not None]
            record_setting(
                actor,
                "set preferences",
                ", ".join(names),
                clock.now(),
                before={name: preference(before, name) for name in names},
                after={name: preference(result.value, name) for name in names},
            )
    return result


def preference(profile: Profile, name: str) -> Any:
    """Return one preference as it can be set again."""
    match name:
        case "topic":
            return profile.channel or profile.topic
        case "failure_topic":
            return profile.alert_channel or profile.failure_topic
        case "alert_every":
            return int(profile.alert_every.total_seconds())
    return getattr(profile, name)


def quiet_words(hours: str) -> str:
    """Say what quiet hours hold; empty if there are none."""
    if not hours:
        return ""
    end = hours.partition("-")[2]
    return (
        f"During {hours}, scheduled notifications, reminders and alerts wait: they are sent once, at {end}."
    )


def preferences_of(profile: Profile) -> dict[str, Any]:
    """Return all preferences as they can be set again."""
    return {name: preference(profile, name) for name in _READERS}


def runner_names(actor: Actor) -> list[str]:
    """Return the names of the runners that the actor's user may choose as their default."""
    return list(usable(actor.user))


def other_zones(actor: Actor, zone: str, limit: int = 3) -> list[tuple[str, int]]:
    """Return the zones in which active jobs of the actor stay, and how many each, the most frequent first."""
    elsewhere = actor.jobs().active().exclude(timezone=zone).exclude(made_by="cronty")
    counted = elsewhere.order_by().values_list("timezone").annotate(count=Count("pk")).order_by("-count")
    return list(counted[:limit])


def _read_zone(user: Any, text: str) -> dict[str, Any]:
    zone = zone_named(text) if text else ""
    if zone:
        try:
            load_zone(zone)
        except TriggerError as error:
            raise ValueError(error.reason) from error
    return {"timezone": zone}


def _read_place(topic_column: str, channel_column: str) -> Callable[[Any, str], dict[str, Any]]:
    """Return the reader of a text that names a channel or a topic; each replaces the other."""

    def read(user: Any, text: str) -> dict[str, Any]:
        place = place_of(user.pk, text) if text else {}
        if name := place.get("channel"):
            if channel_called(user.pk, name) is None:
                raise ValueError(f"There is no channel {name}.")
            return {channel_column: name}
        if text and (problem := limits.topic_problem(text)):
            raise ValueError(problem)
        return {topic_column: text, channel_column: ""}

    return read


def _read_runner(user: Any, name: str) -> dict[str, Any]:
    if name and name not in usable(user):
        raise ValueError(f"Choose one of: {', '.join(usable(user))}.")
    return {"runner": name}


def _read_rules(user: Any, text: str) -> dict[str, Any]:
    if problem := rules_problem(text, of_person=True):
        raise ValueError(problem)
    return {"alert_rules": text.strip()}


def _read_alert_every(user: Any, seconds: int) -> dict[str, Any]:
    if seconds and not MIN_ALERT_SECONDS <= seconds <= MAX_ALERT_SECONDS:
        raise ValueError("Choose never, or one hour to 30 days.")
    return {"alert_every": timedelta(seconds=seconds)}


def _read_clock(user: Any, hours: int) -> dict[str, Any]:
    if hours not in Profile.ClockHours.values:
        raise ValueError("Choose 12 or 24 hours.")
    return {"clock_hours": hours}


def _read_week_start(user: Any, day: int) -> dict[str, Any]:
    if day not in Profile.WeekStart.values:
        raise ValueError("Choose Monday, Saturday or Sunday.")
    return {"week_start": day}


_READERS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "timezone": _read_zone,
    "topic": _read_place("topic", "channel"),
    "failure_topic": _read_place("failure_topic", "alert_channel"),
    "runner": _read_runner,
    "alert_rules": _read_rules,
    "quiet_hours": lambda user, text: {"quiet_hours": read_quiet_hours(text)},
    "alert_every": _read_alert_every,
    "clock_hours": _read_clock,
    "week_start": _read_week_start,
}


UNALERTED = "You are not alerted when a job fails: no topic or channel is set."
MEND = "cronty preferences --failure-topic TOPIC"
MAX_NAMED = 5


def why_unalerted(profile: Profile) -> str:
    """Return that a person is not alerted, or an empty text."""
    return "" if profile.alert_place else UNALERTED


def people_unalerted() -> list[str]:
    """Return the names of people whose jobs nobody is alerted of."""
    nowhere = Q(owner__cronty_profile__failure_topic="", owner__cronty_profile__alert_channel="")
    jobs = Job.objects.kept().without_notices().filter(is_active("owner__"), status=Job.Status.PENDING)
    jobs = jobs.filter(Q(owner__cronty_profile=None) | nowhere, alerts="")
    name = f"owner__{get_user_model().USERNAME_FIELD}"
    return list(jobs.order_by(name).values_list(name, flat=True).distinct()[:MAX_NAMED])
