"""Quotas of an owner: active jobs, their planned runs, jobs and runs started per minute, and tokens."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Sum

from schedules.models import Execution, Installation, Job, Profile, Token
from schedules.models.job_queries import is_public_id
from schedules.result import Code, Err

RATE_WINDOW = timedelta(minutes=1)


def wait_for_turn(profile: Profile) -> None:
    """Lock the owner's profile, so that requests of the same owner run one after the other."""
    if connection.features.has_select_for_update:
        # SQLite has no row locks and needs none: only one transaction writes at a time.
        Profile.objects.select_for_update().values_list("pk").get(pk=profile.pk)


def wait_for_installation() -> Installation:
    """Lock the installation's row, so that requests about what has no owner run one after the other."""
    return Installation.objects.select_for_update().get_or_create(pk=Installation.ONLY)[0]


def wait_for_owner(job_id: str) -> None:
    """Lock the profile of a job's owner; always lock the job after it, never before, to avoid deadlocks."""
    if connection.features.has_select_for_update and is_public_id(job_id):
        # Whatever the state of the job, which may change before it is locked.
        owner = Job.objects.filter(public_id=job_id).values("owner")[:1]
        Profile.objects.select_for_update().filter(user=owner).values_list("pk").first()


def creation_problem(profile: Profile, added: float, now: datetime, *, jobs: int = 1) -> Err | None:
    """Lock the owner's profile; return an error if the owner may not create so many jobs now."""
    wait_for_turn(profile)
    if refusal := room_problem(profile, jobs, added):
        return refusal
    limit = settings.CRONTY_MAX_CREATES_PER_MINUTE
    if jobs > limit:
        return Err(Code.TOO_MANY_NEW_JOBS, limit=limit)
    made = Job.objects.owned_by(profile.user_id).without_notices()
    newest = made.filter(created_at__gt=now - RATE_WINDOW).order_by("-created_at")
    # There is room again once all but the newest `limit - jobs` are a minute old.
    full_since = newest.values_list("created_at", flat=True)[limit - jobs : limit - jobs + 1].first()
    return _rate_refusal(Code.JOBS_CREATED_TOO_FAST, limit, full_since, now) if full_since else None


def room_problem(profile: Profile, jobs: int, added: float) -> Err | None:
    """Return an error if the owner may not have this many more active jobs and planned runs.

    The caller has locked the profile. Jobs from a file have no limit per minute: whoever applies files operates this
    installation.
    """
    # Counting may stop at the limit: with that many jobs, a new one is refused whatever they plan.
    limit = settings.CRONTY_MAX_ACTIVE_JOBS
    active, planned = active_jobs(profile.user_id, limit)
    if active + jobs > limit:
        return Err(Code.TOO_MANY_JOBS, limit=limit)
    return _too_many_runs(planned, added)


def reschedule_problem(job: Job, added: float) -> Err | None:
    """Return an error if a new schedule of a job would plan too many runs per minute for its owner."""
    if added <= 0 or not settings.CRONTY_MAX_RUNS_PER_MINUTE:
        return None
    wait_for_turn(Profile.objects.get(user=job.owner_id))
    return _too_many_runs(active_jobs(job.owner_id)[1], added)


def active_jobs(owner_id: Any, limit: int | None = None) -> tuple[int, float]:
    """Return how many active jobs an owner has, and the runs per minute that they plan, paused ones included.

    With a limit, stop at that many jobs.
    """
    active = Job.objects.owned_by(owner_id).active().order_by()[:limit]
    totals = active.aggregate(count=Count("*"), planned=Sum("runs_per_minute"))
    return totals["count"], totals["planned"] or 0.0


def _too_many_runs(planned: float, added: float) -> Err | None:
    limit = settings.CRONTY_MAX_RUNS_PER_MINUTE
    # A little more, because the sum of fractions is not exact.
    if not limit or added <= 0 or planned + added <= limit * (1 + 1e-9):
        return None
    return Err(Code.TOO_MANY_PLANNED_RUNS, limit=limit, planned=planned, added=added)


def run_problem(owner_id: int, now: datetime) -> Err | None:
    """Return an error if too many runs of the owner's jobs were started by hand in the last minute."""
    manual = {"owner": owner_id, "cause": Execution.Cause.MANUAL, "job__isnull": False}
    return _run_rate_problem(Code.RUNS_STARTED_TOO_FAST, now, **manual)


def trigger_problem(owner_id: int, now: datetime) -> Err | None:
    """Return an error if trigger addresses started too many runs of the owner's jobs in the last minute."""
    triggered = {"owner": owner_id, "cause": Execution.Cause.TRIGGER, "job__isnull": False}
    return _run_rate_problem(Code.RUNS_STARTED_TOO_FAST, now, **triggered)


def push_problem(owner_id: int, now: datetime) -> Err | None:
    """Return an error if the owner sent too many notifications without a job in the last minute."""
    pushes = {"owner": owner_id, "cause": Execution.Cause.MANUAL, "job__isnull": True}
    return _run_rate_problem(Code.NOTIFICATIONS_SENT_TOO_FAST, now, **pushes)


def _run_rate_problem(code: Code, now: datetime, **conditions: Any) -> Err | None:
    limit = settings.CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE
    recent = Execution.objects.filter(**conditions, scheduled_for__gt=now - RATE_WINDOW)
    newest = recent.order_by("-scheduled_for").values_list("scheduled_for", flat=True)
    full_since: datetime | None = newest[limit - 1 : limit].first()
    return _rate_refusal(code, limit, full_since, now) if full_since else None


def _rate_refusal(code: Code, limit: int, full_since: datetime, now: datetime) -> Err:
    return Err(code, limit=limit, retry_after=(full_since + RATE_WINDOW - now).total_seconds())


def token_problem(user: Any) -> Err | None:
    """Return an error if a user has as many tokens as allowed."""
    limit = settings.CRONTY_MAX_TOKENS
    if Token.objects.filter(owner=user, revoked_at=None).count() < limit:
        return None
    return Err(Code.TOO_MANY_TOKENS, limit=limit)
