"""Regression tests for defects that the campaign found."""

from datetime import timedelta

import pytest
from django.db import connection

from schedules import clock, engine
from schedules.models import Execution
from schedules.worker.context import ClusterContext
from schedules.worker.heartbeat_watch import HeartbeatWatch
from schedules.worker.leader import release
from schedules.worker.locks import Permits
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory


@pytest.mark.django_db(transaction=True)
def test_watch_works_again_after_its_connection_broke():
    """After one restart of PostgreSQL, a leader never noticed a frozen cluster again."""
    cluster = ClusterFactory()
    context = ClusterContext(cluster.pk, Permits(1))
    watch = HeartbeatWatch(context)
    # However long a new connection takes.
    watch._looked_at = float("inf")
    connection.ensure_connection()
    connection.connection.close()

    assert [watch._can_write() for _ in range(2)] == [False, True]

    cluster.refresh_from_db()
    assert cluster.watched_at is not None
    context.close()


@pytest.mark.django_db(transaction=True)
def test_leader_retires_its_cluster_after_its_connection_broke():
    """A cluster stopped after a restart of PostgreSQL was listed as running until its heartbeat was stale."""
    cluster = ClusterFactory()
    context = ClusterContext(cluster.pk, Permits(1))
    connection.ensure_connection()
    connection.connection.close()

    release(context, "stopped")

    cluster.refresh_from_db()
    assert cluster.stopped_at is not None


@pytest.mark.django_db
def test_job_resumed_after_the_clock_went_back_has_one_row_per_slot():
    """After a jump forward and back, a pause and a resume, slots recorded as missed by the jump got a second row."""
    start = clock.now().replace(microsecond=0)
    moments = [start + timedelta(seconds=seconds) for seconds in range(0, 30, 5)]
    job = JobFactory(
        interval=True, paused=True, every=timedelta(seconds=5), anchor_at=start, paused_at=moments[1]
    )
    ExecutionFactory(
        job=job, scheduled_for=moments[1], last_slot=moments[3], slots=3, status=Execution.Status.MISSED
    )

    engine.rearm(job, moments[1] + timedelta(seconds=1))

    job.refresh_from_db()
    assert job.next_run_at == moments[2]
    assert job.executions.values_list("scheduled_for", "last_slot", "slots").get() == (moments[1], None, 1)


@pytest.mark.django_db(transaction=True)
def test_start_of_a_run_is_durable_before_its_task_is_called():
    """A crash of PostgreSQL lost starts: runs were delivered and later cancelled, or their ids were reused."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's log survives every crash except that of the machine")
    cluster = ClusterFactory()
    run = ExecutionFactory(
        status=Execution.Status.CLAIMED, cluster=cluster, lease_until=clock.now() + timedelta(seconds=10)
    )
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        Execution.objects.filter(pk=run.pk).update(reason="written lazily")
        cursor.execute("SELECT pg_current_wal_insert_lsn()")
        (written,) = cursor.fetchone()

        assert engine.start_runs(cluster.pk, 0, [run.pk], clock.now())

        cursor.execute("SELECT pg_current_wal_flush_lsn() > %s::pg_lsn", [written])
        assert cursor.fetchone() == (True,)
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("off",)
    connection.close()
