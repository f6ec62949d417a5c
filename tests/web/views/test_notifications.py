"""The notifications page: topics in use, and test messages with the server's answer."""

import json

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import ExecutionFactory, JobFactory
from tests.sink import Answer, Sink


def test_topics_are_those_of_the_jobs(web: Client, owner: User, stranger: User):
    job = JobFactory(owner=owner, task="notify", kwargs={"topic": "home", "message": "x"})
    JobFactory(owner=stranger, task="notify", kwargs={"topic": "foreign", "message": "x"})
    ExecutionFactory(job=job, status="failed", error="ntfy.sh answered 403", finished_at=job.created_at)

    answer = web.get("/notifications/")

    assert [topic.name for topic in answer.context["topics"]] == ["home"]
    assert "ntfy.sh answered 403" in answer.content.decode()


def test_topic_passed_by_position_is_listed(web: Client, owner: User):
    JobFactory(owner=owner, task="notify", args=["x", "home"])

    answer = web.get("/notifications/")

    assert [topic.name for topic in answer.context["topics"]] == ["home"]


def test_page_without_topics_explains_topics(web: Client):
    assert "No topic yet" in web.get("/notifications/").content.decode()


@pytest.mark.parametrize("topic", ["", "with space", "x" * 65])
def test_error_about_an_invalid_topic_is_shown_beside_its_field(web: Client, topic: str):
    answer = web.post("/notifications/", {"topic": topic})

    assert answer.status_code == 422
    assert 'id="topic-err"' in answer.content.decode()


def test_test_message_shows_the_answer_of_the_server(web: Client, settings: LazySettings):
    with Sink(Answer(body=b'{"id": "abc"}')) as server:
        settings.NTFY_URL = server.url()

        page = web.post("/notifications/", {"topic": "home"}).content.decode()

    assert "took it as message abc" in page
    assert json.loads(server.requests[0].body)["topic"] == "home"


def test_test_message_shows_the_refusal_of_the_server(web: Client, settings: LazySettings):
    with Sink(Answer(status=403, body=b'{"error": "forbidden"}')) as server:
        settings.NTFY_URL = server.url()

        page = web.post("/notifications/", {"topic": "home"}).content.decode()

    assert "answered 403: forbidden" in page
