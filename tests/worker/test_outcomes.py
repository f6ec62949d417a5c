"""Outcomes written in batches, when the database refuses one or does not answer."""

import psycopg
import pytest
from django.db import InternalError, NotSupportedError, OperationalError, connection

from schedules import engine
from schedules.engine import settle
from schedules.engine.sql.statements import execute
from schedules.models import Execution
from schedules.worker.database_errors import is_outage
from schedules.worker.outcomes import write_outcomes
from tests.clusters import database_url
from tests.factories import ClusterFactory
from tests.waiting import wait_for
from tests.worker.test_loop import make_running, outcome_of

pytestmark = pytest.mark.django_db


def test_outcome_that_the_database_refuses_fails_alone():
    cluster = ClusterFactory()
    runs = [make_running(cluster) for _ in range(3)]
    # A set is not JSON; no real outcome holds one.
    outcomes = [outcome_of(runs[0], result=1), outcome_of(runs[1], result={2}), outcome_of(runs[2], result=3)]

    write_outcomes(cluster.pk, outcomes)

    rows = Execution.objects.order_by("pk").values_list("status", "result", "error")
    assert list(rows) == [
        ("succeeded", 1, ""),
        ("failed", None, "The outcome of this run could not be stored."),
        ("succeeded", 3, ""),
    ]


def test_nul_in_an_outcome_does_not_affect_other_outcomes():
    cluster = ClusterFactory()
    runs = [make_running(cluster) for _ in range(2)]

    write_outcomes(cluster.pk, [outcome_of(runs[0], error="a\x00b"), outcome_of(runs[1])])

    first, second = Execution.objects.order_by("pk")
    assert first.status == ("failed" if connection.vendor == "postgresql" else "succeeded")
    assert second.status == "succeeded"


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "error",
    [OperationalError("database is locked"), NotSupportedError("cached plan must not change result type")],
    ids=["locked", "migrated"],
)
def test_outcomes_survive_a_database_that_is_locked_or_migrated(monkeypatch, count, error):
    cluster = ClusterFactory()
    runs = [make_running(cluster) for _ in range(count)]

    def refuse(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(engine, "settle_runs", refuse)

    with pytest.raises(type(error)):
        write_outcomes(cluster.pk, [outcome_of(run) for run in runs])

    assert set(Execution.objects.values_list("status", flat=True)) == {"running"}


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite ends no transaction")
@pytest.mark.django_db(transaction=True)
def test_outcome_survives_a_transaction_that_stood_still(monkeypatch):
    """The machine stood still in the middle of it: a run that had succeeded was called failed."""
    cluster = ClusterFactory()
    run = make_running(cluster)
    lock = settle._lock_mine

    def stand_still(*arguments: object) -> object:
        stall.undo()
        execute("SELECT 1")
        with psycopg.connect(database_url(), autocommit=True) as other:
            session = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
            backend = connection.connection.info.backend_pid
            wait_for(lambda: not other.execute(session, [backend]).fetchall())
        return lock(*arguments)

    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = 100")
    with monkeypatch.context() as stall:
        stall.setattr(settle, "_lock_mine", stand_still)
        with pytest.raises(InternalError) as caught:
            write_outcomes(cluster.pk, [outcome_of(run)])

    assert is_outage(caught.value)
    assert Execution.objects.get().status == "running"
    write_outcomes(cluster.pk, [outcome_of(run)])
    assert Execution.objects.get().status == "succeeded"


def test_outcome_does_not_fail_because_of_a_database_outage(monkeypatch):
    cluster = ClusterFactory()
    run = make_running(cluster)
    monkeypatch.setattr(connection, "is_usable", lambda: False)

    with pytest.raises(TypeError):
        write_outcomes(cluster.pk, [outcome_of(run, result={1})])
