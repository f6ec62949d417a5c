"""The preparation of an installation, by one process at a time."""

import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError
from django.db.migrations.recorder import MigrationRecorder

from schedules.management import preparation
from schedules.management.commands import qcluster
from schedules.management.database import has_missing_migrations
from schedules.management.preparation import DatabaseAwayError
from schedules.management.preparation_lock import preparation_lock
from schedules.services.installation.command_words import how_to_run
from schedules.worker.leader import NotReadyError
from tests.databases import fill
from tests.forks import python
from tests.projects import ROOT, empty_database
from tests.waiting import PATIENCE, wait_for

PREPARE = """
import django
django.setup()
from django.contrib.auth.models import User
from schedules.management.preparation import prepare
from schedules.models import Job
prepare()
print(User.objects.filter(is_superuser=True).count(), Job.objects.filter(task="prune_history").count())
"""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a new installation, with an empty database."""
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "staticfiles.json").touch()
    with empty_database(tmp_path) as address:
        yield os.environ | {
            "DJANGO_SETTINGS_MODULE": "cronty_site.settings",
            "DATABASE_URL": address,
            "CRONTY_DATA": str(tmp_path),
            "CRONTY_STOP_SECONDS": "5",
            "COVERAGE_PROCESS_START": "",
        }


def start(environment: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*python(), *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def clusters(address: str) -> int:
    """Count the clusters in a database that Django does not know."""
    count = "SELECT COUNT(*) FROM schedules_cluster"
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as database:
            return int(database.execute(count).fetchone()[0])
    with psycopg.connect(address) as server:
        return int(server.execute(count).fetchone()[0])


@pytest.mark.verify
@pytest.mark.on_postgresql
def test_two_hosts_prepare_an_empty_database_at_once_while_a_cluster_waits_for_it(environment):
    cluster = start(environment, "manage.py", "qcluster")
    try:
        reason = cluster.stderr.readline()
        hosts = [start(environment, "-c", PREPARE) for _ in range(2)]
        endings = [(*host.communicate(timeout=PATIENCE), host.returncode) for host in hosts]
        assert [(out, code) for out, _, code in endings] == [("1 1\n", 0)] * 2, endings
        wait_for(lambda: clusters(environment["DATABASE_URL"]) == 1)
    finally:
        cluster.terminate()
        cluster.communicate(timeout=PATIENCE)

    assert f"the database is not migrated: run `{how_to_run('up')}` or `{how_to_run('migrate')}`" in reason


def test_second_process_waits_until_the_first_is_done_and_says_so(db, caplog):
    done = threading.Event()

    def wait_for_turn() -> None:
        with preparation_lock(60):
            done.set()

    with preparation_lock(0):
        second = threading.Thread(target=wait_for_turn)
        second.start()
        wait_for(lambda: "Another process is preparing this database; waiting" in caplog.text)
        assert not done.is_set()
    second.join(PATIENCE)

    assert done.is_set()


def test_wait_for_another_preparation_is_bounded(db):
    with (
        preparation_lock(0),
        pytest.raises(CommandError, match="has been preparing this database for more than 0"),
        preparation_lock(0),
    ):
        pass


def test_cluster_does_not_start_on_tables_that_are_older_than_its_code(db):
    assert not has_missing_migrations()
    MigrationRecorder.Migration.objects.filter(app="schedules").delete()

    with pytest.raises(NotReadyError, match="the database is not migrated"):
        qcluster._get_ready()


def test_up_waits_for_the_database_and_logs_each_reason_once(monkeypatch, caplog):
    answers = iter(["refused", "refused", "starting up", "refused", None])

    def prepare_in_child_process() -> str:
        if reason := next(answers):
            raise DatabaseAwayError(reason)
        return "admin"

    pauses = []
    monkeypatch.setattr(preparation, "prepare_in_child_process", prepare_in_child_process)
    monkeypatch.setattr(preparation.time, "sleep", pauses.append)

    assert preparation.prepare_when_possible() == "admin"
    assert pauses == [1, 2, 4, 8]
    assert [record.args for record in caplog.records] == [("refused",), ("starting up",), ("refused",)]


def test_static_files_are_stale_when_one_is_newer_than_the_manifest(settings, tmp_path):
    settings.STATIC_ROOT = tmp_path
    assert not preparation._static_files_are_fresh()

    (tmp_path / "staticfiles.json").touch()
    assert preparation._static_files_are_fresh()

    os.utime(tmp_path / "staticfiles.json", (0, 0))
    assert not preparation._static_files_are_fresh()


@pytest.mark.parametrize(
    ("command", "change", "reason"),
    [
        (
            "up --no-web",
            "ALTER TABLE schedules_profile RENAME COLUMN timezone TO zone",
            "schedules_profile has other columns",
        ),
        (
            "migrate",
            "INSERT INTO django_migrations (app, name, applied) VALUES ('schedules', '0002_before_the_release', '2026-11-01')",
            "schedules.0002_before_the_release, which this version of Cronty does not know",
        ),
    ],
    ids=["other columns", "another migration"],
)
def test_tables_of_an_earlier_build_are_refused_and_left_alone(
    command: str, change: str, reason: str, tmp_path: Path
):
    fill(tmp_path)
    file = tmp_path / "cronty.sqlite3"
    with closing(sqlite3.connect(file)) as database:
        database.execute(change)
        database.commit()
        database.execute("PRAGMA journal_mode = DELETE")
        before = "\n".join(database.iterdump())

    others = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    refused = start(others | {"CRONTY_DATA": str(tmp_path)}, "manage.py", *command.split())
    _, errors = refused.communicate()

    assert refused.returncode == 1
    assert reason in errors
    assert "`cronty export > jobs.yaml`" in errors
    with closing(sqlite3.connect(file)) as database:
        assert "\n".join(database.iterdump()) == before
