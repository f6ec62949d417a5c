"""Clusters of real processes: whichever process is killed, frozen or stopped, every slot ends as one row."""

import itertools
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from django.db import connection
from django.db.models import F

from schedules import clock
from schedules.models import Cluster, Execution, Job
from schedules.worker.heartbeat_watch import LOCKS, holder
from tests.clusters import (
    PROJECT,
    SHIPPED_LEASE,
    SHORT_LEASE,
    all_ended,
    environment,
    family_of,
    is_alive,
    make_due,
    member,
    running,
    running_cluster,
)
from tests.factories import ExecutionFactory
from tests.waiting import PATIENCE, wait_for
from verification.stop_under_load import notes, stop_under_load

pytestmark = pytest.mark.django_db(transaction=True)

Status = Execution.Status


def test_two_clusters_run_every_slot_once_and_prune_old_runs(tmp_path):
    path = tmp_path / "notes"
    old = ExecutionFactory(scheduled_for=clock.now() - timedelta(days=100), job__ended=True)
    # The second one starts while the first does.
    with running("qcluster"), running_cluster():
        probed = Cluster.objects.filter(probe_returned_at__gt=F("started_at"))
        wait_for(lambda: probed.count() == 2)
        make_due(60, "tests.anote", path=str(path))
        make_due(30, "tests.note", path=str(path))
        wait_for(all_ended)
        wait_for(lambda: not Execution.objects.filter(pk=old.pk).exists())

    assert Counter(Execution.objects.values_list("status", flat=True)) == {Status.SUCCEEDED: 90}
    assert set(notes(path, "end").values()) == {1}
    assert len(notes(path, "end")) == 90
    assert all(row.lateness >= timedelta(0) for row in Execution.objects.all())


# Processes that one cluster loses one after the other; on PostgreSQL, those whose connection has something open.
ROLES = ["busy", "pusher", *(["idle", "sentinel"] if connection.vendor == "sqlite" else [])]


def test_no_run_is_lost_when_one_process_after_the_other_is_killed(tmp_path):
    with running_cluster(**SHORT_LEASE) as cluster:
        jobs = {}
        for role in ROLES:
            path = tmp_path / role
            jobs[path] = make_due_together(path)
            # Whatever was lost before, its runs begin.
            wait_for(lambda path=path: notes(path, "begin"))
            kill(cluster.pid, role)
        wait_for(all_ended)
    for path, made in jobs.items():
        assert_all_succeeded(made, path)


@pytest.mark.verify
def test_no_run_is_lost_and_no_orphan_left_when_the_leader_is_killed(tmp_path):
    path = tmp_path / "notes"
    with running_cluster(**SHORT_LEASE) as cluster:
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
    with running_cluster(**SHORT_LEASE):
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


@pytest.mark.verify
def test_frozen_worker_that_wakes_up_does_not_change_the_outcome(tmp_path):
    with running_cluster(**SHIPPED_LEASE):
        for number in itertools.count():
            path, until = tmp_path / f"notes{number}", tmp_path / f"until{number}"
            jobs = make_due(1, "tests.wait", path=str(path), until=str(until))
            row = Execution.objects.filter(job__in=jobs).values("status", "attempt", "finished_at")
            wait_for(lambda path=path: notes(path, "begin"))
            frozen = psutil.Process(int(path.read_text().split()[-1]))

            frozen.suspend()
            until.touch()
            wait_for(lambda row=row: row.filter(status=Status.SUCCEEDED).exists())
            settled = row.get()
            # One that was stopped while it held the lock of the database is replaced and never wakes up.
            if is_alive(frozen):
                break
        frozen.resume()
        wait_for(lambda: sum(notes(path, "end").values()) == 2)
        wait_for(all_ended)

    assert settled["attempt"] == 2
    assert row.get() == settled


