"""How much one owner may have, and how fast."""

import math
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import DateTimeField

from schedules.models import Job, Profile
from schedules.models.jobs import NOTICE_PREFIX
from schedules.models.prepared import Given, Prepared, counted
from schedules.result import Code, Err

RATE_WINDOW = timedelta(minutes=1)

_LOCK = Prepared(lambda: Profile.objects.select_for_update().filter(pk=Given("profile")).values_list("pk"))
_ACTIVE = Prepared(
    lambda: Job.objects.owned_by(Given("owner")).active().order_by().values_list(counted(), flat=True)
)
_MADE = Prepared(
    lambda: (
        Job.objects.owned_by(Given("owner"))
        .exclude(public_id__startswith=f"{NOTICE_PREFIX}_")
        .filter(created_at__gt=Given("since", DateTimeField()))
        .order_by()
        .values_list(counted(), flat=True)
    )
)


def wait_for_turn(profile: Profile) -> None:
    """Let the owner's callers make jobs one after the other, for the rest of the transaction."""
    if connection.features.has_select_for_update:
        # SQLite has none and needs none: there, whoever has begun a transaction is alone.
        _LOCK.first(profile=profile.pk)


def quota_problem(profile: Profile) -> Err | None:
    """Refuse a further active job over the owner's quota."""
    active = _ACTIVE.first(owner=profile.user_id) or 0
    if active < settings.CRONTY_MAX_ACTIVE_JOBS:
        return None
    return Err(
        Code.QUOTA,
        f"at most {settings.CRONTY_MAX_ACTIVE_JOBS:,} active jobs; cancel or delete some first",
    )


def rate_problem(profile: Profile, now: datetime) -> Err | None:
    """Refuse a further new job when the owner made too many within the last minute."""
    most = settings.CRONTY_MAX_CREATES_PER_MINUTE
    made = _MADE.first(owner=profile.user_id, since=now - RATE_WINDOW) or 0
    if made < most:
        return None
    # The minute is full until the job made as many jobs ago as are allowed is older than that.
    made_by_hand = Job.objects.owned_by(profile.user_id).exclude(public_id__startswith=f"{NOTICE_PREFIX}_")
    newest = made_by_hand.order_by("-created_at")
    full_since: datetime = newest.values_list("created_at", flat=True)[most - 1]
    wait = (full_since + RATE_WINDOW - now).total_seconds()
    return Err(
        Code.TOO_FAST,
        f"at most {settings.CRONTY_MAX_CREATES_PER_MINUTE} new jobs a minute; try again in {math.ceil(wait)} seconds",
        retry_after=wait,
    )
