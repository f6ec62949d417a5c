"""What the campaign found, each as small as it can be shown."""

import pytest
from django.db import connection

from schedules import broker
from schedules.cluster import Leader, Watch
from tests.factories import WorkerFactory


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