def test_cluster_runs_a_burst_and_when_stopped_finishes_what_runs_and_hands_back_the_rest(tmp_path):
    """Coroutines begin before the short plain functions of the same burst are through."""
    burst, path, until = tmp_path / "burst", tmp_path / "notes", tmp_path / "until"
    with running_cluster(CRONTY_WORKERS=1, CRONTY_STOP_SECONDS=60) as cluster:
        # One at a time, 1.5 s in all. None is due before all of them are there.
        jobs = make_due(30, "tests.note", after=3600, path=str(burst), seconds=0.05)
        Job.objects.filter(task="tests.note").update(at_most_once=True)
        jobs += make_due(30, "tests.aping", after=3600)
        due_at = clock.now() + timedelta(seconds=0.5)
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(run_at=due_at, next_run_at=due_at)
        wait_for(all_ended)
        of_burst = list(Execution.objects.order_by("-started_at"))

        make_due(8, "tests.wait", path=str(path), until=str(until), seconds=1)
        runs = Execution.objects.filter(task="tests.wait")
        wait_for(lambda: notes(path, "begin") and runs.count() > 1)
        family = family_of(cluster.pid)
        cluster.send_signal(signal.SIGTERM)
        until.touch()
        assert cluster.wait(PATIENCE) == 0
    assert Counter(row.status for row in of_burst) == {Status.SUCCEEDED: 60}
    coroutines, functions = (
        [row for row in of_burst if row.task == task] for task in ("tests.aping", "tests.note")
    )
    assert coroutines[0].started_at < functions[15].started_at
    assert set(notes(burst, "begin").values()) == {1}

    assert not any(map(is_alive, family))
    assert runs.filter(status=Status.SUCCEEDED).exists()
    assert not runs.filter(status__in=Execution.HELD).exists()
    assert runs.filter(status=Status.QUEUED).exists()
    assert notes(path, "begin").keys() == notes(path, "end").keys()
    assert Cluster.objects.get().stopped_at is not None


@pytest.mark.verify
def test_cluster_stopped_under_load_interrupts_no_run_and_repeats_none(tmp_path):
    """A small version of what `make pythons` checks on every Python."""
    assert stop_under_load(tmp_path / "notes", coroutines=60, coroutine_seconds=1.5, plain_seconds=2) == []


FORKSERVER = """
import multiprocessing, sys
from django.core.management import execute_from_command_line
multiprocessing.set_start_method("forkserver")
execute_from_command_line(["manage.py", "qcluster"])
"""


@pytest.mark.verify
def test_cluster_forks_whatever_the_default_start_method_is(tmp_path):
    """Since Python 3.14 the default is forkserver, where a child inherits neither context nor hooks."""
    [slow] = make_due(1, "tests.wait", path=str(tmp_path / "notes"), until=str(tmp_path / "never"))
    Job.objects.filter(pk=slow.pk).update(timeout=timedelta(seconds=1))
    make_due(2, "tests.ping")
    make_due(2, "tests.aping")
    process = subprocess.Popen([sys.executable, "-c", FORKSERVER], cwd=PROJECT, env=environment())
    try:
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


@pytest.mark.verify
def test_frozen_claim_loop_is_restarted_and_repeats_nothing_that_runs(tmp_path):
    path, until = tmp_path / "notes", tmp_path / "until"
    with running_cluster(**SHIPPED_LEASE) as cluster:
        make_due(1, "tests.wait", path=str(path), until=str(until))
        make_due(3, "tests.anote", path=str(path), seconds=1)
        wait_for(lambda: len(notes(path, "begin")) == 4)
        (first_lease,) = Execution.objects.filter(task="tests.wait").values_list("lease_until", flat=True)

        suspend_between_writes(member(cluster.pid, "pusher"))

        wait_for(lambda: "claim loop" in Cluster.objects.get().note)
        make_due(1, "tests.ping")
        wait_for(lambda: Execution.objects.filter(task="tests.ping", status=Status.SUCCEEDED).exists())
        wait_for(lambda: clock.now() > first_lease)
        until.touch()
        wait_for(all_ended)
    assert set(Execution.objects.values_list("status", "attempt")) == {(Status.SUCCEEDED, 1)}
    assert set(notes(path, "begin").values()) == {1}


def suspend_between_writes(process: psutil.Process) -> None:
    """Stop a process when it holds no lock: others would wait for it, and it would be replaced for another reason."""

    def holds_no_lock() -> bool:
        process.suspend()
        # What it was in the middle of may still give it a lock.
        wait_for(lambda: process.status() == psutil.STATUS_STOPPED)
        held = LOCKS.read_text().splitlines() if LOCKS.exists() else []
        if any(line.split()[3:5] == ["WRITE", str(process.pid)] for line in held):
            process.resume()
            return False
        return True

    wait_for(holds_no_lock)


