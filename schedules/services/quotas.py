"""Quotas: how many active jobs an owner may have, and how many they may create per minute."""

import math
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from schedules.models import Job, Profile
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err

RATE_WINDOW = timedelta(minutes=1)


def wait_for_turn(profile: Profile) -> None:
    """Lock the owner's profile, so that requests of the same owner run one after the other."""
    if connection.features.has_select_for_update:
        # SQLite has no row locks and needs none: only one transaction writes at a time.
        Profile.objects.select_for_update().values_list("pk").get(pk=profile.pk)


def quota_problem(profile: Profile) -> Err | None:
    """Return an error if the owner has reached the quota of active jobs."""
    most = settings.CRONTY_MAX_ACTIVE_JOBS
    if not _has_as_many(Job.objects.owned_by(profile.user_id).active(), most):
        return None
    return Err(Code.QUOTA, f"at most {most:,} active jobs; cancel or delete some first")


def rate_problem(profile: Profile, now: datetime) -> Err | None:
    """Return an error if the owner created too many jobs within the last minute."""
    most = settings.CRONTY_MAX_CREATES_PER_MINUTE
    recent = Job.objects.filter(owner=profile.user_id, created_at__gt=now - RATE_WINDOW)
    # Count notices too at first: nearly always there are too few jobs even with them, and the query is faster.
    if not _has_as_many(recent, most) or not _has_as_many(recent.without_notices(), most):
        return None
    # There is room again once the oldest of the last `most` jobs is a minute old.
    newest = Job.objects.owned_by(profile.user_id).without_notices().order_by("-created_at")
    full_since: datetime = newest.values_list("created_at", flat=True)[most - 1]
    wait = (full_since + RATE_WINDOW - now).total_seconds()
    return Err(
        Code.TOO_FAST,
        f"at most {settings.CRONTY_MAX_CREATES_PER_MINUTE} new jobs a minute; try again in {math.ceil(wait)} seconds",
        retry_after=wait,
    )


def _has_as_many(jobs: JobQuerySet, number: int) -> bool:
    """Return whether there are at least that many; unlike a count, this stops at the number."""
    return number <= 0 or jobs[number - 1 : number].exists()
