"""Answers that agents give for the user, and reminders that they ask for."""

import pytest

from schedules import clock
from schedules.models import Job, Question
from tests.factories import ExecutionFactory, reminder_job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(owner) -> Job:
    job = reminder_job(owner=owner, once=True, status="completed", next_run_at=None)
    run = ExecutionFactory(job=job)
    Question.objects.create(execution=run, job=job, asked_at=clock.now())
    return job


def test_agent_says_done_for_the_user_also_of_a_job_that_has_ended(olga, job):
    out = olga.call("update_job", job_id=job.public_id, answer="done")

    assert out["reminder"].startswith("Done by ")
    assert olga.call("job_status", job_id=job.public_id)["reminder"] == out["reminder"]


def test_agent_snoozes_in_words(olga, job):
    assert olga.call("update_job", job_id=job.public_id, answer="snooze 1h")["reminder"].startswith(
        "Snoozed by "
    )


@pytest.mark.parametrize("answer", ["", "perhaps", "done tomorrow", "snooze someday"])
def test_unknown_answer_names_the_known_ones_and_changes_nothing(olga, job, answer):
    out = olga.call("update_job", job_id=job.public_id, answer=answer)

    assert "error" in out
    assert Question.objects.get().status == "open"


def test_agent_sets_reminders_until_done(olga):
    out = olga.call(
        "schedule_notification",
        message="Take the pills",
        notification_topic="home",
        delay="1h",
        ask="every 10m 5 times",
    )

    assert out["success"]
    assert Job.objects.get().kwargs["ask"] == "every 10m 5 times"


def test_unreadable_reminders_are_refused(olga):
    out = olga.call(
        "schedule_notification", message="Pills", notification_topic="home", delay="1h", ask="all the time"
    )

    assert not out["success"]
    assert "not understood" in out["error"]
    assert not Job.objects.exists()
