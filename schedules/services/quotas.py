"""Quotas of an owner: active jobs, their planned runs, jobs and runs by hand per minute, and tokens."""

import math
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Sum

from schedules.models import Execution, Job, Profile, Token
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err

RATE_WINDOW = timedelta(minutes=1)


def wait_for_turn(profile: Profile) -> None:
    """Lock the owner's profile, so that requests of the same owner run one after the other."""
    if connection.features.has_select_for_update:
        # SQLite has no row locks and needs none: only one transaction writes at a time.
        Profile.objects.select_for_update().values_list("pk").get(pk=profile.pk)


def quota_problem(profile: Profile, added: float = 0.0) -> Err | None:
    """Return an error if the owner has reached the quota of active jobs, or would plan too many runs per minute."""
    most, active = settings.CRONTY_MAX_ACTIVE_JOBS, Job.objects.owned_by(profile.user_id).active().order_by()
    planned = 0.0
    if added > 0 and settings.CRONTY_MAX_RUNS_PER_MINUTE:
        used = active.aggregate(count=Count("pk"), planned=Sum("runs_per_minute"))
        is_full, planned = used["count"] >= most, used["planned"] or 0.0
    else:
        is_full = _has_as_many(active, most)
    if is_full:
        return Err(
            Code.QUOTA,
            f"at most {most:,} active jobs; cancel or delete some first",
        )
    return _too_many_runs(planned, added)


def planned_runs(owner_id: Any) -> float:
    """Return how many runs per minute the schedules of an owner's active jobs plan, paused ones included."""
    active = Job.objects.owned_by(owner_id).active()
    return active.aggregate(planned=Sum("runs_per_minute"))["planned"] or 0.0


def reschedule_problem(job: Job, added: float) -> Err | None:
    """Return an error if a change of a job's schedule would plan too many runs per minute for its owner."""
    if added <= 0 or not settings.CRONTY_MAX_RUNS_PER_MINUTE:
        return None
    wait_for_turn(Profile.objects.get(user=job.owner_id))
    return _too_many_runs(planned_runs(job.owner_id), added)


def _too_many_runs(planned: float, added: float) -> Err | None:
    most = settings.CRONTY_MAX_RUNS_PER_MINUTE
    # A little more, because the sum of fractions is not exact.
    if not most or added <= 0 or planned + added <= most * (1 + 1e-9):
        return None
    return Err(
        Code.QUOTA,
        f"at most {most:,} planned runs a minute: this schedule would add {added:,.4g} to the {planned:,.4g} of your"
        " active jobs; choose a longer interval, or cancel or delete some jobs first",
    )


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


def run_problem(owner_id: int, now: datetime) -> Err | None:
    """Return an error if too many runs of the owner's jobs were started by hand within the last minute."""
    most = settings.CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE
    by_hand = Execution.objects.filter(
        owner=owner_id, cause=Execution.Cause.MANUAL, scheduled_for__gt=now - RATE_WINDOW
    )
    newest = by_hand.order_by("-scheduled_for").values_list("scheduled_for", flat=True)
    full_since: datetime | None = newest[most - 1 : most].first()
    if full_since is None:
        return None
    wait = (full_since + RATE_WINDOW - now).total_seconds()
    return Err(
        Code.TOO_FAST,
        f"at most {most} runs by hand a minute; try again in {math.ceil(wait)} seconds",
        retry_after=wait,
    )


def token_problem(user: Any) -> Err | None:
    """Return an error if a user has as many tokens as allowed."""
    most = settings.CRONTY_MAX_TOKENS
    if Token.objects.filter(owner=user, revoked_at=None).count() < most:
        return None
    return Err(Code.QUOTA, f"at most {most} tokens; revoke one first")


def _has_as_many(jobs: JobQuerySet, number: int) -> bool:
    """Return whether there are at least that many; unlike a count, this stops at the number."""
    return number <= 0 or jobs[number - 1 : number].exists()
