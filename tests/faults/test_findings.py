"""What the campaign found, each as small as it can be shown."""

from datetime import timedelta

import pytest
from django.db import connection

from schedules import broker, clock, engine
from schedules.cluster import Leader, Watch
from schedules.models import Execution
from tests.factories import ExecutionFactory, JobFactory, WorkerFactory


@pytest.mark.django_db(transaction=True)
def test_the_watch_sees_again_after_its_connection_broke():
    """After one restart of PostgreSQL no leader noticed a frozen cluster any more, for as long as it lived."""
    worker, watch = WorkerFactory(), Watch()
    connection.ensure_connection()
    connection.connection.close()

    for _ in range(2):
        watch._looked_at -= 100
        assert watch.trouble(worker.pk) == ""

    worker.refresh_from_db()
    assert worker.watched_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_leader_whose_connection_broke_still_signs_off(monkeypatch):
    """A cluster stopped after a restart of PostgreSQL was listed as running until it fell silent."""
    worker = WorkerFactory()
    leader = object.__new__(Leader)
    monkeypatch.setattr(broker, "worker_id", worker.pk)
    connection.ensure_connection()
    connection.connection.close()

    leader._give_up_claims("stopped")

    worker.refresh_from_db()
    assert worker.stopped_at is not None


@pytest.mark.django_db
def test_slots_that_a_gap_accounts_for_are_not_run_when_the_clock_goes_back():
    """Forward, back, pause and resume: the slots that the jump had written off as missed got a second row."""
    start = clock.now().replace(microsecond=0)
    moments = [start + timedelta(seconds=seconds) for seconds in range(0, 30, 5)]
    job = JobFactory(interval=True, every=timedelta(seconds=5), anchor_at=start, next_run_at=moments[2])
    ExecutionFactory(
        job=job, scheduled_for=moments[1], last_slot=moments[3], slots=3, status=Execution.Status.MISSED
    )
    worker = WorkerFactory()

    taken = [engine.claim(worker.pk, at, 10) for at in moments[2:5]]

    assert [len(claims) for claims in taken] == [0, 0, 1]
    assert sorted(job.executions.values_list("scheduled_for", flat=True)) == [moments[1], moments[4]]
