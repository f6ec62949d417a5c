"""How a job stands: the rule, and the order of the standings."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules import clock
from schedules.models import Job, standings
from schedules.models.executions import ASKS
from tests.factories import ExecutionFactory, JobFactory

HOUR = timedelta(hours=1)
FAILED = {"status": "failed", "next_run_at": None, "once": True}
LAST_RUN = {"status": "running", "next_run_at": None, "once": True}
RETRY = {"status": "queued", "attempt": 1}
UNCLAIMED = {"status": "waiting"}
ASKING = {"status": "queued", "attempt": 1, "reason": ASKS}
# Standing, columns of the job, columns of its unfinished runs.
CASES: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
    ("stopped_failing", {"paused": True, "failure_streak": 10, "pause_after_failures": 10}, []),
    ("stopped_failing", {"paused": True, "failure_streak": 1, "pause_after_failures": 1}, []),
    ("stopped_failing", {"paused": True, "has_unreadable_schedule": True}, []),
    (
        "stopped_failing",
        {"paused": True, "has_unreadable_schedule": True, "pause_after_failures": 0},
        [{"status": "running"}],
    ),
    ("paused", {"paused": True, "failure_streak": 3, "pause_after_failures": 10}, []),
    ("paused", {"paused": True, "failure_streak": 3, "pause_after_failures": 0}, []),
    ("paused", {"paused": True}, [{"status": "running"}]),
    ("failed", FAILED, []),
    ("failing", {"failure_streak": 1}, []),
    ("failing", {"failure_streak": 1, "late": True}, [RETRY]),
    ("failing", {"failure_streak": 1}, [{"status": "running"}]),
    ("retrying", {}, [RETRY]),
    ("retrying", {"late": True}, [RETRY]),
    ("retrying", LAST_RUN, [RETRY]),
    ("retrying", {}, [RETRY, {"status": "running"}]),
    ("late", {"late": True}, []),
    ("late", {"late": True}, [{"status": "running"}]),
    ("running", {}, [{"status": "running"}]),
    ("running", {}, [{"status": "claimed"}]),
    ("running", {}, [{"status": "waiting", "lease_until": clock.now() + HOUR}]),
    ("running", LAST_RUN, []),
    ("running", LAST_RUN | {"failure_streak": 2}, [{"status": "running"}]),
    ("running", {}, [UNCLAIMED, {"status": "running"}]),
    ("waiting", {}, [UNCLAIMED]),
    ("waiting", LAST_RUN, [UNCLAIMED]),
    ("waiting", {}, [ASKING]),
    ("waiting", {"last_run_at": clock.now()}, [ASKING, {"status": "queued"}]),
    ("waiting", LAST_RUN, [ASKING]),
    ("retrying", {}, [ASKING, RETRY]),
    ("running", {}, [ASKING, {"status": "running"}]),
    ("failing", {"failure_streak": 1}, [ASKING]),
    ("waiting", LAST_RUN, [UNCLAIMED, {"status": "queued"}]),
    ("healthy", {"last_run_at": clock.now()}, []),
    ("healthy", {"last_run_at": clock.now()}, [{"status": "queued"}]),
    ("new", {}, []),
    ("completed", {"ended": True, "failure_streak": 1}, []),
    ("cancelled", {"status": "cancelled", "next_run_at": None}, []),
]


@pytest.mark.parametrize(("standing", "columns", "runs"), CASES)
def test_job_has_one_standing(
    owner: User, standing: str, columns: dict[str, Any], runs: list[dict[str, Any]]
):
    now, columns = clock.now(), dict(columns)
    if columns.pop("late", False):
        columns["next_run_at"] = now - HOUR
    job = JobFactory(owner=owner, **columns)
    for place, run in enumerate(runs):
        ExecutionFactory(job=job, scheduled_for=now - place * HOUR, **run)

    [shown] = standings.with_rank(Job.objects.all(), now)

    assert standings.ORDER[shown.rank] == standing
    [activity] = Job.objects.with_activity().values_list("is_running", flat=True)
    assert standings.standings_of([job], now) == {job.pk: standings.Standing(standing, activity)}


def test_broken_jobs_come_first():
    assert standings.ORDER[: len(standings.BROKEN)] == standings.BROKEN
    assert set(standings.STANDINGS) == {case[0] for case in CASES}


def test_prompts_that_wait_are_not_read_one_by_one(owner: User):
    job = JobFactory(owner=owner)
    for place in range(20):
        ExecutionFactory(job=job, scheduled_for=clock.now() - place * HOUR, **UNCLAIMED)

    with CaptureQueriesContext(connection) as queries:
        standings.standings_of([job], clock.now())
    with connection.cursor() as cursor:
        cursor.execute(queries[0]["sql"].replace("%", "%%"))
        assert len(cursor.fetchall()) == 1
