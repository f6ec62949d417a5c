"""The notifications page: topics in use, and test messages with the server's answer."""

import asyncio
import json
from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.utils.html import escape

from schedules import clock
from schedules.models import Execution
from schedules.web.views import notifications
from tests.factories import ExecutionFactory, JobFactory
from tests.sink import Answer, Sink
from tests.web.html import html_of


def test_topics_are_those_of_the_jobs(web: Client, owner: User, stranger: User):
    job = JobFactory(owner=owner, task="notify", kwargs={"topic": "home", "message": "x"})
    JobFactory(owner=stranger, task="notify", kwargs={"topic": "foreign", "message": "x"})
    ExecutionFactory(job=job, status="failed", error="ntfy.sh answered 403", finished_at=job.created_at)

    answer = web.get("/notifications/")

    assert [topic.name for topic in answer.context["topics"]] == ["home"]
    assert "ntfy.sh answered 403" in answer.content.decode()


@pytest.mark.parametrize("is_staff", [False, True])
def test_topics_are_those_of_the_jobs_that_run_next(
    web: Client, owner: User, monkeypatch: pytest.MonkeyPatch, is_staff: bool
):
    User.objects.update(is_superuser=is_staff, is_staff=is_staff)
    monkeypatch.setattr(notifications, "MAX_JOBS", 2)
    now = clock.now()
    for topic, hours in {"third": 3, "first": 1, "second": 2}.items():
        job = {"task": "notify", "kwargs": {"topic": topic, "message": "x"}}
        JobFactory(owner=owner, ended=True, **job)
        JobFactory(owner=owner, paused=True, **job)
        JobFactory(owner=owner, next_run_at=now + timedelta(hours=hours), **job)

    answer = web.get("/notifications/")

    assert [(topic.name, topic.jobs) for topic in answer.context["topics"]] == [("first", 1), ("second", 1)]
    assert "only 2 are counted, first those that run next" in html_of(answer)
    monkeypatch.setattr(notifications, "MAX_JOBS", 9)
    assert "that run next" not in html_of(web.get("/notifications/"))


def test_delivery_that_is_retried_is_shown_as_such(web: Client, owner: User):
    job = JobFactory(owner=owner, task="notify", kwargs={"topic": "home", "message": "x"})
    ExecutionFactory(
        job=job,
        status="queued",
        attempt=2,
        error="Can't reach ntfy.sh",
        available_at=clock.now() + timedelta(seconds=8),
    )

    page = html_of(web.get("/notifications/"))

    assert "none yet" not in page
    assert "Retrying</span>" in page
    assert escape("Can't reach ntfy.sh") in page


def test_qr_code_of_a_topic_is_shown_on_request(web: Client, owner: User, settings: LazySettings):
    settings.NTFY_URL = "https://ntfy.example"
    JobFactory(owner=owner, task="notify", kwargs={"topic": "home", "message": "x"})

    page = html_of(web.get("/notifications/"))
    chosen = html_of(web.get("/notifications/", {"topic": "home"}))
    wrong = html_of(web.get("/notifications/", {"topic": "no good"}))

    assert 'href="?topic=home#subscribe"' in page
    assert 'aria-label="QR code of https://ntfy.example/home"' in chosen
    assert 'role="img" aria-label="QR code' not in page + wrong


def test_error_about_an_invalid_topic_is_shown_beside_its_field(web: Client):
    for topic in ["", "with space", "x" * 65]:
        answer = web.post("/notifications/", {"topic": topic})

        assert answer.status_code == 422
        assert 'id="topic-err"' in answer.content.decode()


def test_test_message_shows_the_answer_of_the_server(web: Client, settings: LazySettings):
    with Sink(Answer(body=b'{"id": "abc"}')) as server:
        settings.NTFY_URL = server.url()

        page = web.post("/notifications/", {"topic": "home"}).content.decode()

    assert "Sent. ntfy accepted it (message abc)." in page
    assert json.loads(server.requests[0].body)["topic"] == "home"


def test_test_message_shows_the_refusal_of_the_server(web: Client, settings: LazySettings):
    with Sink(Answer(status=403, body=b'{"error": "forbidden"}')) as server:
        settings.NTFY_URL = server.url()

        page = web.post("/notifications/", {"topic": "home"}).content.decode()

    assert "answered 403: forbidden" in page


def test_test_message_that_fails_unexpectedly_does_not_stay_running(
    web: Client, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
):
    async def create_connection(*args: object, **options: object) -> None:
        raise RuntimeError("hush")

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", create_connection)
    settings.NTFY_URL = "http://127.0.0.1:1"

    with pytest.raises(RuntimeError):
        web.post("/notifications/", {"topic": "home"})

    push = Execution.objects.get()
    assert (push.status, push.error) == ("failed", "Unexpected error: RuntimeError.")


@pytest.mark.parametrize("is_staff", [False, True])
def test_topics_of_paused_and_delivered_notifications_stay(web: Client, owner: User, is_staff: bool):
    User.objects.update(is_superuser=is_staff, is_staff=is_staff)
    for topic, state in {"paused": {"paused": True}, "delivered": {"ended": True}}.items():
        JobFactory(owner=owner, task="notify", kwargs={"topic": topic, "message": "x"}, **state)

    answer = web.get("/notifications/")

    assert [topic.name for topic in answer.context["topics"]] == ["delivered", "paused"]


def test_topic_passed_by_position_is_listed(web: Client, owner: User):
    JobFactory(owner=owner, task="notify", args=["x", "home"])

    answer = web.get("/notifications/")

    assert [topic.name for topic in answer.context["topics"]] == ["home"]
