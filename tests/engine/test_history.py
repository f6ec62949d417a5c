"""Run outcomes recorded on jobs: failure streak, recent results and last error."""

from datetime import timedelta

import pytest

from schedules.engine import Outcome
from schedules.engine.history import add_to_history, failures_of
from schedules.models import Execution
from tests.engine.conftest import NOW
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


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
