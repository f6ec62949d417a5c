"""Profiles: the settings and keys of a user."""

import functools
import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import Q


@functools.cache
def is_active(path: str = "") -> Q:
    """Match active users; without an `is_active` column, every user is active."""
    columns = {field.name for field in get_user_model()._meta.get_fields()}
    return Q(**{f"{path}is_active": True}) if "is_active" in columns else Q()


def _random_key() -> str:
    return secrets.token_urlsafe(32)


class Profile(models.Model):
    """The settings and keys that Cronty stores for a user."""

    class ClockHours(models.IntegerChoices):
        TWENTY_FOUR = 24, "24-hour (17:30)"
        TWELVE = 12, "12-hour (5:30 PM)"

    class WeekStart(models.IntegerChoices):
        """The first day of a week in the calendar, as `date.weekday` counts."""

        MONDAY = 0
        SUNDAY = 6
        SATURDAY = 5

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_profile"
    )
    timezone = models.CharField(max_length=64, blank=True)
    topic = models.CharField(max_length=64, blank=True, default="")
    failure_topic = models.CharField(max_length=64, blank=True)
    # Works on the prompts that name no runner; empty for the default of the installation.
    runner = models.CharField(max_length=100, blank=True, default="")
    # The channel of notifications that name none, instead of the topic.
    channel = models.CharField(max_length=40, blank=True, default="")
    alert_channel = models.CharField(max_length=40, blank=True, default="")
    # What alerts are not wanted, like "not late, not recovered".
    alert_rules = models.CharField(max_length=200, blank=True, default="")
    # When notifications, reminders and alerts wait, like 22:00-07:00.
    quiet_hours = models.CharField(max_length=11, blank=True, default="")
    # How often somebody is reminded of what lasts; zero for never.
    alert_every = models.DurationField(default=timedelta(days=1))
    clock_hours = models.PositiveSmallIntegerField(choices=ClockHours, default=ClockHours.TWENTY_FOUR)
    week_start = models.PositiveSmallIntegerField(choices=WeekStart, default=WeekStart.MONDAY)
    signing_key = models.CharField(max_length=64, default=_random_key)
    calendar_key = models.CharField(max_length=64, default=_random_key, unique=True)
    # Plain, because every ping looks it up, and it permits nothing but pings.
    ping_key = models.CharField(max_length=64, null=True, editable=False, unique=True)  # noqa: DJ001  (NULL is not unique)
    # About when an agent last asked for prompts that are due.
    prompts_asked_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return str(self.user)

    @property
    def zone(self) -> str:
        return self.timezone or settings.CRONTY_TIME_ZONE

    @property
    def default_place(self) -> dict[str, str]:
        """Where notifications without a place go, as arguments of the task: a channel or a topic."""
        if self.channel:
            return {"channel": self.channel}
        return {"topic": self.default_topic} if self.default_topic else {}

    def with_default_place(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name; a notification that names no place gets the default one."""
        # The second positional argument of notify is its topic.
        if task != "notify" or len(args) > 1 or kwargs.keys() & {"topic", "channel"}:
            return dict(kwargs)
        return self.default_place | dict(kwargs)

    @property
    def alert_place(self) -> dict[str, str]:
        """Where alerts go, as arguments of the task notify; empty if nowhere."""
        if self.alert_channel:
            return {"channel": self.alert_channel}
        return {"topic": self.failure_topic} if self.failure_topic else {}

    @property
    def default_topic(self) -> str:
        """The topic of notifications that name none, or an empty text."""
        return self.topic or self.failure_topic
