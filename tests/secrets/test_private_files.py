"""Private files: what other users of the machine may read, before and after a start."""

import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import LazySettings

from schedules import checks
from schedules.secrets import private_files
from tests.forks import python

ROOT = Path(__file__).parents[2]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def create_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE jobs (name)")


@pytest.fixture
def data(settings: LazySettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder as an older version left it: readable by everybody."""
    folder = tmp_path / "data"
    (folder / "static").mkdir(parents=True)
    for name in ("cronty.sqlite3", "cronty.sqlite3-wal", "secret_key", "commands.toml", "static/app.css"):
        if name == "cronty.sqlite3":
            create_database(folder / name)
        else:
            (folder / name).write_bytes(b"x")
        (folder / name).chmod(0o644)
    folder.chmod(0o755)
    settings.CRONTY_DATA, settings.BASE_DIR = folder, tmp_path
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "cronty.sqlite3")}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    return folder


def test_schedules_w005_files_that_others_can_read(data: Path):
    found = list(checks.check_files())

    assert {message.id for message in found} == {"schedules.W005"}
    assert len(found) == 5
    assert f"chmod go= {data}" in {str(message.hint).removeprefix("Take them away: ") for message in found}


def test_start_takes_the_rights_of_others_away_and_logs_it(data: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        private_files.restrict_to_owner()

    assert mode_of(data) == 0o700
    assert {mode_of(path) for path in data.iterdir() if path.is_file()} == {0o600}
    assert mode_of(data / "static" / "app.css") == 0o644
    assert f"had rights on {data / 'secret_key'}" in caplog.text
    assert list(checks.check_files()) == []


@pytest.mark.parametrize("name", ["commands.toml", ".env"])
@pytest.mark.parametrize("mode", [0o660, 0o602])
def test_what_others_could_change_is_not_trusted_by_taking_their_rights_away(data, caplog, name, mode):
    (data / name).write_text("x")
    (data / name).chmod(mode)

    private_files.restrict_to_owner()

    assert mode_of(data / name) == mode
    assert f"can change {data / name}: read it, then chmod go= {data / name}" in caplog.text


def test_database_and_settings_file_elsewhere_are_private_too(data: Path, settings: LazySettings):
    elsewhere = data.parent / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    names = ("jobs.db", "jobs.db-wal", "jobs.db.before-20260101T000000", "other.txt", "jobs.db.html")
    files = [elsewhere / name for name in names]
    for file in (*files, data.parent / ".env"):
        create_database(file)
        file.chmod(0o644)
    settings.DATABASES["default"]["NAME"] = str(files[0])

    private_files.restrict_to_owner()

    assert [mode_of(file) for file in files] == [0o600, 0o600, 0o600, 0o644, 0o644]
    assert mode_of(data.parent / ".env") == 0o600


def test_files_and_folders_that_are_not_of_cronty_stay_as_they_are(data: Path, settings: LazySettings):
    shared = data.parent / "shared"
    (shared / "commands.toml").mkdir(parents=True)
    others = [shared / "index.html", shared / "notes", shared / "notes-wal"]
    for file in others:
        file.write_text("text of somebody else")
        file.chmod(0o644)
    folders = [shared, shared / "commands.toml"]
    for folder in folders:
        folder.chmod(0o755)
    settings.CRONTY_DATA = shared
    settings.DATABASES["default"]["NAME"] = str(shared / "notes")

    private_files.restrict_to_owner()

    assert {mode_of(file) for file in others} == {0o644}
    assert {mode_of(folder) for folder in folders} == {0o755}


@pytest.mark.parametrize(("command", "mode"), [("check", 0o644), ("qcluster --help", 0o600)])
def test_only_a_start_changes_permissions(tmp_path: Path, command: str, mode: int):
    key = tmp_path / "secret_key"
    key.write_text("0123456789 abcdefghijklmnopqrstuvwxyz")
    key.chmod(0o644)

    subprocess.run(
        [*python(), "manage.py", *command.split()],
        cwd=ROOT,
        env={"CRONTY_DATA": str(tmp_path), "PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
    )

    assert mode_of(key) == mode


def test_shared_folder_and_target_of_a_link_stay_as_they_are(data: Path, caplog: pytest.LogCaptureFixture):
    outside = data.parent / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    (data / "link").symlink_to(outside)
    data.chmod(0o1777)

    private_files.restrict_to_owner()

    assert (mode_of(outside), data.stat().st_mode & 0o7777) == (0o644, 0o1777)
    assert f"have rights on {data}, which is not ours to change" in caplog.text


def test_look_at_an_open_database_keeps_its_locks(data: Path):
    """A process that closes a file loses all its locks on it; the next one to leave then deleted the log in use."""
    leave = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM jobs'); c.close()"
    )
    database, log = data / "cronty.sqlite3", data / "cronty.sqlite3-wal"
    log.unlink()
    with closing(sqlite3.connect(database, isolation_level=None)) as session:
        session.execute("PRAGMA journal_mode=WAL")
        session.execute("INSERT INTO jobs VALUES ('backup')")

        assert database in private_files.open_to_others()
        subprocess.run([sys.executable, "-c", leave, str(database)], check=True)

        assert log.stat().st_size > 0


def test_database_whose_pages_are_partly_in_its_log_is_private_too(data: Path):
    database = data / "cronty.sqlite3"
    os.truncate(database, database.stat().st_size // 2)

    assert database in private_files.open_to_others()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_file_of_another_user_is_reported_and_left_alone(data: Path):
    os.chown(data / "commands.toml", 12345, 12345)

    private_files.restrict_to_owner()

    assert mode_of(data / "commands.toml") == 0o644
    assert len(list(checks.check_files())) == 1


@pytest.mark.verify
def test_every_file_that_commands_create_is_private_whatever_the_umask(tmp_path: Path):
    data = tmp_path / "data"
    variables = {"CRONTY_DATA": str(data), "PATH": os.environ["PATH"]}
    manage = f"{sys.executable} {ROOT / 'manage.py'}"
    commands = f"umask 022; {manage} migrate -v0 && {manage} backup {data}/copy"

    subprocess.run(["sh", "-c", commands], env=variables, check=True, capture_output=True)

    # A connection keeps the log and the index of the database open.
    with closing(sqlite3.connect(data / "cronty.sqlite3")) as database:
        database.execute("CREATE TABLE made_later (id INTEGER)")
        names = {path.name for path in data.iterdir() if path.is_file() and mode_of(path) == 0o600}
    assert names == {"secret_key", "cronty.sqlite3", "cronty.sqlite3-wal", "cronty.sqlite3-shm", "copy"}
    assert mode_of(data) == 0o700
