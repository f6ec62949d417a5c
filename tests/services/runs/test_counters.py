"""Counters of finished runs: every run once, in whatever order rows become visible."""

import pytest

from schedules import clock
from schedules.models import Execution
from schedules.services.runs import counters as run_counters
from schedules.services.runs.counters import RunCounters
from tests.factories import ExecutionFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def counters() -> RunCounters:
    """Counters that have read the table once, while it was empty."""
    counters = RunCounters()
    counters.update()
    return counters


def ended(count: int) -> list[Execution]:
    return ExecutionFactory.create_batch(count, status="succeeded", finished_at=clock.now())


def total(counters: RunCounters) -> int:
    return sum(counters.runs.values())


def test_history_before_the_first_reading_is_not_counted():
    ended(3)
    counters = RunCounters()

    counters.update()
    counters.update()

    assert total(counters) == 0


def test_run_is_counted_once_when_it_ends(counters):
    run = ExecutionFactory(status="queued", finished_at=None)
    counters.update()
    assert total(counters) == 0

    Execution.objects.filter(pk=run.pk).update(status="succeeded", finished_at=clock.now())
    for _ in range(3):
        counters.update()

    assert counters.runs == {(run.task, "succeeded"): 1}


def test_row_that_becomes_visible_late_is_counted(counters, monkeypatch):
    first, second = ended(2)
    # A transaction that took its key first and commits last.
    late = dict(Execution.objects.filter(pk=first.pk).values()[0])
    Execution.objects.filter(pk=first.pk).delete()
    counters.update()
    assert total(counters) == 1

    Execution.objects.create(**late)
    counters.update()
    monkeypatch.setattr(run_counters, "COMMIT_DELAY", 0.0)
    counters.update()
    counters.update()

    assert total(counters) == 2
    assert counters._floor == second.pk
    assert counters._read == set()


def test_reading_is_bounded_and_goes_on_at_the_next_one(counters, monkeypatch, django_assert_num_queries):
    monkeypatch.setattr(run_counters, "BATCH", 2)
    monkeypatch.setattr(run_counters, "MAX_BATCHES", 2)
    ended(6)

    with django_assert_num_queries(2):
        counters.update()
    assert total(counters) == 4
    counters.update()
    assert total(counters) == 6


def test_deleted_and_too_many_pending_runs_are_given_up(counters, monkeypatch):
    monkeypatch.setattr(run_counters, "MAX_PENDING", 2)
    runs = ExecutionFactory.create_batch(3, status="running", finished_at=None)
    counters.update()
    assert list(counters._pending) == [runs[1].pk, runs[2].pk]

    Execution.objects.all().delete()
    counters.update()

    assert counters._pending == {}
