"""Clusters of real processes whose PostgreSQL is locked by others, keeps connections, or restarts."""

import signal
import subprocess
from datetime import timedelta

import psycopg
import pytest
from django.db import connection

from schedules import clock
from schedules.models import Cluster, Execution, clusters
from tests.clusters import (
    PROJECT,
    SHIPPED_LEASE,
    SHORT_LEASE,
    all_ended,
    database_url,
    environment,
    family_of,
    make_due,
    manage,
    member,
    running,
    running_cluster,
    title_of,
)
from tests.forks import python
from tests.postgres import Postgres, patient
from tests.waiting import PATIENCE, wait_for
from verification.stop_under_load import notes

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has neither row locks nor a server"),
]

Status = Execution.Status


@pytest.fixture
def soon_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call a cluster blocked after twelve seconds, which are longer than its lease of ten."""
    monkeypatch.setattr(clusters, "BLOCKED_AFTER", timedelta(seconds=12))


@pytest.mark.verify
@pytest.mark.on_postgresql
def test_held_row_delays_only_its_own_job(tmp_path, client, soon_blocked):
    """Settling waited for the row, nobody renewed the leases meanwhile, and runs of other jobs were repeated."""
    path, is_held, end = tmp_path / "notes", tmp_path / "held", tmp_path / "end"
    with running_cluster(**SHIPPED_LEASE, CRONTY_WORKERS=1):
        held, *_ = make_due(3, "tests.await", path=str(path), until=str(is_held))
        make_due(1, "tests.wait", path=str(path), until=str(end))
        wait_for(lambda: len(notes(path, "begin")) == 4)
        with psycopg.connect(database_url()) as person:
            person.execute("SELECT 1 FROM schedules_job WHERE id = %s FOR UPDATE", [held.pk])
            is_held.touch()
            late = make_due(20, "tests.anote", path=str(path), seconds=1)
            free = Execution.objects.exclude(job=held)
            wait_for(lambda: free.filter(status=Status.SUCCEEDED, job__in=late).count() == 20)
            # Longer than the lease and than the time after which the cluster reports it.
            wait_for(lambda: client.get("/readyz").json()["unblocked"] is False)
            assert Execution.objects.get(job=held).status == Status.RUNNING
            end.touch()
            wait_for(lambda: free.filter(status=Status.SUCCEEDED).count() == 23)
        wait_for(all_ended)

    assert set(Execution.objects.values_list("status", "attempt")) == {(Status.SUCCEEDED, 1)}
    assert set(notes(path, "end").values()) == {1}


@pytest.mark.verify
@pytest.mark.on_postgresql
def test_held_table_repeats_nothing(tmp_path, soon_blocked):
    path, is_held = tmp_path / "notes", tmp_path / "held"
    with running_cluster(**SHIPPED_LEASE) as cluster:
        first = Cluster.objects.get()
        make_due(20, "tests.await", path=str(path), until=str(is_held))
        make_due(2, "tests.wait", path=str(path), until=str(is_held), seconds=5)
        wait_for(lambda: len(notes(path, "begin")) == 22)
        make_due(20, "tests.anote", path=str(path), after=0.1)
        with psycopg.connect(database_url()) as person:
            person.execute("LOCK TABLE schedules_execution IN ACCESS EXCLUSIVE MODE")
            is_held.touch()
            wait_for(lambda: Cluster.objects.blocked(clock.now()).exists())
        wait_for(all_ended)
        assert Cluster.objects.get() == first
        assert cluster.poll() is None

    assert {status for (status,) in Execution.objects.values_list("status")} == {Status.SUCCEEDED}
    assert set(notes(path, "end").values()) == {1}


def test_connections_of_killed_processes_are_closed():
    with running_cluster() as cluster:
        for _ in range(3):
            # A new process gets its title a moment after its start.
            wait_for(lambda: any(" pusher" in title_of(process) for process in family_of(cluster.pid)))
            known = set(family_of(cluster.pid))
            member(cluster.pid, "pusher").kill()
            wait_for(lambda known=known: set(family_of(cluster.pid)) - known)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            assert cursor.fetchone()[0] < 20


SPREAD_JOBS = """
import django; django.setup()
from datetime import timedelta
from schedules import clock
from tests.factories import JobFactory, UserFactory
owner = UserFactory()
for number in range(40):
    at = clock.now() + timedelta(seconds=3 + number / 5)
    JobFactory(owner=owner, once=True, run_at=at, task="tests.anote", kwargs={"path": PATH, "seconds": 0.2})
"""


def test_no_run_is_lost_when_the_database_restarts(tmp_path):
    path = tmp_path / "notes"
    with Postgres() as server:
        settings = SHORT_LEASE | {"DATABASE_URL": patient(server.url), "CRONTY_DATA": tmp_path}
        assert manage("migrate", "-v0", **settings).wait(PATIENCE) == 0
        script = SPREAD_JOBS.replace("PATH", repr(str(path)))
        subprocess.run([*python(), "-c", script], env=environment(**settings), cwd=PROJECT, check=True)
        with running("qcluster", **settings):
            wait_for(lambda: len(notes(path, "end")) > 5)

            server.stop(signal.SIGQUIT)
            server.start()

            wait_for(lambda: len(notes(path, "end")) == 40)
            wait_for(lambda: _statuses(server.url) == {"succeeded": 40})


def _statuses(url: str) -> dict[str, int]:
    with psycopg.connect(url) as database:
        return dict(
            database.execute("SELECT status, count(*) FROM schedules_execution GROUP BY status").fetchall()
        )
