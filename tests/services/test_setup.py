"""What a new installation needs."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from schedules import engine
from schedules.models import Execution, Job, Profile
from schedules.services.setup import FIRST_USER, SYSTEM_USER, ensure_first_user, ensure_system_job
from tests.factories import ClusterFactory, UserFactory

pytestmark = pytest.mark.django_db


def test_first_user_gets_a_password_that_is_told_once(settings):
    settings.CRONTY_ADMIN_PASSWORD = ""

    login = ensure_first_user()

    user = User.objects.get()
    assert (login.name, user.username) == (FIRST_USER, FIRST_USER)
    assert user.is_superuser
    assert len(login.password) >= 16
    assert user.check_password(login.password)
    assert Profile.objects.get().user == user
    assert ensure_first_user() is None


def test_password_from_the_settings_is_used_and_not_told(settings):
    settings.CRONTY_ADMIN_PASSWORD = "opens the door"

    login = ensure_first_user()

    assert login.password is None
    assert User.objects.get().check_password("opens the door")


def test_nobody_is_made_where_there_is_a_superuser():
    UserFactory(is_superuser=True)

    assert ensure_first_user() is None
    assert User.objects.count() == 1


def test_ordinary_person_called_admin_stays_ordinary():
    ordinary = UserFactory(username="admin")

    first = ensure_first_user()

    assert first is not None
    assert first.name == "admin2"
    ordinary.refresh_from_db()
    assert not ordinary.is_superuser
    assert ensure_first_user() is None


def test_system_job_is_made_once_and_belongs_to_nobody_who_can_log_in(now):
    job = ensure_system_job()

    assert ensure_system_job() == job
    owner = User.objects.get()
    assert (job.owner, owner.username) == (owner, SYSTEM_USER)
    assert not owner.has_usable_password()
    assert (job.task, job.status) == ("prune_history", "pending")
    assert now < job.next_run_at <= now + timedelta(days=1)
    assert job.next_run_at.strftime("%H:%M") == "03:15"


def test_system_job_follows_the_zone_of_the_installation(settings, now):
    settings.CRONTY_TIME_ZONE = "Asia/Tokyo"

    assert ensure_system_job().next_run_at.strftime("%H:%M") == "18:15"


def test_system_job_is_not_made_again_while_it_is_paused_or_deleted(now):
    ensure_system_job()
    Job.objects.update(status="paused", next_run_at=None, deleted_at=now)

    ensure_system_job()

    assert Job.objects.count() == 1


def test_system_job_fires_like_any_other():
    job = ensure_system_job()
    worker = ClusterFactory()

    (claim,) = engine.claim_runs(worker.pk, job.next_run_at, 10)

    assert (claim.task, Execution.objects.get().job) == ("prune_history", job)
