"""Backups: complete or absent, even when interrupted, and complete when restored."""

import os
import sqlite3
import subprocess
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from schedules.management.commands.backup import pg_dump_command
from schedules.models import Job
from tests.clusters import PROJECT
from tests.factories import ExecutionFactory, JobFactory
from tests.forks import python
from tests.waiting import PATIENCE

only_on_sqlite = pytest.mark.skipif(
    "DATABASE_URL" in os.environ and "sqlite" not in os.environ["DATABASE_URL"],
    reason="PostgreSQL has pg_dump",
)
pytestmark = pytest.mark.django_db(transaction=True)


def backup_process(database: Path, path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*python(), "manage.py", "backup", str(path)],
        cwd=PROJECT,
        env=os.environ | {"DATABASE_URL": f"sqlite:///{database}", "COVERAGE_PROCESS_START": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A database large enough to kill its backup halfway."""
    path = tmp_path / "large.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE schedules_job (id INTEGER PRIMARY KEY, body BLOB)")
        database.executemany(
            "INSERT INTO schedules_job (body) VALUES (?)", [(os.urandom(100_000),) for _ in range(150)]
        )
        database.commit()
    return path


@only_on_sqlite
def test_backup_contains_every_row_in_one_private_file(tmp_path):
    for _ in range(3):
        ExecutionFactory(job=JobFactory())
    path = tmp_path / "copy.sqlite3"

    text = call_command("backup", str(path))

    assert str(path) in text
    with closing(sqlite3.connect(path)) as copy:
        assert copy.execute("SELECT count(*) FROM schedules_job").fetchone() == (Job.objects.count(),)
        assert copy.execute("SELECT count(*) FROM schedules_execution").fetchone() == (3,)
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [file.name for file in tmp_path.iterdir()] == ["copy.sqlite3"]
    assert path.stat().st_mode & 0o077 == 0


def test_backup_of_a_database_that_does_not_exist_is_refused(tmp_path):
    path = tmp_path / "copy.sqlite3"

    with backup_process(tmp_path / "missing.sqlite3", path) as process:
        said, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, list(tmp_path.iterdir())) == (1, [])
    assert f"There is no database {tmp_path}/missing.sqlite3: check CRONTY_DATA, or run".encode() in said


def test_backup_of_another_database_is_refused(tmp_path):
    path, other = tmp_path / "copy.sqlite3", tmp_path / "other.sqlite3"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY)")

    with backup_process(other, path) as process:
        said, _ = process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert b"not one of Cronty" in said
    assert not path.exists()


@only_on_sqlite
def test_backup_does_not_overwrite_a_file(tmp_path):
    path = tmp_path / "copy.sqlite3"
    path.write_text("precious")

    with pytest.raises(CommandError, match="exists already"):
        call_command("backup", str(path))

    assert path.read_text() == "precious"


@only_on_sqlite
def test_backup_names_a_missing_folder(tmp_path):
    with pytest.raises(CommandError, match="does not exist"):
        call_command("backup", str(tmp_path / "nowhere" / "copy.sqlite3"))


@only_on_sqlite
def test_backup_is_a_consistent_snapshot_while_others_write(tmp_path):
    """Each job is created with its run in one transaction: a copy must never contain one without the other."""
    over = threading.Event()

    def keep_creating() -> None:
        while not over.is_set():
            with transaction.atomic():
                ExecutionFactory(job=JobFactory())
        connection.close()

    writer = threading.Thread(target=keep_creating)
    writer.start()
    try:
        for number in range(5):
            call_command("backup", str(tmp_path / f"{number}.sqlite3"))
    finally:
        over.set()
        writer.join()

    for number in range(5):
        with closing(sqlite3.connect(tmp_path / f"{number}.sqlite3")) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            jobs = copy.execute("SELECT count(*) FROM schedules_job").fetchone()
            assert copy.execute("SELECT count(*) FROM schedules_execution").fetchone() == jobs
    assert Job.objects.count() > jobs[0] > 0


def test_backup_killed_halfway_leaves_no_file_under_its_name_and_can_be_repeated(tmp_path, large):
    path = tmp_path / "copy.sqlite3"
    folder = tmp_path / "copy.sqlite3.partial"
    partial = folder / "cronty.sqlite3"
    # A machine that is slow to kill it lets a backup finish.
    for _ in range(50):
        process = backup_process(large, path)
        until = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < until:
            with suppress(FileNotFoundError):
                if partial.stat().st_size > 1_000_000:
                    process.kill()
                    break
        process.communicate()
        if not path.exists():
            break
        path.unlink()
    else:
        pytest.fail("no backup was killed halfway")

    with backup_process(large, path) as process:
        said, _ = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0, said
    assert contents(path) == contents(large)
    assert not folder.exists()


def test_only_one_of_two_backups_to_the_same_path_succeeds(tmp_path, large):
    path = tmp_path / "copy.sqlite3"

    first, second = backup_process(large, path), backup_process(large, path)
    codes = sorted([first.wait(PATIENCE), second.wait(PATIENCE)])
    first.communicate()
    second.communicate()

    assert codes == [0, 1]
    assert contents(path) == contents(large)


def test_pg_dump_command_has_the_connection_but_not_the_password():
    values = {"HOST": "db", "PORT": 5433, "USER": "cronty", "PASSWORD": "hidden", "NAME": "it's"}

    text = pg_dump_command(values, Path("/backups/today.dump"))

    assert text.startswith("pg_dump --format=custom --file=/backups/today.dump --host=db --port=5433")
    assert "hidden" not in text
    assert "it'\"'\"'s" in text


def test_backup_on_postgresql_fails_and_names_pg_dump(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "vendor", "postgresql")

    with pytest.raises(CommandError, match="pg_dump"):
        call_command("backup", str(tmp_path / "copy.dump"))

    assert not list(tmp_path.iterdir())
