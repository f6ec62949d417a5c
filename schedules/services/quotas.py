"""How much one owner may have, and how fast."""

from datetime import datetime, timedelta

from django.conf import settings

from schedules.models import Job, Profile
from schedules.result import Code, Err


def quota_problem(profile: Profile) -> Err | None:
    """Refuse a further active job over the owner's quota; callers queue up behind the profile's lock."""
    Profile.objects.select_for_update().only("pk").get(pk=profile.pk)
    if Job.objects.owned_by(profile.user_id).active().count() < settings.CRONTY_MAX_ACTIVE_JOBS:
        return None
    return Err(
        Code.QUOTA,
        f"at most {settings.CRONTY_MAX_ACTIVE_JOBS:,} active jobs; cancel or delete some first",
    )


def rate_problem(profile: Profile, now: datetime) -> Err | None:
    """Refuse a further new job when the owner made too many within the last minute."""
    window, most = timedelta(minutes=1), settings.CRONTY_MAX_CREATES_PER_MINUTE
    newest = (
        Job.objects.owned_by(profile.user_id).order_by("-created_at").values_list("created_at", flat=True)
    )
    # As many jobs ago as are allowed: only if that was within the minute, the minute is full.
    full_since = next(iter(newest[most - 1 : most]), None)
    if full_since is None or full_since <= now - window:
        return None
    wait = (full_since + window - now).total_seconds()
    return Err(
        Code.TOO_FAST,
        f"at most {settings.CRONTY_MAX_CREATES_PER_MINUTE} new jobs a minute; try again in {wait:.0f} seconds",
        retry_after=wait,
    )
