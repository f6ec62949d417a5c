"""First steps, and jobs to play with."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules.models import Job, Profile
from tests.factories import JobFactory

ANSWERS = {"timezone": "Asia/Tokyo", "topic": "my-phone", "message": "Hello!"}


def test_welcome_ends_with_a_reminder_on_its_way(web: Client, owner: User):
    answer = web.post("/welcome/", ANSWERS)

    job, profile = Job.objects.get(), Profile.objects.get(user=owner)
    assert answer["Location"] == f"/jobs/{job.public_id}/"
    assert job.kwargs == {"topic": "my-phone", "message": "Hello!"}
    assert (profile.timezone, profile.failure_topic) == ("Asia/Tokyo", "my-phone")


@pytest.mark.parametrize(
    ("field", "value"), [("timezone", "Moon/Base"), ("topic", "no good"), ("message", "")]
)
def test_wrong_answer_is_said_beside_its_field(web: Client, field: str, value: str):
    answer = web.post("/welcome/", ANSWERS | {field: value})

    assert answer.status_code == 422
    assert field in answer.context["errors"]
    assert answer.context["values"][field] == value


def test_demo_jobs_come_and_go(web: Client, owner: User):
    mine = JobFactory(owner=owner, name="Mine", tags=["demonstration"])

    web.post("/demo/")
    assert Job.objects.kept().count() == 4

    web.post("/demo/", {"verb": "remove"})
    assert list(Job.objects.kept()) == [mine]