@pytest.mark.verify
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


SLOW_CLAIM_ON_SQLITE = """
CREATE TABLE slow AS SELECT 1;
CREATE TRIGGER slow_claim AFTER UPDATE OF next_run_at ON schedules_job WHEN EXISTS (SELECT 1 FROM slow)
BEGIN
    SELECT count(*) FROM (
        WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers LIMIT 300000000)
        SELECT number FROM numbers);
END;
"""


@pytest.fixture
def person(transactional_db: None) -> Iterator[sqlite3.Connection]:
    """Somebody who opens the database and makes every claim take many seconds."""
    with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=PATIENCE)) as database:
        yield database
        database.executescript("DROP TRIGGER slow_claim; DROP TABLE slow")


@pytest.mark.verify
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL locks rows, not the database")
def test_claim_loop_frozen_while_it_holds_the_lock_of_the_database_is_restarted(person):
    """The leader took the locked database for the cause, and everything stopped for good."""
    with running_cluster() as cluster:
        person.executescript(SLOW_CLAIM_ON_SQLITE)
        make_due(1, "tests.ping")
        frozen = suspend_while_it_holds_the_lock(cluster.pid)

        wait_for(lambda: not is_alive(frozen))
        person.executescript("DELETE FROM slow")
        wait_for(lambda: "was restarted" in Cluster.objects.get().note)
        wait_for(all_ended)
    assert Execution.objects.get().status == Status.SUCCEEDED


@pytest.mark.verify
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL locks rows, not the database")
@pytest.mark.skipif(not LOCKS.exists(), reason="this system does not tell who holds a lock")
def test_worker_stopped_while_it_holds_the_lock_of_the_database_is_replaced():
    """Everything waited for as long as the worker was stopped."""
    with running_cluster(**SHORT_LEASE, CRONTY_WORKERS=1):
        make_due(1, "tests.hold_lock", seconds=90)
        wait_for(_is_locked)
        wait_for(_is_locked)
        stopped = psutil.Process(holder(Path(connection.settings_dict["NAME"])))

        stopped.suspend()

        wait_for(lambda: not stopped.is_running())
        wait_for(all_ended)
    assert Execution.objects.get().status == Status.SUCCEEDED


@pytest.mark.verify
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL locks rows, not the database")
@pytest.mark.skipif(not LOCKS.exists(), reason="this system does not tell who holds a lock")
def test_cluster_goes_on_when_another_one_is_stopped_as_a_whole_while_it_holds_the_lock():
    """Nothing ran for as long as the other one was stopped. The watch waits nine seconds before it acts."""
    with running_cluster(**SHORT_LEASE) as first, running_cluster(**SHORT_LEASE) as second:
        families = [[psutil.Process(each.pid), *family_of(each.pid)] for each in (first, second)]
        make_due(1, "tests.hold_lock", seconds=90)
        wait_for(_is_locked)
        wait_for(_is_locked)
        found = psutil.Process(holder(Path(connection.settings_dict["NAME"])))
        family = next(each for each in families if found in each)

        for process in family:
            process.suspend()

        try:
            wait_for(all_ended)
            wait_for(lambda: not is_alive(found))
        finally:
            for process in filter(is_alive, family):
                process.resume()
    assert Execution.objects.get().status == Status.SUCCEEDED


def suspend_while_it_holds_the_lock(leader: int) -> psutil.Process:
    """Stop the claim loop in a claim; a slow machine may have restarted it meanwhile, so look again after it stopped."""
    stopped: list[psutil.Process] = []

    def holds_the_lock() -> bool:
        with suppress(StopIteration, psutil.Error):
            found = member(leader, "pusher")
            found.suspend()
            if _is_locked():
                stopped.append(found)
            else:
                found.resume()
        return bool(stopped)

    wait_for(holds_the_lock)
    return stopped[0]


def _is_locked() -> bool:
    """Return whether another process holds the write lock for longer than ordinary writes take."""
    with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=0.5)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False
