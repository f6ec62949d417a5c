"""The page that pauses everything until a date."""

import time_machine
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock
from schedules.models import Job, Question
from schedules.services import Actor
from schedules.services.jobs.pause_all import what_goes_on
from tests.factories import ExecutionFactory, JobFactory
from tests.web.html import html_of


@time_machine.travel("2026-11-15T10:00:00Z", tick=False)
def test_everything_is_paused_until_a_date_and_resumed_by_one_button(
    web: Client, owner: User, stranger: User
):
    JobFactory.create_batch(2, owner=owner)
    other = JobFactory(owner=stranger)
    assert "2 jobs of yours run" in html_of(web.get("/jobs/pause-all/"))

    web.post("/jobs/pause-all/", {"verb": "pause", "until": "2026-11-20 9:00"})
    page = html_of(web.get("/jobs/pause-all/"))

    assert "2 jobs paused." in page
    assert "2 jobs paused together" in page
    assert "They go on by themselves" in page
    assert Job.objects.get(pk=other.pk).status == "pending"

    web.post("/jobs/pause-all/", {"verb": "resume"})
    assert Job.objects.filter(status="pending").count() == 3


def test_page_and_answers_say_what_goes_on(web: Client, owner: User):
    JobFactory(owner=owner)
    assert "Not paused" not in html_of(web.get("/jobs/pause-all/"))
    ended = {"owner": owner, "once": True, "next_run_at": None}
    held = JobFactory(status="running", **ended)
    done, answered = JobFactory.create_batch(2, status="completed", **ended)
    ExecutionFactory(job=held, status="queued", finished_at=None)
    for job, due_at in ((done, clock.now()), (answered, None)):
        Question.objects.create(
            execution=ExecutionFactory(job=job), job=job, asked_at=clock.now(), due_at=due_at
        )
    said = (
        "Not paused: 1 job whose last run is due or held by quiet hours and the reminders of 1 job "
        "that already ran."
    )

    web.post("/jobs/pause-all/", {"verb": "pause"})

    assert said in html_of(web.get("/jobs/pause-all/"))
    assert what_goes_on(Actor(owner)) == said


def test_end_that_cannot_be_read_pauses_nothing_and_is_kept(web: Client, owner: User):
    JobFactory(owner=owner)

    answer = web.post("/jobs/pause-all/", {"verb": "pause", "until": "when pigs fly"})

    assert answer.status_code == 422
    assert 'value="when pigs fly"' in html_of(answer)
    assert Job.objects.get().status == "pending"
