"""A job that runs after another one, on the form and on both pages."""

import pytest

from schedules.models import Job
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


def test_form_takes_the_other_job_by_name_and_both_pages_show_the_chain(web, owner):
    first = JobFactory(owner=owner, name="Nightly backup")
    page = web.post(
        "/jobs/new/",
        {
            "name": "Report",
            "task": "tests.ping",
            "when": "phrase",
            "phrase": "10 minutes after nightly backup fails",
            "timezone": "UTC",
            "attempts": "1",
            "backoff": "10s",
            "timeout": "1m",
            "overlap": "skip",
            "catch_up": "once",
            "pause_after_failures": "10",
        },
        follow=True,
    )
    job = Job.objects.get(name="Report")

    assert job.follows == first
    assert "10 minutes after Nightly backup fails" in page.text
    assert "Report" in web.get(f"/jobs/{first.public_id}/").text
    edit = web.get(f"/jobs/{job.public_id}/edit/").text
    assert f"10 minutes after {first.public_id} fails" in edit
