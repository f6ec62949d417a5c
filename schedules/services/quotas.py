"""Quotas: how many active jobs an owner may have, and how many they may create per minute."""

import math
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from schedules.models import Job, Profile
from schedules.result import Code, Err

RATE_WINDOW = timedelta(minutes=1)


def wait_for_turn(profile: Profile) -> None:
    """Lock the owner's profile, so that requests of the same owner run one after the other."""
    if connection.features.has_select_for_update:
        # SQLite has no row locks and needs none: only one transaction writes at a time.
        Profile.objects.select_for_update().values_list("pk").get(pk=profile.pk)


def quota_problem(profile: Profile) -> Err | None:
    """Return an error if the owner has reached the quota of active jobs."""
    if Job.objects.owned_by(profile.user_id).active().count() < settings.CRONTY_MAX_ACTIVE_JOBS:
        return None
    return Err(
        Code.QUOTA,
        f"at most {settings.CRONTY_MAX_ACTIVE_JOBS:,} active jobs; cancel or delete some first",
    )


def rate_problem(profile: Profile, now: datetime) -> Err | None:
    """Return an error if the owner created too many jobs within the last minute."""
    most = settings.CRONTY_MAX_CREATES_PER_MINUTE
    made_by_hand = Job.objects.owned_by(profile.user_id).without_notices()
    if made_by_hand.filter(created_at__gt=now - RATE_WINDOW).count() < most:
        return None
    # There is room again once the oldest of the last `most` jobs is a minute old.
    newest = made_by_hand.order_by("-created_at")
    full_since: datetime = newest.values_list("created_at", flat=True)[most - 1]
    wait = (full_since + RATE_WINDOW - now).total_seconds()
    return Err(
        Code.TOO_FAST,
        f"at most {settings.CRONTY_MAX_CREATES_PER_MINUTE} new jobs a minute; try again in {math.ceil(wait)} seconds",
        retry_after=wait,
    )
