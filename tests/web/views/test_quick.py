"""The box on the jobs page that creates a reminder from one line."""

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client

from schedules.models import Job
from schedules.models.people import Profile
from tests.web.html import html_of

LINE = "take out the bins every second tuesday 18:00"


@pytest.fixture
def topic(owner: User) -> None:
    Profile.objects.update_or_create(user=owner, defaults={"topic": "my-phone", "timezone": "UTC"})


@time_machine.travel("2026-11-15T10:00:00Z", tick=False)
@pytest.mark.usefixtures("topic")
def test_line_creates_a_reminder_for_the_topic_and_undo_deletes_it(web: Client):
    page = html_of(web.post("/jobs/quick/", {"line": LINE}, follow=True))

    job = Job.objects.get()
    assert (job.name, job.task) == ("Take out the bins", "notify")
    assert job.kwargs == {"message": "Take out the bins", "topic": "my-phone"}
    assert f"{job.next_run_at:%a %d %b %H:%M}" == "Tue 17 Nov 18:00"
    assert "Created &quot;Take out the bins&quot;. First run Tue 17 Nov 18:00." in page
    web.post("/activity/undo/", {"verb": "create", "job": job.public_id})
    assert not Job.objects.kept().filter(status="pending").exists()


@time_machine.travel("2026-11-15T10:00:00Z", tick=False)
@pytest.mark.usefixtures("topic")
def test_pages_say_when_a_reminder_in_quiet_hours_is_sent(web: Client):
    Profile.objects.update(quiet_hours="17:00-20:00")
    said = "a notification due on Tue 17 Nov 2026 18:00 is held and sent at 20:00."

    assert said in html_of(web.get("/jobs/quick/", {"line": LINE}))
    assert said in html_of(web.post("/jobs/quick/", {"line": LINE}, follow=True))
    assert said in html_of(web.get(f"/jobs/{Job.objects.get().public_id}/"))


@pytest.mark.usefixtures("topic")
def test_preview_shows_name_schedule_and_next_runs_and_creates_nothing(web: Client):
    page = html_of(web.get("/jobs/quick/", {"line": LINE}))

    assert "Take out the bins" in page
    assert "Every 2 weeks on Tuesday at 18:00" in page
    assert page.count("<time") == 3
    assert not Job.objects.exists()


@pytest.mark.usefixtures("topic")
def test_unclear_line_says_why_and_stays_in_the_box(web: Client):
    page = html_of(web.post("/jobs/quick/", {"line": "bins every day at 3"}, follow=True))

    assert "Morning or evening?" in page
    assert 'value="bins every day at 3"' in page
    assert not Job.objects.exists()


@time_machine.travel("2026-11-15T10:00:00Z", tick=False)
@pytest.mark.usefixtures("topic")
def test_line_may_ask_until_it_is_done(web: Client):
    line = "pills every weekday 8:30, ask every 10m"

    assert "asked every 10 minutes, at most 10 times" in html_of(web.get("/jobs/quick/", {"line": line}))
    web.post("/jobs/quick/", {"line": line})

    job = Job.objects.get()
    assert (job.name, job.cron) == ("Pills", "30 8 * * 1-5")
    assert job.kwargs == {"message": "Pills", "topic": "my-phone", "ask": "every 10m"}


def test_without_a_topic_the_form_opens_with_the_line(web: Client):
    answer = web.post("/jobs/quick/", {"line": f"{LINE}, ask every 10m"}, follow=True)

    form = answer.context["form"]
    assert form["name"].value() == form["notify-message"].value() == "Take out the bins"
    assert form["phrase"].value() == "every second tuesday 18:00"
    assert form["notify-ask"].value() == "every 10m"


def test_shared_text_fills_in_a_new_reminder(web: Client):
    form = web.get("/jobs/new/", {"title": "An article", "text": "https://example.org/a"}).context["form"]

    assert form["name"].value() == "An article"
    assert form["notify-message"].value() == "An article\nhttps://example.org/a"
