"""The adapters for django-q2: its broker, which refuses tasks, and results, which are dropped unless they are failures."""

import pickle
import threading
from datetime import timedelta

import pytest
from django_q.tasks import async_task

from schedules import clock
from schedules.worker import q2
from schedules.worker.q2 import LedgerBroker
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def test_broker_outside_a_cluster_logs_how_to_start_one(caplog, monkeypatch):
    monkeypatch.setattr(q2, "PAUSE_WITHOUT_CLUSTER", 0)

    LedgerBroker().dequeue()

    assert "manage.py qcluster" in caplog.text


def test_broker_reports_queue_and_lock_sizes():
    now = clock.now()
    broker, job = LedgerBroker(), JobFactory(next_run_at=now + HOUR)
    for status, available_at in [
        ("queued", now),
        ("queued", now + HOUR),
        ("claimed", None),
        ("running", None),
    ]:
        ExecutionFactory(job=job, status=status, available_at=available_at, cause="manual")

    assert (broker.queue_size(), broker.lock_size()) == (1, 2)
    assert broker.ping()
    assert broker.info() == "Cronty's ledger"
    assert pickle.loads(pickle.dumps(broker)).ping()  # noqa: S301


def test_async_task_of_django_q2_is_refused():
    with pytest.raises(NotImplementedError, match=r"schedules\.tasks\.task"):
        async_task("math.sqrt", 4)


def test_only_failures_of_packages_are_logged(caplog):
    results = q2.NoResults(threading.Event())
    results.put({"name": "run_coroutines", "success": True, "result": None})
    results.put("STOP")
    assert not caplog.messages

    results.put({"name": "run_coroutines", "success": False, "result": "no such table"})

    assert caplog.messages == ["run_coroutines failed in a worker: no such table"]
