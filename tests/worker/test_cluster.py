"""Clusters of real processes: whichever process is killed, frozen or stopped, every slot ends as one row."""

import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import psutil
import psycopg
import pytest
from django.db import connection, connections

from schedules import clock
from schedules.models import Cluster, Execution, Job
from schedules.worker.cluster import HeartbeatWatch, _relax_durability
from tests.clusters import (
    PATIENCE,
    PROJECT,
    environment,
    family_of,
    is_alive,
    make_due,
    manage,
    member,
    running,
    running_cluster,
    wait_for,
)
from tests.factories import ClusterFactory
from tests.postgres import Postgres
from verification.stop_under_load import notes, stop_under_load

pytestmark = pytest.mark.django_db(transaction=True)

Status = Execution.Status


def all_ended() -> bool:
    # Every cluster creates the nightly pruning job, which stays armed.
    jobs = Job.objects.exclude(task="prune_history")
    return not Execution.objects.live().exists() and not jobs.armed().exists()


def test_two_clusters_run_every_slot_once(tmp_path):
    path = tmp_path / "notes"
    with running_cluster(), running_cluster():
        make_due(60, "tests.anote", path=str(path))
        make_due(30, "tests.note", path=str(path))
        wait_for(all_ended)

    assert Counter(Execution.objects.values_list("status", flat=True)) == {Status.SUCCEEDED: 90}
    assert set(notes(path, "end").values()) == {1}
    assert len(notes(path, "end")) == 90
    assert all(row.lateness >= timedelta(0) for row in Execution.objects.all())


# Processes that one cluster loses one after the other. The second list takes longer to notice.
ROLES = {"soon": ["busy", "pusher", "sentinel"], "late": ["idle", "monitor"]}


@pytest.mark.parametrize("roles", ROLES.values(), ids=ROLES)
def test_no_run_is_lost_when_a_process_is_killed(roles, tmp_path):
    with running_cluster() as cluster:
        for role in roles:
            path = tmp_path / role
            jobs = make_due_together(path)
            wait_for(lambda path=path: notes(path, "begin"))

            kill(cluster.pid, role)

            wait_for(all_ended)
            assert_all_succeeded(jobs, path)


def test_no_run_is_lost_and_no_orphan_left_when_the_leader_is_killed(tmp_path):
    path = tmp_path / "notes"
    with running_cluster() as cluster:
        jobs = make_due_together(path)
        once = make_due(1, "tests.anote", path=str(tmp_path / "once"), seconds=60)
        Job.objects.filter(pk=once[0].pk).update(at_most_once=True)
        wait_for(lambda: notes(path, "begin") and notes(tmp_path / "once", "begin"))
        family = family_of(cluster.pid)
        assert len(family) >= 5

        cluster.kill()
        cluster.wait()

        wait_for(lambda: not any(map(is_alive, family)))
    # Start another cluster, as `manage.py up` does.
    with running_cluster():
        wait_for(all_ended)
    assert_all_succeeded(jobs, path)
    lost = Execution.objects.get(job__in=once)
    assert (lost.status, lost.attempt) == (Status.LOST, 1)
    assert notes(tmp_path / "once", "begin") == {lost.key: 1}


def make_due_together(path: Path) -> list[Job]:
    return [
        *make_due(1, "tests.note", path=str(path), seconds=2),
        *make_due(20, "tests.anote", path=str(path), seconds=0.2),
    ]


def kill(leader: int, role: str) -> None:
    """Kill a process of the cluster; a cluster that is being restarted may not have it yet."""

    def is_killed() -> bool:
        try:
            member(leader, role).kill()
        except (StopIteration, IndexError, psutil.Error):
            return False
        return True

    wait_for(is_killed)


def assert_all_succeeded(jobs: list[Job], path: Path) -> None:
    rows = Execution.objects.filter(job__in=jobs)
    assert Counter(rows.values_list("status", flat=True)) == {Status.SUCCEEDED: len(jobs)}
    assert len(notes(path, "end")) == len(jobs)


def test_frozen_worker_that_wakes_up_does_not_change_the_outcome(tmp_path):
    path = tmp_path / "notes"
    with running_cluster() as cluster:
        make_due(1, "tests.note", path=str(path), seconds=1)
        wait_for(lambda: notes(path, "begin"))
        frozen = member(cluster.pid, "busy")

        frozen.suspend()
        wait_for(lambda: Execution.objects.filter(status=Status.SUCCEEDED).exists())
        settled = Execution.objects.values("status", "attempt", "finished_at").get()
        frozen.resume()
        wait_for(lambda: sum(notes(path, "end").values()) == 2)
        wait_for(all_ended)

    assert settled["attempt"] == 2
    assert Execution.objects.values("status", "attempt", "finished_at").get() == settled


def test_stopped_cluster_finishes_running_work_and_hands_back_the_rest(tmp_path):
    path = tmp_path / "notes"
    with running_cluster(CRONTY_WORKERS=1, CRONTY_STOP_SECONDS=60) as cluster:
        make_due(8, "tests.note", path=str(path), seconds=1)
        wait_for(lambda: notes(path, "begin"))
        family = family_of(cluster.pid)

        cluster.send_signal(signal.SIGTERM)

        assert cluster.wait(PATIENCE) == 0
    assert not any(map(is_alive, family))
    assert Execution.objects.filter(status=Status.SUCCEEDED).exists()
    assert not Execution.objects.filter(status__in=Execution.HELD).exists()
    assert Execution.objects.filter(status=Status.QUEUED).exists()
    assert notes(path, "begin").keys() == notes(path, "end").keys()
    assert Cluster.objects.get().stopped_at is not None


