"""The page that pauses everything until a date."""

import time_machine
from django.contrib.auth.models import User
from django.test import Client

from schedules.models import Job
from tests.factories import JobFactory
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


def test_end_that_cannot_be_read_pauses_nothing_and_is_kept(web: Client, owner: User):
    JobFactory(owner=owner)

    answer = web.post("/jobs/pause-all/", {"verb": "pause", "until": "when pigs fly"})

    assert answer.status_code == 422
    assert 'value="when pigs fly"' in html_of(answer)
    assert Job.objects.get().status == "pending"


def test_page_without_jobs_says_so(web: Client):
    assert "Nothing runs" in html_of(web.get("/jobs/pause-all/"))
