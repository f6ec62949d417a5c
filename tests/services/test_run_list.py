"""The list of runs: the page and the admin find the same runs for the same words."""

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


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("backup", {"full"}),
        ("full DISK nightly", {"full"}),
        ("nightly running", set()),
        ("büro", {"skipped", "fine"}),
        ("before büro", {"skipped"}),
        ("%", set()),
    ],
)
def test_every_word_is_found_on_the_page_and_in_the_admin(owner, operator, runs, text, keys):
    expected = {runs[key].pk for key in keys}

    page = session_of(owner).get(reverse("schedules:runs"), {"q": text})
    admin = session_of(operator).get(reverse("admin:schedules_execution_changelist"), {"q": text})

    assert {run.pk for run in page.context["listed"].rows} == expected
    assert {run.pk for run in admin.context["cl"].result_list} == expected
