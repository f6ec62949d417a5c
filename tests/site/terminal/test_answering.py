"""Answers from the terminal."""

import shlex

import pytest

from schedules import clock
from schedules.models import Job, Question
from tests.documented import blocks
from tests.factories import ExecutionFactory, reminder_job

pytestmark = pytest.mark.django_db


def ask(job: Job) -> None:
    run = ExecutionFactory(job=job)
    Question.objects.create(execution=run, job=job, asked_at=clock.now())


def test_commands_of_the_page_work_in_their_order(cronty):
    (block,) = blocks("docs/how-to/answers.md", "sh")
    add, *commands = [line for line in block.lines if line.strip()]

    assert cronty(*shlex.split(add)[1:]).code == 0
    ask(Job.objects.get(name="Pills"))
    statuses = []
    for command in commands:
        said = cronty(*shlex.split(command)[1:])
        assert said.code == 0, said
        statuses.append(Question.objects.get().status)

    assert statuses == ["snoozed", "done", "snoozed"]


def test_answer_says_what_came_of_it(cronty, owner):
    job = reminder_job(owner=owner, name="Pills")
    ask(job)

    said = cronty("done", str(job.pk))

    assert said.out.startswith(f"Pills: Done by {owner.username}, after ")
    shown = cronty("show", str(job.pk), "--json").json
    assert shown["reminder"].startswith("Done by")
    assert shown["reminder_state"]["answered_by"] == owner.username


def test_job_that_has_asked_nothing_is_refused(cronty, owner):
    job = reminder_job(owner=owner)

    said = cronty("done", str(job.pk))

    assert (said.code, "has asked for an answer" in said.err) == (1, True)


def test_unreadable_time_is_refused(cronty, owner):
    job = reminder_job(owner=owner)
    ask(job)

    assert cronty("snooze", str(job.pk), "someday").code != 0
    assert Question.objects.get().status == "open"
