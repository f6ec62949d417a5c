"""Quotas of an owner: active jobs, their planned runs, jobs and runs started per minute, and tokens.

Counting takes longer the more jobs an owner has, so the profile keeps upper bounds: the last count plus everything
created since. Jobs are counted again only if a new one does not fit these bounds, or if they are old. Whatever adds
jobs or planned runs in another way drops the bounds.
"""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Sum

from schedules.models import Execution, Installation, Job, Profile, Token
from schedules.models.job_queries import is_public_id
from schedules.result import Code, Err

RATE_WINDOW = timedelta(minutes=1)
# Active jobs are counted again after this time: the bounds leave out Cronty's own notices, and rows that other code
# inserts.
_RECOUNT_AFTER = timedelta(hours=1)
_BOUNDS = ["counted_at", "active_jobs", "planned_runs", "created_since", "created_jobs"]


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
    """Count new jobs, and lock the owner's profile; return an error if the owner may not create so many now.

    The profile may have changed since it was read.
    """
    if _fits_bounds(profile, added, now, jobs):
        return None
    wait_for_turn(profile)
    profile.refresh_from_db(fields=_BOUNDS)
    if _fits_bounds(profile, added, now, jobs):
        return None
    active, planned, counted_at = profile.active_jobs, profile.planned_runs, profile.counted_at
    is_old = counted_at is None or not timedelta(0) <= now - counted_at <= _RECOUNT_AFTER
    if is_old or _quota_refusal(active, planned, added, jobs):
        # Counting may stop at the limit: with that many jobs, a new one is refused whatever they plan.
        active, planned = active_jobs(profile.user_id, settings.CRONTY_MAX_ACTIVE_JOBS)
        counted_at = now
    if refusal := _quota_refusal(active, planned, added, jobs):
        return refusal
    since = now - RATE_WINDOW
    recent = Job.objects.owned_by(profile.user_id).without_notices().filter(created_at__gt=since)
    created = recent.order_by().count()
    if created + jobs > settings.CRONTY_MAX_CREATES_PER_MINUTE:
        return _creation_rate_refusal(profile.user_id, now, jobs)
    _save_bounds(
        profile,
        counted_at=counted_at,
        active_jobs=active + jobs,
        planned_runs=planned + added,
        created_since=now,
        created_jobs=created + jobs,
    )
    return None


def _fits_bounds(profile: Profile, added: float, now: datetime, jobs: int = 1) -> bool:
    """Add new jobs to the bounds; return False if they do not fit, or the bounds are old or have changed."""
    since = profile.created_since
    if since is None or not timedelta(0) <= now - since <= RATE_WINDOW:
        return False
    return (
        profile.created_jobs + jobs <= settings.CRONTY_MAX_CREATES_PER_MINUTE
        and _quota_refusal(profile.active_jobs, profile.planned_runs, added, jobs) is None
        and _save_bounds(
            profile,
            active_jobs=profile.active_jobs + jobs,
            created_jobs=profile.created_jobs + jobs,
            planned_runs=profile.planned_runs + added,
        )
    )


def _save_bounds(profile: Profile, **bounds: Any) -> bool:
    """Save bounds, unless they have changed since they were read: every new job changes `created_jobs`."""
    as_read = {"created_since": profile.created_since, "created_jobs": profile.created_jobs}
    is_saved = Profile.objects.filter(pk=profile.pk, **as_read).update(**bounds) == 1
    if is_saved:
        for name, value in bounds.items():
            setattr(profile, name, value)
    return is_saved


def _drop_bounds(profile: Profile) -> None:
    """Make the next new job count all jobs again."""
    Profile.objects.filter(pk=profile.pk).update(counted_at=None, created_since=None)


def bulk_problem(profile: Profile, jobs: int, added: float) -> Err | None:
    """Return an error if the owner may not have this many more active jobs and planned runs.

    The caller has locked the profile. Jobs from a file have no limit per minute: whoever applies files operates this
    installation.
    """
    active, planned = active_jobs(profile.user_id)
    if refusal := _quota_refusal(active, planned, added, jobs):
        return refusal
    _drop_bounds(profile)
    return None


def restore_problem(profile: Profile, added: float, now: datetime) -> Err | None:
    """Return an error if the owner may not have one more active job with its planned runs.

    The caller has locked the profile. The bounds count a restored job as a new one, which is too many for the last
    minute, but only until jobs are counted again.
    """
    if _fits_bounds(profile, added, now):
        return None
    if refusal := _quota_refusal(*active_jobs(profile.user_id, settings.CRONTY_MAX_ACTIVE_JOBS), added):
        return refusal
    _drop_bounds(profile)
    return None


def reschedule_problem(job: Job, added: float) -> Err | None:
    """Return an error if a new schedule of a job would plan too many runs per minute for its owner."""
    if added <= 0 or not settings.CRONTY_MAX_RUNS_PER_MINUTE:
        return None
    profile = Profile.objects.get(user=job.owner_id)
    wait_for_turn(profile)
    _, planned = active_jobs(job.owner_id)
    if refusal := _too_many_runs(planned, added):
        return refusal
    _drop_bounds(profile)
    return None


def active_jobs(owner_id: Any, limit: int | None = None) -> tuple[int, float]:
    """Return how many active jobs an owner has, and the runs per minute that they plan, paused ones included.

    With a limit, stop at that many jobs.
    """
    active = Job.objects.owned_by(owner_id).active().order_by()[:limit]
    totals = active.aggregate(count=Count("*"), planned=Sum("runs_per_minute"))
    return totals["count"], totals["planned"] or 0.0


def _quota_refusal(active: int, planned: float, added: float, jobs: int = 1) -> Err | None:
    limit = settings.CRONTY_MAX_ACTIVE_JOBS
    if active + jobs > limit:
        return Err(Code.TOO_MANY_JOBS, limit=limit)
    return _too_many_runs(planned, added)


def _too_many_runs(planned: float, added: float) -> Err | None:
    limit = settings.CRONTY_MAX_RUNS_PER_MINUTE
    # A little more, because the sum of fractions is not exact.
    if not limit or added <= 0 or planned + added <= limit * (1 + 1e-9):
        return None
    return Err(Code.TOO_MANY_PLANNED_RUNS, limit=limit, planned=planned, added=added)


def _creation_rate_refusal(owner_id: Any, now: datetime, jobs: int) -> Err:
    limit = settings.CRONTY_MAX_CREATES_PER_MINUTE
    if jobs > limit:
        return Err(Code.TOO_MANY_NEW_JOBS, limit=limit)
    # There is room again once all but the newest `limit - jobs` are a minute old.
    newest = Job.objects.owned_by(owner_id).without_notices().order_by("-created_at")
    full_since: datetime = newest.values_list("created_at", flat=True)[limit - jobs]
    return _rate_refusal(Code.JOBS_CREATED_TOO_FAST, limit, full_since, now)


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
