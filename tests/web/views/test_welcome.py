"""The welcome page."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock
from schedules.models import Job, Profile
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
