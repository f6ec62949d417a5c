"""A person's preferences, changed by agents or in the admin; an event records it, because they act for somebody else."""

from typing import Any

from django.db import transaction
from django.db.models import Count

from schedules import clock
from schedules.models import Profile
from schedules.result import Ok, Result
from schedules.services.people.channels import place_of
from schedules.services.people.profiles import profile_of, update_profile
from schedules.services.people.setting_events import record_setting
from schedules.services.permissions import Actor
from schedules.services.quotas import wait_for_turn


def set_preferences(
    actor: Actor,
    *,
    timezone: str | None = None,
    topic: str | None = None,
    failure_topic: str | None = None,
) -> Result[Profile]:
    """Change the time zone or a topic of the actor's user; an empty text removes it."""
    fields = {
        "timezone": timezone,
        **_place("topic", "channel", actor, topic),
        **_place("failure_topic", "alert_channel", actor, failure_topic),
    }
    changes: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    with transaction.atomic():
        wait_for_turn(profile_of(actor.user))
        profile = Profile.objects.get(user=actor.user.pk)
        before = {name: getattr(profile, name) for name in changes}
        result = update_profile(actor.user, **changes)
        if isinstance(result, Ok):
            subject = ", ".join(changes)
            record_setting(actor, "set preferences", subject, clock.now(), before=before, after=changes)
    return result


def other_zones(actor: Actor, zone: str, most: int = 3) -> list[tuple[str, int]]:
    """Return the other zones of the actor's active jobs, and how many jobs each has, most frequent first."""
    elsewhere = actor.jobs().active().exclude(timezone=zone).exclude(made_by="cronty")
    counted = elsewhere.order_by().values_list("timezone").annotate(count=Count("pk")).order_by("-count")
    return list(counted[:most])


def _place(topic_column: str, channel_column: str, actor: Actor, text: str | None) -> dict[str, str]:
    """Return the columns for a text that names a channel or a topic; one replaces the other."""
    if text is None:
        return {}
    place = place_of(actor.user.pk, text) if text else {}
    if "channel" in place:
        return {channel_column: place["channel"]}
    return {
        topic_column: text,
        **({channel_column: ""} if getattr(actor.read_profile(), channel_column) else {}),
    }
