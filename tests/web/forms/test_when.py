from datetime import timedelta
from typing import Any

import pytest

from schedules.web.forms import JobForm, WhenForm
from tests.factories import JobFactory


@pytest.mark.parametrize(
    "traits", [{}, {"once": True}, {"interval": True}, {"interval": True, "every": timedelta(seconds=61)}]
)
def test_stored_schedule_is_shown_in_a_form_that_can_be_typed(traits: dict[str, Any]):
    job = JobFactory.build(owner=None, timezone="America/New_York", **traits)
    if job.run_at:
        job.run_at = job.next_run_at = job.run_at.replace(microsecond=0)

    form = WhenForm({"when": "phrase", **JobForm(zone="UTC", job=job).initial})

    assert form.is_valid(), form.errors
    columns = form.trigger_columns()
    assert {name: columns[name] for name in ("cron", "run_at", "every", "timezone")} == {
        name: getattr(job, name) for name in ("cron", "run_at", "every", "timezone")
    }


@pytest.mark.parametrize(
    "data", [{}, {"when": "bogus"}, {"timezone": "\x00"}, {"phrase": "x" * 5000, "timezone": "UTC"}]
)
def test_invalid_schedule_is_an_error_and_not_a_crash(data: dict[str, str]):
    assert not WhenForm(data).is_valid()
    assert not JobForm(data, zone="UTC").is_valid()


def test_zones_with_a_place_are_offered_and_old_names_are_not():
    zones = WhenForm.zones()

    assert {"Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"} <= set(zones)
    assert not {"US/Pacific", "Etc/GMT+1", "Asia/Calcutta"} & set(zones)