def test_cluster_stopped_under_load_interrupts_no_run_and_repeats_none(tmp_path):
    """A small version of what `make pythons` checks on every Python."""
    assert stop_under_load(tmp_path / "notes", coroutines=60, coroutine_seconds=1.5, plain_seconds=2) == []


FORKSERVER = """
import multiprocessing, sys
from django.core.management import execute_from_command_line
multiprocessing.set_start_method("forkserver")
execute_from_command_line(["manage.py", "qcluster"])
"""


def test_cluster_forks_whatever_the_default_start_method_is(tmp_path):
    """Since Python 3.14 the default is forkserver, where a child inherits neither context nor hooks."""
    process = subprocess.Popen([sys.executable, "-c", FORKSERVER], cwd=PROJECT, env=environment())
    try:
        [slow] = make_due(1, "tests.wait", path=str(tmp_path / "notes"), until=str(tmp_path / "never"))
        Job.objects.filter(pk=slow.pk).update(timeout=timedelta(seconds=1))
        make_due(2, "tests.ping")
        make_due(2, "tests.aping")
        wait_for(lambda: Execution.objects.count() == 5 and all_ended())
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    # A plain function that times out fails alone.
    row = Execution.objects.get(job=slow)
    assert (row.status, row.error) == (Status.FAILED, "Timed out after 1 seconds.")
    assert Execution.objects.filter(status=Status.SUCCEEDED).count() == 4
    assert Cluster.objects.get().stopped_at is not None


def test_frozen_claim_loop_is_restarted_and_recorded_on_the_cluster():
    with running_cluster() as cluster:
        first = Cluster.objects.get()

        member(cluster.pid, "pusher").suspend()

        wait_for(lambda: Cluster.objects.exclude(pk=first.pk).exists())
        first.refresh_from_db()
        assert "claim loop" in first.note
        make_due(1, "tests.ping")
        wait_for(all_ended)
    assert Execution.objects.get().status == Status.SUCCEEDED


def test_long_plain_functions_do_not_delay_coroutines(tmp_path):
    path, until = tmp_path / "notes", tmp_path / "until"
    with running_cluster(CRONTY_WORKERS=2):
        make_due(4, "tests.wait", path=str(path), until=str(until))
        wait_for(lambda: len(notes(path, "begin")) == 2)

        make_due(1, "tests.aping", after=0.1)

        wait_for(lambda: Execution.objects.filter(task="tests.aping", status=Status.SUCCEEDED).exists())
        assert not notes(path, "end")
        until.touch()
        wait_for(all_ended)
    assert set(notes(path, "begin").values()) == {1}


def test_watch_reports_nothing_while_heartbeats_arrive(monkeypatch):
    moments = iter(range(0, 100, 3))
    monkeypatch.setattr("schedules.worker.cluster.time.monotonic", lambda: next(moments) / 2)
    cluster = ClusterFactory()
    watch = HeartbeatWatch()

    for _ in range(10):
        Cluster.objects.filter(pk=cluster.pk).update(last_seen_at=clock.now(), probe_returned_at=clock.now())
        assert watch.trouble(cluster.pk) == ""


def test_watch_does_not_blame_the_cluster_for_a_database_outage():
    watch = HeartbeatWatch()
    watch._looked_at -= 100

    assert watch.trouble(cluster_id=0) == ""


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no such options")
@pytest.mark.parametrize(
    ("is_pooled", "options"),
    [(False, "-c search_path=jobs -c synchronous_commit=off"), (True, "-c search_path=jobs")],
)
def test_cluster_keeps_the_database_options_of_the_operator(monkeypatch, is_pooled, options):
    asked = {"OPTIONS": {"options": "-c search_path=jobs"}, "DISABLE_SERVER_SIDE_CURSORS": is_pooled}
    monkeypatch.setattr(connections["default"], "settings_dict", connection.settings_dict | asked)

    _relax_durability()

    assert connection.settings_dict["OPTIONS"]["options"] == options


def test_cluster_works_with_the_database_options_of_another_project(monkeypatch):
    bare = {"OPTIONS": {}, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}
    own = {
        name: value
        for name, value in connection.settings_dict.items()
        if name != "DISABLE_SERVER_SIDE_CURSORS"
    }
    monkeypatch.setattr(connections["default"], "settings_dict", own | bare)

    _relax_durability()

    assert "init_command" not in connection.settings_dict["OPTIONS"]
    assert connection.settings_dict["CONN_MAX_AGE"] > 0


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server that counts connections")
def test_connections_of_killed_processes_are_closed():
    with running_cluster() as cluster:
        for _ in range(3):
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


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server that could be restarted")
def test_no_run_is_lost_when_the_database_restarts(tmp_path):
    path = tmp_path / "notes"
    with Postgres() as server:
        settings = {"DATABASE_URL": server.url, "CRONTY_DATA": tmp_path}
        assert manage("migrate", "-v0", **settings).wait(60) == 0
        script = SPREAD_JOBS.replace("PATH", repr(str(path)))
        subprocess.run([sys.executable, "-c", script], env=environment(**settings), cwd=PROJECT, check=True)
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
