"""Topics in use, and the test that shows the server's own answer."""

import json

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import ExecutionFactory, JobFactory
from tests.sink import Answer, Sink


def test_topics_come_from_the_jobs(web: Client, owner: User, stranger: User):
    job = JobFactory(owner=owner, task="notify", kwargs={"topic": "home", "message": "x"})
    JobFactory(owner=stranger, task="notify", kwargs={"topic": "foreign", "message": "x"})
    ExecutionFactory(job=job, status="failed", error="ntfy.sh answered 403", finished_at=job.created_at)

    answer = web.get("/notifications/")

    assert [topic.name for topic in answer.context["topics"]] == ["home"]
    assert "ntfy.sh answered 403" in answer.content.decode()


def test_topic_given_by_position_is_one_of_them(web: Client, owner: User):
    JobFactory(owner=owner, task="notify", args=["x", "home"])

    answer = web.get("/notifications/")

    assert [topic.name for topic in answer.context["topics"]] == ["home"]


def test_without_a_topic_the_page_says_what_one_is(web: Client):
    assert "No topic yet" in web.get("/notifications/").content.decode()


@pytest.mark.parametrize("topic", ["", "with space", "x" * 65])
def test_bad_topic_is_refused_beside_its_field(web: Client, topic: str):
    answer = web.post("/notifications/", {"topic": topic})

    assert answer.status_code == 422
    assert 'id="topic-err"' in answer.content.decode()


def test_test_shows_the_servers_answer(web: Client, settings: LazySettings):
    with Sink(Answer(body=b'{"id": "abc"}')) as server:
        settings.NTFY_URL = server.url()

        page = web.post("/notifications/", {"topic": "home"}).content.decode()

    assert "took it as message abc" in page
    assert json.loads(server.requests[0].body)["topic"] == "home"


def test_test_shows_the_servers_refusal(web: Client, settings: LazySettings):
    with Sink(Answer(status=403, body=b'{"error": "forbidden"}')) as server:
        settings.NTFY_URL = server.url()

        page = web.post("/notifications/", {"topic": "home"}).content.decode()

    assert "answered 403: forbidden" in page
