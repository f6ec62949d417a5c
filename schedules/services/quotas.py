"""Quotas of an owner: active jobs, their planned runs, jobs and runs by hand per minute, and tokens.

Counting takes longer the more jobs an owner has, so a new job is first checked against upper limits in the profile: what
was counted before, plus everything created since. Only if those are too high, or old, is it counted again. Whatever adds
to the numbers in another way than by a new job has the jobs counted again, too.
"""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Sum

from schedules.models import Execution, Installation, Job, Profile, Token
from schedules.models.job_queries import is_public_id
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err

RATE_WINDOW = timedelta(minutes=1)
# For how long the active jobs are not counted again: Cronty's own notices, and rows that other code inserts, are not
# added to the upper limits.
COUNTED_FOR = timedelta(hours=1)
_UPPER_LIMITS = ["counted_at", "active_jobs", "planned_runs", "created_since", "created_jobs"]


def wait_for_turn(profile: Profile) -> None:
    """Lock the owner's profile, so that requests of the same owner run one after the other."""
    if connection.features.has_select_for_update:
        # SQLite has no row locks and needs none: only one transaction writes at a time.
        Profile.objects.select_for_update().values_list("pk").get(pk=profile.pk)


def wait_for_installation() -> Installation:
    """Lock the row of the installation, so that requests about what belongs to nobody run one after the other."""
    return Installation.objects.select_for_update().get_or_create(pk=Installation.ONLY)[0]


def wait_for_owner(job_id: str) -> None:
    """Lock the profile of a job's owner; lock the job after it, never before, or two may wait for each other."""
    if connection.features.has_select_for_update and is_public_id(job_id):
        # Whatever the state of the job, which may change before it is locked.
        owner = Job.objects.filter(public_id=job_id).values("owner")[:1]
        Profile.objects.select_for_update().filter(user=owner).values_list("pk").first()


def creation_problem(profile: Profile, added: float, now: datetime, *, jobs: int = 1) -> Err | None:
    """Return an error if the owner may not create so many jobs now, else count them; the owner's row is locked then.

    The profile may have changed since it was read.
    """
    if _fits_upper_limits(profile, added, now, jobs):
        return None
    wait_for_turn(profile)
    profile.refresh_from_db(fields=_UPPER_LIMITS)
    if _fits_upper_limits(profile, added, now, jobs):
        return None
    active, planned, counted_at = profile.active_jobs, profile.planned_runs, profile.counted_at
    is_old = counted_at is None or not timedelta(0) <= now - counted_at <= COUNTED_FOR
    if is_old or _quota_refusal(active, planned, added, jobs):
        # With as many jobs as allowed, it is refused whatever they plan.
        active, planned = active_jobs(profile.user_id, settings.CRONTY_MAX_ACTIVE_JOBS)
        counted_at = now
    if refusal := _quota_refusal(active, planned, added, jobs):
        return refusal
    created = _created_jobs(profile.user_id, now).count()
    if created + jobs > settings.CRONTY_MAX_CREATES_PER_MINUTE:
        return _rate_refusal(profile.user_id, now, jobs)
    _keep(
        profile,
        counted_at=counted_at,
        active_jobs=active + jobs,
        planned_runs=planned + added,
        created_since=now,
        created_jobs=created + jobs,
    )
    return None


def _fits_upper_limits(profile: Profile, added: float, now: datetime, jobs: int = 1) -> bool:
    """Return whether new jobs fit the upper limits as they were read and still are; if so, count them."""
    since = profile.created_since
    if since is None or not timedelta(0) <= now - since <= RATE_WINDOW:
        return False
    return (
        profile.created_jobs + jobs <= settings.CRONTY_MAX_CREATES_PER_MINUTE
        and _quota_refusal(profile.active_jobs, profile.planned_runs, added, jobs) is None
        and _keep(
            profile,
            active_jobs=profile.active_jobs + jobs,
            created_jobs=profile.created_jobs + jobs,
            planned_runs=profile.planned_runs + added,
        )
    )


def _keep(profile: Profile, **limits: Any) -> bool:
    """Write upper limits, unless they have changed since they were read: every new job changes `created_jobs`."""
    as_read = {"created_since": profile.created_since, "created_jobs": profile.created_jobs}
    is_kept = Profile.objects.filter(pk=profile.pk, **as_read).update(**limits) == 1
    if is_kept:
        for name, value in limits.items():
            setattr(profile, name, value)
    return is_kept


def _count_again(profile: Profile) -> None:
    """Have the next new job count all others."""
    Profile.objects.filter(pk=profile.pk).update(counted_at=None, created_since=None)


def bulk_problem(profile: Profile, jobs: int, added: float) -> Err | None:
    """Return an error if the owner may not have this many more active jobs and runs per minute.

    The caller has locked the profile. What a file creates at once is not limited per minute: whoever applies files
    operates this installation.
    """
    active, planned = active_jobs(profile.user_id)
    if refusal := _quota_refusal(active, planned, added, jobs):
        return refusal
    _count_again(profile)
    return None


