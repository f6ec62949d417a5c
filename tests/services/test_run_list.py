"""The list of runs: which runs the page finds for some words."""

from datetime import timedelta

import pytest
from django.urls import reverse

from schedules import clock
from tests.conftest import session_of
from tests.factories import ExecutionFactory, JobFactory


@pytest.fixture
def runs(owner):
    backup, plants = (
        JobFactory(owner=owner, name="Nightly backup"),
        JobFactory(owner=owner, name="BÜRO gießen"),
    )
    return {
        "full": ExecutionFactory(job=backup, status="failed", error="Disk full on /var"),
        "skipped": ExecutionFactory(job=plants, status="skipped", reason="The one before was running"),
        "fine": ExecutionFactory(job=plants, scheduled_for=clock.now() - timedelta(hours=1)),
    }


def test_every_word_is_found_on_the_page(owner, runs):
    web = session_of(owner)
    for text, keys in (
        ("full DISK nightly", {"full"}),
        ("nightly running", set()),
        ("büro", {"skipped", "fine"}),
        ("%", set()),
    ):
        expected = {runs[key].pk for key in keys}

        page = web.get(reverse("schedules:runs"), {"q": text})

        assert {run.pk for run in page.context["listed"].rows} == expected
