"""Restores of real backups by the command, on SQLite and on PostgreSQL."""

import json
import os
import pty
import sqlite3
import subprocess
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

from schedules import clock
from schedules.management.commands.restore import maintenance_database
from schedules.models import Cluster
from tests.clusters import PROJECT, database_url
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.forks import python
from tests.postgres import _wheel

pytestmark = pytest.mark.django_db(transaction=True)

on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="this is about files")
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="this is about pg_restore")
PROGRAMS = _wheel() / "pginstall18" / "bin"
FOUND = "SELECT status, reason FROM schedules_execution ORDER BY id"


def restore(url: str, *arguments: object, answers: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command; with answers, standard input is a terminal at which somebody types them."""
    if answers:
        try:
            controller, terminal = pty.openpty()
        except OSError as error:
            pytest.skip(f"this machine has no terminals: {error}")
        os.write(controller, answers.encode())
    else:
        controller = terminal = os.open(os.devnull, os.O_RDONLY)
    try:
        return _run(url, *arguments, stdin=terminal)
    finally:
        for handle in {controller, terminal}:
            os.close(handle)


def _run(url: str, *arguments: object, stdin: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python(), "manage.py", "restore", *map(str, arguments)],
        cwd=PROJECT,
        env=os.environ
        | {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "COVERAGE_PROCESS_START": "",
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        },
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def fill() -> None:
    """One job that is due and one run under way, in a cluster that seems to be alive."""
    JobFactory(once=True, run_at=clock.now() - timedelta(seconds=1))
    job = JobFactory(next_run_at=clock.now() + timedelta(hours=1))
    ExecutionFactory(job=job, status="running", attempt=1, cluster=ClusterFactory())


def check(rows: list[tuple[str, str]]) -> None:
    assert [status for status, _ in rows] == ["lost", "skipped"]
    assert all(reason.startswith("Restored from a backup of ") for _, reason in rows)


@on_sqlite
def test_sqlite_backup_replaces_the_database_which_is_kept(tmp_path: Path):
    fill()
    backup, target = tmp_path / "copy.sqlite3", tmp_path / "cronty.sqlite3"
    call_command("backup", str(backup))
    url = f"sqlite:///{target}"

    assert "--slots" in restore(url, backup).stderr
    assert not target.exists()
    first = restore(url, backup, "--slots", "skip")
    assert first.returncode == 0, first.stderr
    assert "Slots of 1 job are skipped; runs under way that were ended: 1." in first.stdout
    with closing(sqlite3.connect(target)) as database:
        check(database.execute(FOUND).fetchall())
        assert database.execute("PRAGMA user_version").fetchone() == (0,)
    assert target.stat().st_mode & 0o077 == 0

    unsure = restore(url, backup, "--slots", "skip")
    assert "add --yes" in unsure.stderr
    with closing(sqlite3.connect(target)) as user:
        user.execute("PRAGMA journal_mode=WAL")
        user.execute("UPDATE schedules_job SET name = 'newer'")
        user.commit()
        busy = restore(url, backup, "--slots", "skip", "--yes")
        assert "stop Cronty first" in busy.stderr
        user.execute("UPDATE schedules_cluster SET stopped_at = NULL, last_seen_at = '2100-01-01 00:00:00'")
        user.commit()
    assert "A cluster is running on host" in restore(url, backup, "--slots", "skip", "--yes").stderr
    with closing(sqlite3.connect(target)) as user:
        user.execute("UPDATE schedules_cluster SET stopped_at = last_seen_at")
        user.commit()

    second = restore(url, backup, "--slots", "catch-up", "--yes")

    assert second.returncode == 0, second.stderr
    with closing(sqlite3.connect(target)) as database:
        [(status, reason)] = database.execute(FOUND).fetchall()
        assert (status, reason[:13]) == ("queued", "Restored from")
    [kept] = tmp_path.glob("cronty.sqlite3.before-*")
    with closing(sqlite3.connect(kept)) as database:
        assert database.execute("SELECT DISTINCT name FROM schedules_job").fetchall() == [("newer",)]
    assert {path.name for path in tmp_path.iterdir()} == {backup.name, target.name, kept.name}


@on_sqlite
def test_empty_database_is_replaced_without_a_question(tmp_path: Path):
    """Any command that is run before `restore` creates one."""
    fill()
    backup, target = tmp_path / "copy.sqlite3", tmp_path / "cronty.sqlite3"
    call_command("backup", str(backup))
    with closing(sqlite3.connect(target)) as database:
        database.execute("PRAGMA journal_mode=WAL")

    done = restore(f"sqlite:///{target}", backup, "--slots", "skip")

    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(target)) as database:
        check(database.execute(FOUND).fetchall())


@on_sqlite
def test_questions_are_answered_at_a_terminal(tmp_path: Path):
    fill()
    backup, target = tmp_path / "copy.sqlite3", tmp_path / "cronty.sqlite3"
    call_command("backup", str(backup))
    Cluster.objects.update(stopped_at=clock.now())
    call_command("backup", str(target))

    declined = restore(f"sqlite:///{target}", backup, answers="catch-up\nn\n")

    assert "Slots between the backup and now may have run already." in declined.stdout
    assert "Nothing was changed." in declined.stderr
    with closing(sqlite3.connect(target)) as database:
        assert [status for status, _ in database.execute(FOUND)] == ["running"]


@on_sqlite
def test_backup_copied_by_hand_is_accounted_for(tmp_path: Path):
    fill()
    target = tmp_path / "cronty.sqlite3"
    call_command("backup", str(target))

    done = restore(f"sqlite:///{target}", "--already-in-place", "--slots", "skip")

    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(target)) as database:
        check(database.execute(FOUND).fetchall())


@on_sqlite
@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_database_in_use_is_not_accounted_for(tmp_path: Path, mode: str):
    """A file without a moment of its own, as Cronty writes it; without a write-ahead log, a heartbeat tells."""
    fill()
    target = tmp_path / "cronty.sqlite3"
    call_command("backup", str(target))
    with closing(sqlite3.connect(target)) as user:
        user.execute("PRAGMA user_version=0")
        user.execute(f"PRAGMA journal_mode={mode}")
        last_seen = "2100-01-01" if mode == "DELETE" else "2000-01-01"
        user.execute("UPDATE schedules_cluster SET last_seen_at = ?", [f"{last_seen} 00:00:00"])
        user.commit()

        refused = restore(f"sqlite:///{target}", "--already-in-place", "--slots", "skip")

        assert "stop Cronty first" in refused.stderr
        assert [status for status, _ in user.execute(FOUND)] == ["running"]


REFUSED = """
import json, os, sys
import django
django.setup()
from django.core.management import CommandError, call_command
said = []
for arguments in json.loads(sys.argv[1]):
    try:
        call_command("restore", *arguments, "--slots", "skip")
        said.append("")
    except CommandError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def refusals(url: str, *commands: list[object]) -> list[str]:
    """What each command says in a process that gives all of them for one database."""
    given = json.dumps([[str(word) for word in words] for words in commands])
    environment = os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [*python(), "-c", REFUSED, given]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


@on_sqlite
def test_what_is_no_backup_is_refused_and_creates_no_database(tmp_path: Path):
    target, other, newer = (tmp_path / f"{name}.sqlite3" for name in ("cronty", "other", "newer"))
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE other (id INTEGER)")
    MigrationRecorder(connection).record_applied("schedules", "9999_from_the_future")
    try:
        call_command("backup", str(newer))
    finally:
        MigrationRecorder(connection).record_unapplied("schedules", "9999_from_the_future")

    missing, no_backup, unknown = refusals(
        f"sqlite:///{target}", ["--already-in-place"], [other], [newer, "--yes"]
    )

    assert f"There is no database {target}" in missing
    assert "is not a backup of Cronty" in no_backup
    assert "schedules.9999_from_the_future, which this version of Cronty does not know" in unknown
    assert {path.name for path in tmp_path.iterdir()} == {other.name, newer.name}


@on_sqlite
def test_database_of_another_program_is_kept_when_nobody_says_yes(tmp_path: Path):
    backup, target = tmp_path / "copy.sqlite3", tmp_path / "cronty.sqlite3"
    call_command("backup", str(backup))
    with closing(sqlite3.connect(target)) as database:
        database.execute("CREATE TABLE other (id INTEGER)")
    file = target.stat().st_ino

    [said] = refusals(f"sqlite:///{target}", [backup])

    assert f"{target} exists; to replace it, add --yes." in said
    assert target.stat().st_ino == file


def test_postgresql_database_is_never_renamed_from_a_session_in_it():
    assert [maintenance_database(name) for name in ("cronty", "postgres")] == ["postgres", "template1"]


@on_postgresql
def test_postgresql_dump_replaces_the_database_which_is_kept(tmp_path: Path):
    fill()
    dump = tmp_path / "cronty.dump"
    subprocess.run([PROGRAMS / "pg_dump", "--format=custom", f"--file={dump}", database_url()], check=True)
    name = f"{connection.settings_dict['NAME']}_restored"
    url, admin = database_url(name), database_url("postgres")
    try:
        first = restore(url, dump, "--slots", "skip")
        assert first.returncode == 0, first.stderr
        with psycopg.connect(url) as database:
            check(database.execute(FOUND).fetchall())
            in_use = restore(url, dump, "--slots", "skip", "--yes")
            assert "This database is used by" in in_use.stderr
        assert "add --yes" in restore(url, dump, "--slots", "skip").stderr

        second = restore(url, dump, "--slots", "catch-up", "--yes")

        assert second.returncode == 0, second.stderr
        with psycopg.connect(url) as database:
            assert [status for status, _ in database.execute(FOUND).fetchall()] == ["queued"]
        assert f"kept as {name}_before_" in second.stdout
    finally:
        with psycopg.connect(admin, autocommit=True) as server:
            found = server.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [f"{name}%"])
            names = [row[0] for row in found.fetchall()]
            for each in names:
                server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(each)))
    assert len(names) == 2
