"""Starting claimed runs, and the conditions for a start."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from schedules import engine
from schedules.models import Execution
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.models.jobs import new_public_id
from tests.engine.conftest import LEASE, NOW, begin, new_cluster
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(seconds=2, microseconds=5)


def claimed(cluster, **fields):
    return ExecutionFactory(**{"status": "claimed", "cluster": cluster, "scheduled_for": NOW} | fields)


def test_started_run_contains_everything_its_task_needs(cluster):
    job = JobFactory(
        name="Ping",
        args=[1, 2],
        kwargs={"fail": False, "text": "ü"},
        timeout=timedelta(seconds=7),
        backoff=timedelta(minutes=2),
        attempts=4,
    )

    started = begin(cluster, job)

    assert (started.job_id, started.job_public_id, started.job_name) == (job.pk, job.public_id, "Ping")
    assert (started.args, started.kwargs) == ([1, 2], {"fail": False, "text": "ü"})
    assert (started.timeout, started.backoff) == (timedelta(seconds=7), timedelta(minutes=2))
    assert (started.attempt, started.attempts, started.task) == (1, 4, "tests.ping")
    assert (started.scheduled_for, started.cause, started.owner_id) == (NOW, "schedule", job.owner_id)
    assert started.owner_key == job.owner.cronty_profile.signing_key
    assert started.key == Execution.objects.get().key


def test_notification_names_facts_of_its_run(cluster):
    message = "{{ job.name }} {{ run.date }} {{ run.time }} {{ run.attempt }}{{ trigger.body }}"
    job = JobFactory(
        task="notify",
        name="Bins",
        kwargs={"message": message, "title": "{{ job.id }}", "topic": "t"},
        timezone="Europe/Berlin",
    )

    started = begin(cluster, job)

    local = NOW.astimezone(ZoneInfo("Europe/Berlin"))
    assert started.kwargs["message"] == f"Bins {local:%Y-%m-%d %H:%M} 1"
    assert started.kwargs["title"] == job.public_id
    assert Execution.objects.get().argument("message") == started.kwargs["message"]


def test_alert_repeats_what_a_job_has_said_as_it_is(cluster):
    said = "Job Bins: {{ job.name }} {{ trigger.body }}"
    job = JobFactory(
        public_id=new_public_id(NOTICE_PREFIX, NOW), task="notify", kwargs={"message": said, "topic": "t"}
    )

    assert begin(cluster, job).kwargs["message"] == said


def test_start_records_time_lease_and_lateness(cluster):
    row = claimed(cluster)

    engine.start_runs(cluster.pk, 0, [row.pk], LATER)

    row.refresh_from_db()
    assert (row.status, row.attempt) == ("running", 1)
    assert (row.started_at, row.lease_until) == (LATER, LATER + LEASE)
    assert row.lateness == LATER - NOW


def test_started_runs_are_returned_in_the_order_of_their_ids(cluster):
    job = JobFactory()
    rows = [claimed(cluster, job=JobFactory(owner=job.owner)) for _ in range(5)]
    if connection.vendor == "postgresql":
        # With a hash join, PostgreSQL returns the runs of one owner in reverse.
        connection.cursor().execute("SET LOCAL enable_nestloop = off")

    started = engine.start_runs(cluster.pk, 0, [row.pk for row in rows], LATER)

    assert [item.execution_id for item in started] == [row.pk for row in rows]


def test_second_start_of_the_same_package_does_nothing(cluster):
    row = claimed(cluster)
    engine.start_runs(cluster.pk, 0, [row.pk], NOW)

    assert engine.start_runs(cluster.pk, 0, [row.pk], LATER) == []
    row.refresh_from_db()
    assert (row.attempt, row.started_at) == (1, NOW)


def test_run_of_a_purged_job_is_not_started(cluster):
    row = claimed(cluster)
    Execution.objects.update(job=None)

    assert engine.start_runs(cluster.pk, 0, [row.pk], NOW) == []


@pytest.mark.django_db(transaction=True)
def test_start_of_a_run_is_durable_before_its_task_is_called():
    """A crash of PostgreSQL lost starts: runs were delivered and later cancelled, or their ids were reused."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's log survives every crash except that of the machine")
    cluster = new_cluster()
    run = claimed(cluster)
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        Execution.objects.filter(pk=run.pk).update(reason="written lazily")
        cursor.execute("SELECT pg_current_wal_insert_lsn()")
        (written,) = cursor.fetchone()

        assert engine.start_runs(cluster.pk, 0, [run.pk], NOW)

        cursor.execute("SELECT pg_current_wal_flush_lsn() > %s::pg_lsn", [written])
        assert cursor.fetchone() == (True,)
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("off",)
    connection.close()
