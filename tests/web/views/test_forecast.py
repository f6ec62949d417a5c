"""Forecasts of stored jobs."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User

from schedules import clock
from schedules.models import Job
from schedules.web.views.forecast import Ahead
from tests.factories import JobFactory

START = datetime(2026, 11, 15, 10, 7, 30, tzinfo=UTC)


def test_frequent_job_is_counted_separately(owner: User):
    JobFactory(owner=owner, name="Frequent", cron="* * * * *", next_run_at=START)
    JobFactory(
        owner=owner, name="Rare", cron="0 12 * * *", next_run_at=START.replace(hour=12, minute=0, second=0)
    )

    ahead = Ahead.of(Job.objects.all(), START, "UTC")

    assert list(ahead.dense) == ["Frequent"]
    assert sum(bucket.count for bucket in ahead.buckets) == 1
    assert re.fullmatch(r"1,44\d runs · Frequent accounts for 1,44\d", ahead.summary)


@pytest.mark.parametrize(
    ("now", "cron", "expected"),
    [
        pytest.param("2026-03-28T23:00", "30 2 * * *", ["01:00"], id="skipped time, at the end of the gap"),
        pytest.param("2026-03-28T23:00", "*/30 2 * * *", [], id="wildcard in a skipped hour"),
        pytest.param("2026-10-24T22:00", "0 2 * * *", ["00:00"], id="repeated time, once"),
    ],
)
def test_next_24_hours_are_correct_across_a_clock_change(
    now: str, cron: str, expected: list[str], owner: User
):
    start = datetime.fromisoformat(now).replace(tzinfo=UTC)
    job = JobFactory.build(owner=owner, cron=cron, timezone="Europe/Berlin")
    job.next_run_at = job.trigger.next_after(start)
    job.save()

    ahead = Ahead.of(Job.objects.all(), start, "Europe/Berlin")

    assert [f"{bucket.start:%H:%M}" for bucket in ahead.buckets if bucket.count] == expected


def test_soonest_jobs_are_those_whose_next_run_is_not_skipped(owner: User):
    hourly = {"owner": owner, "cron": "0 * * * *", "next_run_at": START.replace(hour=11, minute=0, second=0)}
    JobFactory(name="Skipped once", skips="2026-11-15T11:00:00Z", **hourly)
    JobFactory(name="Skipped for days", skips="2026-11-15 2026-11-16", **hourly)
    JobFactory(name="Hourly", **hourly)

    ahead = Ahead.of(Job.objects.all(), START, "UTC")

    assert [(job.name, job.next_run_at.hour) for job in ahead.soon] == [("Hourly", 11), ("Skipped once", 12)]
    assert ahead.late == 0


def test_bars_of_failing_jobs_are_marked_and_named(web, owner):
    JobFactory(
        owner=owner,
        name="Broken one",
        cron="0 0 1 1 *",
        failure_streak=1,
        next_run_at=clock.now() + timedelta(hours=2),
    )

    page = web.get("/").content.decode()

    assert "failing now: Broken one</title>" in page
    assert 'class="late"' in page