def restore_problem(profile: Profile, added: float, now: datetime) -> Err | None:
    """Return an error if the owner has reached the quota of active jobs, or would plan too many runs per minute.

    The caller has locked the profile. The upper limits take a restored job for a new one. That is too much for the jobs
    created within a minute, but only until these are counted.
    """
    if _fits_upper_limits(profile, added, now):
        return None
    if refusal := _quota_refusal(*active_jobs(profile.user_id, settings.CRONTY_MAX_ACTIVE_JOBS), added):
        return refusal
    _count_again(profile)
    return None


def planned_runs(owner_id: Any) -> float:
    """Return how many runs per minute the schedules of an owner's active jobs plan, paused ones included."""
    return active_jobs(owner_id)[1]


def active_jobs(owner_id: Any, most: int | None = None) -> tuple[int, float]:
    """Return the number of an owner's active jobs, and of the runs per minute that their schedules plan.

    With a limit, stop at that many jobs.
    """
    active = Job.objects.owned_by(owner_id).active().order_by()[:most]
    used = active.aggregate(count=Count("*"), planned=Sum("runs_per_minute"))
    return used["count"], used["planned"] or 0.0


def _created_jobs(owner_id: Any, now: datetime) -> JobQuerySet:
    """Return the jobs that an owner created within the last minute, without the notices that Cronty created."""
    return Job.objects.filter(owner=owner_id, created_at__gt=now - RATE_WINDOW).without_notices().order_by()


def _quota_refusal(active: int, planned: float, added: float, jobs: int = 1) -> Err | None:
    most = settings.CRONTY_MAX_ACTIVE_JOBS
    if active + jobs > most:
        return Err(Code.TOO_MANY_JOBS, limit=most)
    return _too_many_runs(planned, added)


def reschedule_problem(job: Job, added: float) -> Err | None:
    """Return an error if a change of a job's schedule would plan too many runs per minute for its owner."""
    if added <= 0 or not settings.CRONTY_MAX_RUNS_PER_MINUTE:
        return None
    profile = Profile.objects.get(user=job.owner_id)
    wait_for_turn(profile)
    if refusal := _too_many_runs(planned_runs(job.owner_id), added):
        return refusal
    _count_again(profile)
    return None


def _too_many_runs(planned: float, added: float) -> Err | None:
    most = settings.CRONTY_MAX_RUNS_PER_MINUTE
    # A little more, because the sum of fractions is not exact.
    if not most or added <= 0 or planned + added <= most * (1 + 1e-9):
        return None
    return Err(Code.TOO_MANY_PLANNED_RUNS, limit=most, planned=planned, added=added)


def _rate_refusal(owner_id: Any, now: datetime, jobs: int) -> Err:
    most = settings.CRONTY_MAX_CREATES_PER_MINUTE
    if jobs > most:
        return Err(Code.TOO_MANY_NEW_JOBS, limit=most)
    # There is room again once all but the newest `most - jobs` are a minute old.
    newest = Job.objects.owned_by(owner_id).without_notices().order_by("-created_at")
    full_since: datetime = newest.values_list("created_at", flat=True)[most - jobs]
    wait = (full_since + RATE_WINDOW - now).total_seconds()
    return Err(Code.JOBS_CREATED_TOO_FAST, limit=most, retry_after=wait)


def run_problem(owner_id: int, now: datetime) -> Err | None:
    """Return an error if too many runs of the owner's jobs were started by hand within the last minute."""
    return _by_hand_problem(owner_id, now, Code.RUNS_STARTED_TOO_FAST)


def trigger_problem(owner_id: int, now: datetime) -> Err | None:
    """Return an error if trigger addresses have started too many runs of the owner within the last minute."""
    return _by_hand_problem(owner_id, now, Code.RUNS_STARTED_TOO_FAST, Execution.Cause.TRIGGER)


def push_problem(owner_id: int, now: datetime) -> Err | None:
    """Return an error if the owner has sent too many notifications at once within the last minute."""
    return _by_hand_problem(owner_id, now, Code.NOTIFICATIONS_SENT_TOO_FAST)


def _by_hand_problem(
    owner_id: int, now: datetime, code: Code, cause: Execution.Cause = Execution.Cause.MANUAL
) -> Err | None:
    most = settings.CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE
    by_hand = Execution.objects.filter(
        owner=owner_id,
        cause=cause,
        scheduled_for__gt=now - RATE_WINDOW,
        job__isnull=code == Code.NOTIFICATIONS_SENT_TOO_FAST,
    )
    newest = by_hand.order_by("-scheduled_for").values_list("scheduled_for", flat=True)
    full_since: datetime | None = newest[most - 1 : most].first()
    if full_since is None:
        return None
    wait = (full_since + RATE_WINDOW - now).total_seconds()
    return Err(code, limit=most, retry_after=wait)


def token_problem(user: Any) -> Err | None:
    """Return an error if a user has as many tokens as allowed."""
    most = settings.CRONTY_MAX_TOKENS
    if Token.objects.filter(owner=user, revoked_at=None).count() < most:
        return None
    return Err(Code.TOO_MANY_TOKENS, limit=most)
