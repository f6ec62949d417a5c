"""Initial data of an installation: the first superuser, the system jobs, and a job that checks the cluster."""

import secrets
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction

from schedules import clock
from schedules.models import Calendar, Event, Job
from schedules.models.job_texts import searchable_text, skeleton
from schedules.models.jobs import new_public_id
from schedules.services.installation.local_server import is_product
from schedules.services.jobs.states import restore, resume
from schedules.services.people.profiles import SYSTEM_USER, profile_of
from schedules.services.permissions import Actor
from schedules.services.quotas import wait_for_turn

FIRST_USER = "admin"
PRUNING = "prune_history"
CHECK = "check_cluster"
CALENDARS = "read_calendar_addresses"


@dataclass(frozen=True, slots=True)
class FirstUser:
    """The first superuser's login; the password is set only if it was generated."""

    name: str
    password: str | None


def ensure_first_user() -> FirstUser | None:
    """Create the first superuser unless there is one; the password comes from the settings, or is generated.

    Return None if none is created. A project that embeds the app has its own users, and its user model may have no
    permissions, or required fields that only the project can fill in.
    """
    if not is_product():
        return None
    users = get_user_model()
    if not hasattr(users, "is_superuser") or set(users.REQUIRED_FIELDS) - {users.get_email_field_name()}:
        return None
    if users._default_manager.filter(is_superuser=True).exists():
        return None
    password = settings.CRONTY_ADMIN_PASSWORD or secrets.token_urlsafe(12)
    # An ordinary user who has this name must not become a superuser.
    names = chain([FIRST_USER], (f"{FIRST_USER}{number}" for number in count(2)))
    name = next(
        name for name in names if not users._default_manager.filter(**{users.USERNAME_FIELD: name}).exists()
    )
    required = dict.fromkeys(users.REQUIRED_FIELDS, "")
    user = users._default_manager.create_superuser(
        **{users.USERNAME_FIELD: name}, **required, password=password
    )
    profile_of(user)
    return FirstUser(user.get_username(), None if settings.CRONTY_ADMIN_PASSWORD else password)


def ensure_system_job() -> Job:
    """Return the nightly pruning job; create, restore or resume it if needed.

    Called at every start, so that pruning goes on even after the job was deleted, paused or cancelled.
    """
    if Calendar.objects.exclude(sealed="").exists():
        ensure_calendar_job()
    return _ensure("Prune the history", PRUNING, "15 3 * * *")


def ensure_calendar_job() -> Job:
    """Return the job that reads calendar addresses every 15 minutes; create it if needed."""
    return _ensure("Read calendars", CALENDARS, "*/15 * * * *")


def _ensure(name: str, task: str, cron: str) -> Job:
    with transaction.atomic():
        owner = _system_user()
        # Wait, so that only one of several clusters that start together creates the job.
        wait_for_turn(profile_of(owner))
        jobs = Job.objects.owned_by(owner.pk).filter(task=task).order_by("-pk")
        actor = Actor(owner, Event.Door.ENGINE)
        existing = next(filter(None, (_rearmed(actor, job) for job in jobs)), None)
        return existing or _create_repeating(owner, name, task, cron)


def create_check() -> Job:
    """Create a job that is due now and does nothing, to check that a cluster fires jobs."""
    with transaction.atomic():
        owner = _system_user()
        profile_of(owner)
        job = _system_job(owner, name="Check the cluster", task=CHECK)
        job.trigger_type, job.run_at, job.next_run_at = Job.TriggerType.ONCE, job.created_at, job.created_at
        _insert(job)
        return job


def _system_user() -> AbstractBaseUser:
    users = get_user_model()
    name: dict[str, Any] = {users.USERNAME_FIELD: SYSTEM_USER}
    user, is_new = users._default_manager.get_or_create(**name)
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def _rearmed(actor: Actor, job: Job) -> Job | None:
    """Restore and resume a job as needed; return None if it has ended."""
    if job.status not in Job.ACTIVE:
        return None
    if job.deleted_at:
        restore(actor, job.public_id)
        job.refresh_from_db()
    if job.status == Job.Status.PAUSED:
        resume(actor, job.public_id)
        job.refresh_from_db()
    return job if job.deleted_at is None and job.status == Job.Status.PENDING else None


def _create_repeating(owner: AbstractBaseUser, name: str, task: str, cron: str) -> Job:
    job = _system_job(owner, name=name, task=task)
    job.trigger_type, job.cron = Job.TriggerType.CRON, cron
    # Never pause it: pages show the failure, and the next run may succeed.
    job.pause_after_failures = 0
    job.next_run_at = job.next_slot(job.created_at)
    _insert(job)
    return job


def _system_job(owner: AbstractBaseUser, *, name: str, task: str) -> Job:
    now = clock.now()
    return Job(
        owner_id=owner.pk,
        public_id=new_public_id("job", now),
        name=name,
        name_skeleton=skeleton(name),
        task=task,
        timezone=settings.CRONTY_TIME_ZONE,
        made_by=SYSTEM_USER,
        created_at=now,
        updated_at=now,
    )


def _insert(job: Job) -> None:
    job.search_text = searchable_text(job)
    job.save(force_insert=True)
