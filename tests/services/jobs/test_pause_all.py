"""A pause of everything, and its end in one step."""

from datetime import timedelta

import pytest

from schedules import clock, services
from schedules.models import Event, Job
from schedules.services.jobs import pause_all
from schedules.services.permissions import Actor
from tests.factories import JobFactory, UserFactory, staff_with

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def actor() -> Actor:
    return Actor(UserFactory(), Event.Door.WEB)


def test_everything_is_paused_until_a_date_and_resumed_in_one_step(actor):
    running = JobFactory.create_batch(3, owner=actor.user)
    alone = JobFactory(owner=actor.user, paused=True, pause_reason="Broken")
    ended, other = JobFactory(owner=actor.user, ended=True), JobFactory()
    until = clock.now() + DAY

    paused = pause_all.pause_everything(actor, until)

    assert (set(paused.jobs), paused.refused) == (set(running), [])
    assert set(Job.objects.filter(paused_until=until, status="paused")) == set(running)
    assert Job.objects.get(pk=other.pk).status == "pending"

    services.resume(actor, running[0].public_id)
    services.pause(actor, running[0].public_id, reason="Later")
    resumed = pause_all.resume_everything(actor)

    assert {(job.pk, job.status) for job in resumed.jobs} == {(job.pk, "pending") for job in running[1:]}
    left = Job.objects.filter(owner=actor.user, status="paused")
    assert set(left) == {alone, running[0]}
    assert Job.objects.get(pk=ended.pk).status == "completed"


def test_jobs_of_others_and_of_cronty_go_on_also_for_staff():
    staff = Actor(staff_with("change_job", "view_job"), Event.Door.WEB)
    mine, other = JobFactory(owner=staff.user), JobFactory()
    pruning = JobFactory(owner=staff.user, task="prune_history")

    pause_all.pause_everything(staff, None)

    assert [Job.objects.get(pk=job.pk).status for job in (mine, other, pruning)] == [
        "paused",
        "pending",
        "pending",
    ]


def test_end_in_the_past_changes_nothing(actor):
    JobFactory(owner=actor.user)

    changed = pause_all.pause_everything(actor, clock.now() - DAY)

    assert (list(changed.jobs), len(changed.refused)) == ([], 1)
    assert Job.objects.get().status == "pending"
