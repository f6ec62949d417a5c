"""Slots that a change took away still get their row."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.models import Execution
from tests.engine.conftest import NOW, ledger
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def hourly(**fields):
    return JobFactory(**{"cron": "0 * * * *", "next_run_at": NOW, "created_at": NOW} | fields)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        pytest.param(None, NOW, None, id="never"),
        pytest.param(NOW + HOUR, NOW, None, id="not yet"),
        pytest.param(NOW, NOW, (NOW, 1, None), id="one"),
        pytest.param(NOW - HOUR, NOW + HOUR, (NOW - HOUR, 3, NOW + HOUR), id="three"),
        pytest.param(NOW + timedelta(seconds=1), NOW + timedelta(seconds=9), None, id="between slots"),
    ],
)
def test_gap_is_one_skipped_row(since, until, expected):
    job = hourly()

    engine.account_for(job, since, until, "why")

    row = Execution.objects.first()
    assert (row and (row.scheduled_for, row.slots, row.last_slot)) == expected
    if row:
        assert (row.status, row.reason, row.finished_at) == ("skipped", "why", until)
    assert Execution.objects.count() == bool(expected)


def test_gap_ends_with_the_job():
    engine.account_for(hourly(ends_at=NOW + HOUR), NOW, NOW + 9 * HOUR, "why")

    assert Execution.objects.get().slots == 2


def test_gap_beside_known_slots_fills_in_what_is_left():
    job = hourly()
    ExecutionFactory(job=job, scheduled_for=NOW)
    ExecutionFactory(job=job, scheduled_for=NOW + 3 * HOUR, cause="manual")

    engine.account_for(job, NOW, NOW + 4 * HOUR, "why")

    assert ledger(job)[:2] == [("succeeded", NOW), ("skipped", NOW + HOUR)]
    assert Execution.objects.get(status="skipped").slots == 4


def test_gap_inside_a_known_gap_is_not_told_again():
    job = hourly()
    engine.account_for(job, NOW, NOW + 4 * HOUR, "why")

    engine.account_for(job, NOW + 2 * HOUR, NOW + 5 * HOUR, "again")

    assert ledger(job) == [("skipped", NOW), ("skipped", NOW + 5 * HOUR)]


@pytest.mark.parametrize("broken", [{"timezone": "Mars/Olympus"}, {"cron": "nonsense"}])
def test_broken_schedule_has_no_slots_to_tell_of(broken):
    engine.account_for(hourly(**broken), NOW, NOW + HOUR, "why")

    assert not Execution.objects.exists()


TOOK = {"attempt": 1, "leased_to": "laptop"}


@pytest.mark.parametrize(
    ("fields", "also_manual", "expected", "before"),
    [
        ({"status": "queued"}, False, "cancelled", "it could run"),
        ({"status": "queued", "attempt": 1}, False, "failed", "the next attempt"),
        ({"status": "claimed"}, False, "cancelled", "it could run"),
        ({"status": "claimed", "attempt": 2}, False, "failed", "the next attempt"),
        ({"status": "running", "attempt": 1}, True, "running", None),
        ({"status": "waiting", "attempt": 1}, False, "cancelled", "an agent took this prompt"),
        ({"status": "waiting", "attempt": 1}, True, "cancelled", "an agent took this prompt"),
        ({"status": "waiting", "attempt": 1, "cause": "manual"}, False, "waiting", None),
        ({"status": "waiting", "lease_until": NOW + HOUR, **TOOK}, True, "waiting", None),
        (
            {"status": "waiting", "lease_until": NOW - HOUR, **TOOK},
            True,
            "cancelled",
            "an agent took this prompt",
        ),
        ({"status": "queued", "cause": "manual"}, False, "queued", None),
        ({"status": "queued", "cause": "manual"}, True, "cancelled", "it could run"),
        ({"status": "succeeded"}, True, "succeeded", None),
    ],
)
def test_withdrawing_takes_back_what_has_not_started(fields, also_manual, expected, before):
    row = ExecutionFactory(available_at=NOW, **fields)

    engine.withdraw(row.job, NOW, "stopped", also_manual=also_manual)

    row.refresh_from_db()
    assert row.status == expected
    if before:
        assert row.reason == f"The job was stopped before {before}."
        assert (row.finished_at, row.available_at, row.lease_until) == (NOW, None, None)


def test_job_remembers_the_error_of_a_run_that_was_withdrawn_between_attempts():
    job = hourly(recent="S")
    row = ExecutionFactory(job=job, status="queued", attempt=2, error="no route", available_at=NOW + HOUR)

    engine.withdraw(job, NOW, "cancelled", also_manual=True)

    job.refresh_from_db()
    row.refresh_from_db()
    assert (job.recent, job.last_error, job.last_run_at, job.failure_streak) == ("SF", "no route", NOW, 1)
    assert (row.status, row.error) == ("failed", "no route")


def test_run_by_hand_goes_on_when_the_one_before_it_was_withdrawn():
    job = hourly(overlap="queue")
    ExecutionFactory(job=job, status="queued", attempt=1, available_at=NOW + HOUR)
    by_hand = ExecutionFactory(job=job, status="queued", cause="manual", scheduled_for=NOW)

    engine.withdraw(job, NOW, "paused")

    by_hand.refresh_from_db()
    assert by_hand.available_at == NOW


def test_withdrawing_leaves_other_jobs_alone():
    row = ExecutionFactory(status="queued")

    engine.withdraw(JobFactory(), NOW, "stopped", also_manual=True)

    row.refresh_from_db()
    assert row.status == "queued"
