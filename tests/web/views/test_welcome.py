"""The welcome page and the demo jobs."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock, services
from schedules.models import Job, Profile
from schedules.services import Actor
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.web.html import html_of

ANSWERS = {"timezone": "Asia/Tokyo", "failure_topic": "my-phone", "message": "Hello!"}


def test_welcome_form_saves_settings_and_schedules_a_reminder(web: Client, owner: User):
    answer = web.post("/welcome/", ANSWERS)

    job, profile = Job.objects.get(), Profile.objects.get(user=owner)
    assert (answer.status_code, answer["Location"]) == (303, f"/welcome/?job={job.public_id}")
    assert job.kwargs == {"topic": "my-phone", "message": "Hello!"}
    assert (profile.timezone, profile.failure_topic) == ("Asia/Tokyo", "my-phone")


def test_all_errors_are_shown_beside_their_fields(web: Client):
    wrong = {"timezone": "Moon/Base", "failure_topic": "no good", "message": ""}

    answer = web.post("/welcome/", wrong)

    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'id="id_timezone_error"' in page
    assert ">Topics can&#x27;t contain spaces.</p>" in page
    assert ">Enter a message.</p>" in page
    assert 'value="Moon/Base"' in page
    assert not Job.objects.exists()


@pytest.fixture
def reminder(owner: User) -> Job:
    return JobFactory(
        owner=owner,
        task="notify",
        kwargs={"topic": "my-phone", "message": "Hello!"},
        once=True,
        run_at=clock.now() + timedelta(minutes=5),
        attempts=5,
    )


RUNS: dict[str, dict[str, Any]] = {
    "sending": {"status": "running", "attempt": 1},
    "retrying": {"status": "queued", "attempt": 1, "error": "Can't reach ntfy.sh"},
    "delivered": {"status": "succeeded", "attempt": 2, "result": {"id": "abc"}},
    "failed": {"status": "failed", "attempt": 5, "error": "ntfy.sh answered 403: forbidden"},
}
SHOWN = {
    "scheduled": "Your reminder goes out <time",
    "waiting": "Waiting for the worker",
    "sending": "Sending…",
    "retrying": "Retrying (attempt 2 of 5)",
    "delivered": "ntfy accepted it (message abc).",
    "failed": "ntfy.sh answered 403: forbidden",
}


@pytest.mark.parametrize("step", list(SHOWN))
def test_page_shows_how_far_the_reminder_has_come(web: Client, reminder: Job, step: str):
    if step != "waiting":
        ClusterFactory(last_seen_at=clock.now())
    if step == "waiting":
        Job.objects.filter(pk=reminder.pk).update(next_run_at=clock.now() - timedelta(seconds=5))
    if step in RUNS:
        finished = clock.now() if step in {"delivered", "failed"} else None
        later = clock.now() + timedelta(seconds=8)
        ExecutionFactory(job=reminder, **{"finished_at": finished, "available_at": later} | RUNS[step])

    answer = web.get("/welcome/", {"job": reminder.public_id})

    page = html_of(answer)
    assert answer.context["delivery"].step == step
    assert SHOWN[step] in page
    assert ("data-poll" in page) == (step not in {"delivered", "failed"})
    assert ("Try again" in page) == (step == "failed")


def test_page_of_a_failed_reminder_sends_it_again(web: Client, reminder: Job):
    ExecutionFactory(job=reminder, finished_at=clock.now(), **RUNS["failed"])
    address = f"/welcome/?job={reminder.public_id}"

    answer = web.post(f"/jobs/{reminder.public_id}/run/", {"next": address}, follow=True)

    assert answer.redirect_chain[0][0] == address
    assert answer.context["delivery"].step == "waiting"


def test_reminder_of_another_is_a_404(other: Client, reminder: Job):
    assert other.get("/welcome/", {"job": reminder.public_id}).status_code == 404


def test_page_shows_the_qr_code_of_the_topic_that_is_typed(web: Client, settings: LazySettings):
    settings.NTFY_URL = "https://ntfy.example/"

    page = web.get("/welcome/")
    typed = web.get("/notifications/qr/", {"failure_topic": "my-phone"}).content.decode()
    wrong = web.get("/notifications/qr/", {"failure_topic": "<b>"}).content.decode()

    assert f'aria-label="QR code of https://ntfy.example/{page.context["topic"]}"' in html_of(page)
    assert '<svg viewBox="0 0' in typed
    assert 'href="https://ntfy.example/my-phone"' in typed
    assert "<svg" not in wrong
    assert "<b>" not in wrong


def test_demo_jobs_can_be_added_and_removed(web: Client, owner: User):
    mine = JobFactory(owner=owner, name="Mine", tags=["demo"])

    web.post("/demo/")
    assert Job.objects.kept().count() == 4

    web.post("/demo/", {"verb": "remove"})
    assert list(Job.objects.kept()) == [mine]


def test_demo_jobs_are_added_once_and_not_removed_twice(web: Client, owner: User):
    pages = [
        web.post("/demo/", form, follow=True).content.decode()
        for form in ({}, {}, {"verb": "remove"}, {"verb": "remove"})
    ]

    assert "You already have demo jobs, tagged demo." in pages[1]
    assert "3 demo jobs moved to the trash." in pages[2]
    assert "There are no demo jobs to remove." in pages[3]


def test_quota_is_shown_as_a_sentence(web: Client, owner: User, settings: LazySettings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 1
    JobFactory(owner=owner)

    page = html_of(web.post("/demo/", follow=True))
    form = html_of(web.post("/welcome/", ANSWERS))

    assert ">At most 1 active jobs; stop or delete some first.<" in page
    assert ">At most 1 active jobs; stop or delete some first.<" in form


def test_renamed_demo_job_is_removed_with_the_others(web: Client, actor: Actor):
    web.post("/demo/")
    services.edit(actor, Job.objects.all()[0].public_id, name="Mine now", tags=[])

    web.post("/demo/", {"verb": "remove"})

    assert not Job.objects.kept().exists()


def test_demo_jobs_send_nothing_unless_resumed(web: Client):
    web.post("/demo/")

    assert {job.task for job in Job.objects.armed()} == {"prompt"}
