"""A SQLite database whose file is replaced while processes have it open."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from schedules.engine import sqlite_file
from schedules.management.doctor.database import examine_connection
from tests.clusters import PROJECT, environment, running
from tests.waiting import wait_for


def create_database(path: Path, rows: int = 1) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE jobs (name)")
        database.executemany("INSERT INTO jobs VALUES (?)", [["tea" * 100]] * rows)


class SQLite:
    vendor = "sqlite"

    def __init__(self, path: Path) -> None:
        self.settings_dict = {"NAME": str(path)}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A database that this process works with."""
    path = tmp_path / "cronty.sqlite3"
    create_database(path)
    monkeypatch.setattr(sqlite_file, "connections", {"default": SQLite(path)})
    yield path
    sqlite_file._watches.clear()


def test_file_that_stays_in_place_is_used_on(path):
    sqlite_file.refuse_replaced()
    create_database(path.with_name("another"))

    assert not sqlite_file.is_replaced()
    assert sqlite_file.replaced_at() == ""


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "replaced"])
def test_other_file_in_its_place_is_refused_and_logged(path, is_removed, caplog):
    sqlite_file.refuse_replaced()
    create_database(path.with_name("another"))
    path.unlink() if is_removed else path.with_name("another").rename(path)

    with pytest.raises(sqlite_file.ReplacedError):
        sqlite_file.refuse_replaced()

    assert str(path) in caplog.text
    assert sqlite_file.replaced_at().endswith("UTC")


def test_log_of_the_old_file_is_kept_and_not_applied_to_the_new_one(path):
    with closing(sqlite3.connect(path)) as old:
        old.execute("PRAGMA journal_mode=WAL")
        old.execute("INSERT INTO jobs VALUES ('coffee')")
        old.commit()
        assert not sqlite_file.is_replaced()
        create_database(path.with_name("another"), rows=5)
        path.with_name("another").rename(path)

        assert sqlite_file.is_replaced()

        (kept,) = path.parent.glob("cronty.sqlite3-wal.replaced-*")
        assert b"coffee" in kept.read_bytes()
        with closing(sqlite3.connect(path)) as new:
            assert new.execute("SELECT count(*), max(name) FROM jobs").fetchone() == (5, "tea" * 100)


def test_next_start_examines_the_new_file_once(path, caplog):
    assert not sqlite_file.is_replaced()
    create_database(path.with_name("another"))
    path.with_name("another").rename(path)
    assert sqlite_file.is_replaced()

    sqlite_file.examine_replaced()

    assert "it is intact" in caplog.text
    assert sqlite_file.replaced_at() == ""


def test_next_start_is_refused_with_a_damaged_file(path):
    assert not sqlite_file.is_replaced()
    another = path.with_name("another")
    create_database(another, rows=100)
    with another.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"x" * 4096)
    another.rename(path)
    assert sqlite_file.is_replaced()

    with pytest.raises(sqlite_file.DamagedError, match=r"is damaged .* restore a backup"):
        sqlite_file.examine_replaced()

    assert sqlite_file.replaced_at() != ""


def test_doctor_says_that_the_file_was_replaced(path):
    assert not sqlite_file.is_replaced()
    path.unlink()
    assert sqlite_file.is_replaced()

    (finding,) = examine_connection()

    assert finding.level == "problem"
    assert "replaced while Cronty was running" in finding.message


# Starts and stops real processes, twice, which takes several seconds.
@pytest.mark.verify
def test_replaced_database_stops_the_cluster_and_the_pages_and_stays_intact(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    data = tmp_path / "data"
    database = data / "cronty.sqlite3"
    values = {"CRONTY_DATA": data, "DATABASE_URL": f"sqlite:///{database}", "CRONTY_ADMIN_PASSWORD": "known"}
    data.mkdir()
    with running("up", "--port", port, **values):
        wait_for(lambda: answer(port, "readyz")[0] == 200)
        backup = tmp_path / "backup.sqlite3"
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        shutil.copy(backup, tmp_path / "another")
        os.replace(tmp_path / "another", database)

        wait_for(lambda: answer(port, "readyz")[0] == 503)
        assert "was replaced" in json.loads(answer(port, "readyz")[1])["reason"]
        assert answer(port, "login/")[0] == 503
        assert b"was replaced" in answer(port, "login/")[1]
        wait_for(lambda: list(data.glob("cronty.sqlite3.replaced")))
    with closing(sqlite3.connect(database)) as new:
        assert new.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    checked = subprocess.run(
        [sys.executable, "manage.py", "up", "--check", "--no-web"],
        cwd=PROJECT,
        env=environment(**values, CRONTY_LOG_LEVEL="WARNING"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert "it is intact" in checked.stderr


def answer(port: str, path: str) -> tuple[int, bytes]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as reply:
            return reply.status, reply.read()
    except HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""
