"""The first user and the system job of a new installation."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from schedules import engine, services
from schedules.models import Event, Execution, Job, Profile
from schedules.result import Err, Ok
from schedules.services import Actor
from schedules.services.installation.setup import (
    FIRST_USER,
    create_check,
    ensure_first_user,
    ensure_system_job,
)
from schedules.services.jobs.references import public_id_of
from schedules.services.people.profiles import SYSTEM_USER
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


def test_system_job_is_found_by_its_name():
    job = ensure_system_job()

    assert public_id_of(Job.objects.all(), "Prune the history") == Ok(job.public_id)


def test_system_job_uses_the_time_zone_of_the_installation(settings, now):
    settings.CRONTY_TIME_ZONE = "Asia/Tokyo"

    assert ensure_system_job().next_run_at.strftime("%H:%M") == "18:15"


@pytest.mark.parametrize("is_paused", [False, True], ids=["active", "paused"])
@pytest.mark.parametrize("door", [Event.Door.WEB, Event.Door.ADMIN, Event.Door.MCP, Event.Door.CODE])
def test_nobody_can_edit_cancel_or_trash_the_system_job(operator, now, door, is_paused):
    job = ensure_system_job()
    owner = Actor(job.owner, door)
    if is_paused:
        # Agents may not even pause it.
        assert isinstance(services.pause(Actor(job.owner, Event.Door.WEB), job.public_id), Ok)
    for actor in (Actor(operator, door), owner):
        refusals = [verb(actor, job.public_id) for verb in (services.cancel, services.delete)]
        edited = services.edit(actor, job.public_id, task="tests.ping")

        assert all(isinstance(refusal, Err) for refusal in (*refusals, edited))
    job.refresh_from_db()
    assert (job.status, job.deleted_at, job.task) == (
        "paused" if is_paused else "pending",
        None,
        "prune_history",
    )


def test_finished_check_of_the_cluster_can_be_trashed(operator, now):
    job = create_check()
    Job.objects.update(status=Job.Status.COMPLETED, next_run_at=None)

    assert isinstance(services.delete(Actor(operator, Event.Door.WEB), job.public_id), Ok)


@pytest.mark.parametrize("is_trashed", [False, True], ids=["kept", "trashed"])
@pytest.mark.parametrize("is_paused", [False, True], ids=["active", "paused"])
def test_stopped_system_job_is_rearmed_at_the_next_start(operator, now, is_paused, is_trashed):
    job = ensure_system_job()
    if is_paused:
        assert isinstance(services.pause(Actor(operator, Event.Door.ADMIN), job.public_id), Ok)
    # As an older version could leave it.
    Job.objects.update(deleted_at=now if is_trashed else None)

    ensure_system_job()

    job = Job.objects.get()
    assert (job.status, job.deleted_at) == ("pending", None)
    assert now < job.next_run_at <= now + timedelta(days=1)
    if is_paused or is_trashed:
        assert Event.objects.first().actor == SYSTEM_USER


@pytest.mark.parametrize("is_trashed", [False, True], ids=["kept", "trashed"])
def test_cancelled_system_job_is_replaced_at_the_next_start(now, is_trashed):
    old = ensure_system_job()
    # As an older version could leave it.
    Job.objects.update(status="cancelled", next_run_at=None, deleted_at=now if is_trashed else None)

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
