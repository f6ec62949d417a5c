"""Moves from a later moment on: the job that makes them, and what it does when it runs."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest

from schedules import clock
from schedules.models import Event, Job
from schedules.services.jobs.moves import Move, move_later
from schedules.tasks import registry
from schedules.tasks.interface import Run, Skip
from tests.factories import JobFactory

FIRST = datetime(2030, 12, 1, tzinfo=UTC)


@pytest.fixture
def jobs(owner):
    return [JobFactory(owner=owner, name=name, cron="30 8 * * *", timezone="Europe/Berlin") for name in "AB"]


@pytest.fixture
def mover(actor, jobs):
    move = Move(timezone="Europe/Lisbon", at=time(9, 5), shift=None, add_tags=["moved"])
    return move_later(actor, jobs, move, FIRST).value.job


def run(job, **changed):
    """Run the job as a worker does, with these arguments instead of its own."""
    run = replace(Run.without_job(clock.now(), job.owner_id, 60), job_name=job.name)
    return registry.get(job.task).call(run, [], job.kwargs | changed)


def schedules():
    return set(Job.objects.filter(name__in="AB").values_list("cron", "timezone"))


def test_nothing_changes_before_the_moment(mover):
    assert (mover.run_at, mover.status, schedules()) == (FIRST, "pending", {("30 8 * * *", "Europe/Berlin")})


def test_run_moves_the_jobs_and_records_who_did_it(mover):
    assert run(mover) == {"moved": 2}

    assert schedules() == {("5 9 * * *", "Europe/Lisbon")}
    assert {tuple(job.tags) for job in Job.objects.filter(name__in="AB")} == {("moved",)}
    assert set(Event.objects.filter(verb="edit").values_list("actor", "door")) == {("Move 2 jobs", "engine")}


def test_shift_and_topic_arrive_as_they_were_asked_for(actor, owner):
    job = JobFactory(
        owner=owner, task="notify", kwargs={"message": "Tea", "topic": "home"}, cron="30 8 * * *"
    )
    mover = move_later(actor, [job], Move(shift=timedelta(minutes=-45), topic="work"), FIRST).value.job

    run(mover)

    job.refresh_from_db()
    assert (job.cron, job.kwargs["topic"]) == ("45 7 * * *", "work")


def test_jobs_that_cannot_be_moved_any_more_are_named(mover, jobs):
    Job.objects.filter(pk=jobs[0].pk).update(cron="*/5 * * * *")

    assert run(mover) == {
        "moved": 1,
        "left": {jobs[0].public_id: "it has no single time of day, or would pass midnight"},
    }


def test_run_is_skipped_if_all_jobs_are_gone_or_moved_already(mover, jobs):
    Job.objects.filter(pk=jobs[0].pk).update(deleted_at=clock.now())
    Job.objects.filter(pk=jobs[1].pk).update(cron="5 9 * * *", timezone="Europe/Lisbon", tags=["moved"])

    with pytest.raises(Skip, match="gone"):
        run(mover)


def test_jobs_of_somebody_else_are_never_moved(mover, stranger):
    other = JobFactory(owner=stranger, name="Sam's", cron="30 8 * * *")

    with pytest.raises(Skip):
        run(mover, jobs=[other.public_id])

    assert Job.objects.get(pk=other.pk).cron == "30 8 * * *"
