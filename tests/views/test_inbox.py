"""Prompts that wait, and what a person can do with them."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock
from schedules.models import Execution
from tests.factories import ExecutionFactory, JobFactory


@pytest.fixture
def waiting(owner: User) -> Execution:
    job = JobFactory(owner=owner, name="Briefing", task="prompt", kwargs={"prompt": "Summarise."})
    return ExecutionFactory(job=job, status="waiting")


def test_prompt_is_shown_until_it_is_answered(web: Client, waiting: Execution):
    assert "Summarise." in web.get("/inbox/").content.decode()

    web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "Done."})

    waiting.refresh_from_db()
    assert (waiting.status, waiting.result) == ("succeeded", "Done.")
    assert "Nothing waits" in web.get("/inbox/").content.decode()


def test_empty_answer_is_refused(web: Client, waiting: Execution):
    page = web.post(f"/inbox/{waiting.pk}/answer/", {"answer": " "}, follow=True).content.decode()

    assert "Write an answer first" in page


def test_prompt_can_be_dismissed_once(web: Client, waiting: Execution):
    web.post(f"/inbox/{waiting.pk}/dismiss/")

    page = web.post(f"/inbox/{waiting.pk}/dismiss/", follow=True).content.decode()

    assert "already cancelled" in page


def test_held_prompt_can_be_taken_back(web: Client, waiting: Execution):
    Execution.objects.filter(pk=waiting.pk).update(
        leased_to="laptop", lease_until=clock.now() + timedelta(hours=1)
    )
    assert "held by" in web.get("/inbox/").content.decode()

    web.post(f"/inbox/{waiting.pk}/release/")

    waiting.refresh_from_db()
    assert waiting.lease_until is None
