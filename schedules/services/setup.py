"""What a new installation needs: the first person, and the job that keeps its own history short."""

import secrets
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction

from schedules import clock
from schedules.models import Job
from schedules.models.jobs import new_public_id
from schedules.services.people import profile_of

FIRST_USER = "admin"
SYSTEM_USER = "cronty"


@dataclass(frozen=True, slots=True)
class FirstUser:
    """The first person's login; the password is known only when it was just made up."""

    name: str
    password: str | None


def ensure_first_user() -> FirstUser | None:
    """Create the first superuser unless there is one; the password comes from the settings, or is generated.

    A user model without permissions, or with required fields that only the project can fill in, gets none.
    """
    users = get_user_model()
    if not hasattr(users, "is_superuser") or set(users.REQUIRED_FIELDS) - {users.get_email_field_name()}:
        return None
    if users._default_manager.filter(is_superuser=True).exists():
        return None
    password = settings.CRONTY_ADMIN_PASSWORD or secrets.token_urlsafe(12)
    # An ordinary person of that name must not become one.
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
    """Make the nightly job that keeps the history within its limits, owned by Cronty itself."""
    with transaction.atomic():
        users = get_user_model()
        name: dict[str, Any] = {users.USERNAME_FIELD: SYSTEM_USER}
        owner, is_new = users._default_manager.get_or_create(**name)
        if is_new:
            owner.set_unusable_password()
            owner.save(update_fields=["password"])
        profile_of(owner)
        job = Job.objects.owned_by(owner).filter(task="prune_history").first()
        return job or _prune_nightly(owner)


def _prune_nightly(owner: AbstractBaseUser) -> Job:
    now = clock.now()
    job = Job(
        owner_id=owner.pk,
        public_id=new_public_id("job", now),
        name="Prune the history",
        task="prune_history",
        trigger_type=Job.TriggerType.CRON,
        cron="15 3 * * *",
        timezone=settings.CRONTY_TIME_ZONE,
        made_by=SYSTEM_USER,
        created_at=now,
        updated_at=now,
    )
    job.next_run_at = job.next_slot(now)
    job.save(force_insert=True)
    return job
