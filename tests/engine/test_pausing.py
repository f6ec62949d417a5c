"""A job that only ever fails is paused, and its owner is told."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.models import Event, Execution, Job
from tests.engine.conftest import NOW, begin, ledger, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def failing(**fields):
    defaults = {
        "cron": "0 * * * *",
        "next_run_at": NOW + HOUR,
        "pause_after_failures": 3,
        "failure_streak": 2,
    }
    return JobFactory(**defaults | fields)


def fail(worker, job, **fields):
    engine.settle(worker.pk, [outcome_of(begin(worker, job), "failed", error="no route", **fields)])
    job.refresh_from_db()


def test_job_is_paused_by_its_last_allowed_failure(worker):
    job = failing()

    fail(worker, job)

    assert (job.status, job.next_run_at, job.paused_at) == ("paused", None, NOW)
    assert job.pause_reason == "Paused after 3 failures in a row."
    assert job.revision == 2
    event = Event.objects.get()
    assert (event.verb, event.door, event.job) == ("pause", "engine", job)
    assert event.after == {"reason": job.pause_reason, "error": "no route"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"failure_streak": 1}, id="not yet"),
        pytest.param({"pause_after_failures": 0, "failure_streak": 99}, id="never"),
        pytest.param({"deleted_at": NOW}, id="in the trash"),
        pytest.param({"status": "cancelled", "next_run_at": None}, id="cancelled"),
    ],
)
def test_other_jobs_are_not_paused(worker, fields):
    job = failing(**fields)

    fail(worker, job)

    assert job.status == fields.get("status", "pending")
    assert not Event.objects.exists()


def test_success_begins_the_streak_anew(worker):
    job = failing()

    engine.settle(worker.pk, [outcome_of(begin(worker, job))])

    job.refresh_from_db()
    assert (job.status, job.failure_streak) == ("pending", 0)


def test_slots_due_at_that_moment_are_accounted_for(worker):
    job = failing(next_run_at=NOW - HOUR)

    fail(worker, job)

    skipped = Execution.objects.get(status="skipped")
    assert (skipped.scheduled_for, skipped.reason) == (NOW - HOUR, "The job was paused before it could run.")


def test_runs_in_line_are_taken_back(worker):
    job = failing(overlap="queue")
    held = ExecutionFactory(job=job, status="queued", scheduled_for=NOW - HOUR)
    retry = ExecutionFactory(
        job=job, status="queued", scheduled_for=NOW - 2 * HOUR, attempt=1, available_at=NOW + HOUR
    )
    by_hand = ExecutionFactory(job=job, status="queued", cause="manual", available_at=NOW)

    fail(worker, job)

    for row, status in ((held, "cancelled"), (retry, "failed"), (by_hand, "queued")):
        row.refresh_from_db()
        assert row.status == status


def test_slots_of_such_a_pause_are_told_when_it_ends(worker):
    job = failing()
    fail(worker, job, at=NOW)

    assert engine.rearm(job, NOW + 3 * HOUR)

    assert ledger(job) == [("failed", NOW), ("skipped", NOW + HOUR)]
    assert Execution.objects.get(status="skipped").slots == 3
    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.failure_streak) == ("pending", NOW + 4 * HOUR, 0)


@pytest.mark.parametrize("topic", ["", "alarm"])
def test_owner_with_a_topic_is_told(worker, topic):
    job = failing(name="Backup")
    job.owner.profile.failure_topic = topic
    job.owner.profile.save()

    fail(worker, job)

    notice = Job.objects.filter(task="notify").first()
    assert bool(notice) == bool(topic)
    if notice:
        notice.full_clean()
        assert (notice.owner, notice.trigger_type, notice.next_run_at) == (job.owner, "once", NOW)
        assert notice.kwargs["topic"] == "alarm"
        assert notice.kwargs["message"] == "Backup: Paused after 3 failures in a row.\nno route"
        (claim,) = engine.claim(worker.pk, NOW, 10)
        assert claim.task == "notify"


def test_failing_notice_does_not_breed_notices(worker):
    job = failing(once=True, cron="", run_at=NOW, status="running", next_run_at=None)
    job.owner.profile.failure_topic = "alarm"
    job.owner.profile.save()

    fail(worker, job)

    assert job.status == "failed"
    assert Job.objects.count() == 1
