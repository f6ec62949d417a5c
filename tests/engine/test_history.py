"""What outcomes change: failure streak, recent results and last error of their job, and the next run in line."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine import Outcome
from schedules.engine.history import add_to_history, failures_of
from schedules.models import Execution
from tests.engine.conftest import NOW, begin, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def outcomes(job_id: int, statuses: str, **fields: str) -> list[Outcome]:
    """Build outcomes from status letters, one second apart."""
    kinds = {"S": "succeeded", "F": "failed", "L": "lost", "C": "cancelled"}
    return [
        Outcome(number, 1, job_id, Execution.Status(kinds[letter]), NOW + timedelta(seconds=number), **fields)
        for number, letter in enumerate(statuses)
    ]


@pytest.mark.parametrize(
    ("statuses", "count"), [("", 0), ("S", 0), ("F", 1), ("FL", 2), ("FS", 0), ("FSF", 1), ("FC", 1)]
)
def test_failures_are_counted_since_the_last_success(statuses, count):
    assert failures_of(outcomes(1, statuses)) == count


@pytest.mark.parametrize(
    ("statuses", "streak"), [("F", 3), ("FL", 4), ("S", 0), ("FSF", 1), ("C", 2), ("SFF", 2)]
)
def test_failure_streak_continues_or_restarts(statuses, streak):
    job = JobFactory(recent="SFF", failure_streak=2)

    add_to_history(outcomes(job.pk, statuses))

    job.refresh_from_db()
    assert (job.recent, job.failure_streak) == (f"SFF{statuses}", streak)
    assert job.last_run_at == NOW + timedelta(seconds=len(statuses) - 1)


def test_recent_results_keep_the_last_thirty():
    job = JobFactory(recent="S" * 29)

    add_to_history(outcomes(job.pk, "FL"))

    job.refresh_from_db()
    assert job.recent == "S" * 28 + "FL"


@pytest.mark.parametrize(
    ("statuses", "error"), [("F", "new"), ("S", ""), ("C", "old"), ("SF", "new"), ("FS", ""), ("FC", "new")]
)
def test_last_error_ignores_cancelled_runs(statuses, error):
    job = JobFactory(last_error="old")

    add_to_history(outcomes(job.pk, statuses, error="new"))

    job.refresh_from_db()
    assert job.last_error == error


def test_outcomes_are_grouped_by_job():
    first, second = JobFactory(), JobFactory()
    given = outcomes(first.pk, "SF") + outcomes(second.pk, "S")

    assert add_to_history(given) == {first.pk: given[:2], second.pk: given[2:]}


def test_run_that_never_started_does_not_count_as_the_last_run():
    job = JobFactory()

    add_to_history([Outcome(1, 0, job.pk, Execution.Status.CANCELLED, NOW, reason="Its job was stopped.")])

    job.refresh_from_db()
    assert (job.recent, job.last_run_at) == ("C", None)


def test_last_success_and_duration_are_kept_until_there_is_a_new_one():
    job = JobFactory()
    later = NOW + timedelta(hours=1)
    succeeded, failed = Execution.Status.SUCCEEDED, Execution.Status.FAILED

    add_to_history([Outcome(1, 1, job.pk, succeeded, NOW, started_at=NOW - timedelta(seconds=2))])
    job.refresh_from_db()
    assert (job.last_success_at, job.last_duration) == (NOW, timedelta(seconds=2))
    add_to_history([Outcome(2, 1, job.pk, failed, later, started_at=later - timedelta(seconds=5))])
    add_to_history([Outcome(3, 0, job.pk, Execution.Status.CANCELLED, later)])

    job.refresh_from_db()
    assert (job.last_success_at, job.last_duration) == (NOW, timedelta(seconds=5))


# The next run in line


def test_only_the_oldest_waiting_run_is_released(cluster):
    job = JobFactory(overlap="queue", next_run_at=NOW + HOUR)
    started = begin(cluster, job, scheduled_for=NOW - HOUR)
    held = [
        ExecutionFactory(job=job, status="queued", scheduled_for=NOW - minutes * MINUTE, reason="Waits")
        for minutes in (30, 20)
    ]

    engine.settle_runs(cluster.pk, [outcome_of(started)])

    for row in held:
        row.refresh_from_db()
    assert [row.available_at for row in held] == [NOW, None]
    assert [row.reason for row in held] == ["", "Waits"]


@pytest.mark.parametrize("busy", ["running", "claimed", "waiting"])
def test_waiting_run_waits_for_all_live_runs(cluster, busy):
    job = JobFactory(overlap="queue")
    ExecutionFactory(job=job, status=busy, cause="manual", attempt=1)
    held = ExecutionFactory(job=job, status="queued")

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job, scheduled_for=NOW - HOUR))])

    held.refresh_from_db()
    assert held.available_at is None


def test_waiting_run_waits_for_the_next_attempt_of_its_predecessor(cluster):
    job = JobFactory(overlap="queue", attempts=2)
    started = begin(cluster, job, scheduled_for=NOW - HOUR)
    held = ExecutionFactory(job=job, status="queued")

    engine.settle_runs(cluster.pk, [outcome_of(started, "failed", retry_at=NOW + MINUTE)])

    held.refresh_from_db()
    assert held.available_at is None
