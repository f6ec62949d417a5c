"""The first user and the system job of a new installation."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from schedules import engine, services
from schedules.models import Event, Execution, Job, Profile
from schedules.result import Ok
from schedules.services import Actor
from schedules.services.setup import FIRST_USER, SYSTEM_USER, ensure_first_user, ensure_system_job
from tests.factories import ClusterFactory, UserFactory

pytestmark = pytest.mark.django_db


def test_no_superuser_is_added_to_a_project_that_embeds_the_app(settings):
    del settings.CRONTY_DATA

    assert ensure_first_user() is None
    assert not User.objects.exists()


def test_password_of_the_first_user_is_returned_once(settings):
    settings.CRONTY_ADMIN_PASSWORD = ""

    login = ensure_first_user()

    user = User.objects.get()
    assert (login.name, user.username) == (FIRST_USER, FIRST_USER)
    assert user.is_superuser
    assert len(login.password) >= 16
    assert user.check_password(login.password)
    assert Profile.objects.get().user == user
    assert ensure_first_user() is None


def test_password_from_the_settings_is_used_but_not_returned(settings):
    settings.CRONTY_ADMIN_PASSWORD = "opens the door"

    login = ensure_first_user()

    assert login.password is None
    assert User.objects.get().check_password("opens the door")


def test_no_user_is_created_if_there_is_a_superuser():
    UserFactory(is_superuser=True)

    assert ensure_first_user() is None
    assert User.objects.count() == 1


def test_existing_user_named_admin_is_not_promoted():
    ordinary = UserFactory(username="admin")

    first = ensure_first_user()

    assert first is not None
    assert first.name == "admin2"
    ordinary.refresh_from_db()
    assert not ordinary.is_superuser
    assert ensure_first_user() is None


def test_system_job_is_created_once_and_its_owner_cannot_log_in(now):
    job = ensure_system_job()

    assert ensure_system_job() == job
    owner = User.objects.get()
    assert (job.owner, owner.username) == (owner, SYSTEM_USER)
    assert not owner.has_usable_password()
    assert (job.task, job.status) == ("prune_history", "pending")
    assert now < job.next_run_at <= now + timedelta(days=1)
    assert job.next_run_at.strftime("%H:%M") == "03:15"


def test_system_job_uses_the_time_zone_of_the_installation(settings, now):
    settings.CRONTY_TIME_ZONE = "Asia/Tokyo"

    assert ensure_system_job().next_run_at.strftime("%H:%M") == "18:15"


@pytest.mark.parametrize(
    "verbs",
    [
        pytest.param([services.delete], id="trashed"),
        pytest.param([services.pause], id="paused"),
        pytest.param([services.pause, services.delete], id="paused and trashed"),
    ],
)
def test_stopped_system_job_is_rearmed_at_the_next_start(operator, now, verbs):
    job = ensure_system_job()
    for verb in verbs:
        assert isinstance(verb(Actor(operator, Event.Door.ADMIN), job.public_id), Ok)

    ensure_system_job()

    job = Job.objects.get()
    assert (job.status, job.deleted_at) == ("pending", None)
    assert now < job.next_run_at <= now + timedelta(days=1)
    assert Event.objects.first().actor == SYSTEM_USER


@pytest.mark.parametrize("is_trashed", [False, True], ids=["kept", "trashed"])
def test_cancelled_system_job_is_replaced_at_the_next_start(operator, now, is_trashed):
    old = ensure_system_job()
    staff = Actor(operator, Event.Door.ADMIN)
    services.cancel(staff, old.public_id)
    if is_trashed:
        services.delete(staff, old.public_id)

    new = ensure_system_job()

    assert new != old
    assert ensure_system_job() == new
    old.refresh_from_db()
    assert (new.status, old.status) == ("pending", "cancelled")


def test_system_job_with_an_invalid_schedule_is_replaced(now):
    old = ensure_system_job()
    Job.objects.update(status="paused", next_run_at=None, cron="nonsense")

    new = ensure_system_job()

    assert new != old
    assert new.next_run_at is not None


def test_system_job_is_never_paused_after_failures():
    assert ensure_system_job().pause_after_failures == 0


def test_system_job_fires_like_any_other_job():
    job = ensure_system_job()
    cluster = ClusterFactory()

    (claim,) = engine.claim_runs(cluster.pk, job.next_run_at, 10)

    assert (claim.task, Execution.objects.get().job) == ("prune_history", job)
