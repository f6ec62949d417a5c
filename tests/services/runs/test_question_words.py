"""Where people and agents read what became of a question."""

import pytest

from schedules import clock, services
from schedules.models import Question
from schedules.services.runs.question_words import reminder_words
from tests.factories import ExecutionFactory, JobFactory, reminder_job

pytestmark = pytest.mark.django_db


def test_why_says_who_answered(owner, actor):
    job = reminder_job(owner=owner)
    run = ExecutionFactory(job=job, attempt=1)
    Question.objects.create(execution=run, job=job, asked_at=clock.now())
    services.answer(actor, job.public_id, "done")

    explained = services.why(actor, job.public_id, None, clock.now()).value

    assert f"Done by {owner.username}, after " in explained.explanation


def test_why_explains_the_slot_and_not_a_reminder_that_came_later(owner, actor):
    job = reminder_job(owner=owner)
    run = ExecutionFactory(job=job, attempt=1)
    ExecutionFactory(job=job, cause="reminder", status="failed")

    assert services.why(actor, job.public_id, None, clock.now()).value.execution == run


def test_job_that_has_asked_nothing_has_no_words():
    assert reminder_words(reminder_job()) == reminder_words(JobFactory()) == ""
