from datetime import datetime, timedelta
from typing import Any

import pytest

from schedules.web.forms.jobs import JobForm
from schedules.web.forms.when import WhenForm
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


@pytest.mark.parametrize("is_typed", [True, False])
def test_suggested_moments_are_on_the_clock_of_the_form(is_typed: bool):
    zone = {"timezone": "Asia/Kolkata"}
    form = WhenForm(zone) if is_typed else WhenForm(initial=zone)

    assert form.moments_ahead(datetime.fromisoformat("2026-11-15T10:00:30Z")) == [
        ("In 1 hour", "2026-11-15T16:30"),
        ("Tonight 20:00", "2026-11-15T20:00"),
        ("Tomorrow 9:00", "2026-11-16T09:00"),
        ("Monday 9:00", "2026-11-16T09:00"),
    ]


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        pytest.param("2027-03-28T00:30:00Z", "2027-03-28T03:30", id="clocks go forward"),
        pytest.param("2027-10-31T00:30:00Z", None, id="clocks show this time again"),
        pytest.param("2027-10-31T01:30:00Z", "2027-10-31T03:30", id="clocks showed this time before"),
    ],
)
def test_suggestion_of_one_hour_is_one_hour_ahead_at_a_clock_change(now: str, shown: str | None):
    form = WhenForm({"timezone": "Europe/Berlin"})

    assert dict(form.moments_ahead(datetime.fromisoformat(now))).get("In 1 hour") == shown
