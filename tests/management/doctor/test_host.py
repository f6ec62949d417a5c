"""This host: folder, disk, files and zone data."""

import subprocess
from collections import namedtuple
from pathlib import Path

import pytest
import time_machine

from schedules.management.doctor import host

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def database(monkeypatch, settings) -> Path:
    """An SQLite file in the data folder, whatever database the tests use."""
    file: Path = settings.CRONTY_DATA / "cronty.sqlite3"
    file.touch(0o600)
    values = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file)}
    monkeypatch.setitem(settings.DATABASES, "default", values)
    return file


def found(check: str) -> list[str]:
    return [finding.level for finding in host.examine() if finding.check == check]


def test_healthy_host_has_no_findings():
    assert {finding.level for finding in host.examine()} == {"ok"}


@pytest.mark.parametrize(
    ("free", "level"),
    [(50_000_000, "problem"), (500_000_000, "warning"), (40_000_000_000, "warning"), (100_000_000_000, "ok")],
)
def test_little_space_is_reported(monkeypatch, free, level):
    monkeypatch.setattr(host.shutil, "disk_usage", lambda path: Usage(10**12, 10**12 - free, free))

    assert found("disk") == [level]


def test_database_outside_the_data_folder_is_examined_too(monkeypatch, settings, tmp_path):
    path = tmp_path / "elsewhere" / "jobs.db"
    path.parent.mkdir()
    path.touch(0o600)
    settings.DATABASES["default"]["NAME"] = str(path)
    free = {settings.CRONTY_DATA: 10**12, path.parent: 50_000_000}
    monkeypatch.setattr(host.shutil, "disk_usage", lambda folder: Usage(10**12, 0, free[folder]))
    # The superuser may write everything, so the system's answer is given here.
    monkeypatch.setattr(host.os, "access", lambda tried, mode: tried != path)

    assert found("disk") == ["ok", "problem"]
    assert found("data") == ["ok", "problem"]


def test_folder_that_cannot_be_written_is_a_problem(monkeypatch, database):
    path = database
    # The superuser may write everything, so the system's answer is given here.
    monkeypatch.setattr(host.os, "access", lambda tried, mode: tried != path)

    [finding] = [finding for finding in host.examine() if finding.check == "data"]

    assert finding.level == "problem"
    assert str(path) in finding.message


def test_file_that_others_can_read_is_named(settings):
    path = settings.CRONTY_DATA / "secret_key"
    path.touch()
    path.chmod(0o644)

    [finding] = [finding for finding in host.examine() if finding.check == "permissions"]

    assert finding.level == "warning"
    assert finding.remedy == f"chmod go= {path}"


def test_remedy_for_a_file_with_a_blank_in_its_name_works_as_it_is_printed(monkeypatch, tmp_path):
    path = tmp_path / "my key"
    path.touch()
    path.chmod(0o644)
    monkeypatch.setattr(host.private_files, "open_to_others", lambda: [path])

    [finding] = host._private_files()
    subprocess.run(["/bin/sh", "-c", finding.remedy], check=True)

    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("today", "level"), [("2026-12-01", "ok"), ("2027-05-31", "ok"), ("2027-06-01", "warning")]
)
def test_old_zone_data_is_reported(monkeypatch, today, level):
    monkeypatch.setattr(host.zones, "release", lambda: "2026c")

    with time_machine.travel(f"{today}T12:00:00Z", tick=False):
        assert found("zone data") == [level]


def test_embedding_project_needs_no_data_folder(settings, database):
    del settings.CRONTY_DATA

    assert host.data_folders() == [database.parent]


def test_broken_file_of_commands_and_missing_programs_are_named(commands_file, use_commands):
    use_commands(
        '[here]\ndescription = "x"\nprogram = "/bin/true"\n[gone]\ndescription = "x"\nprogram = "/nowhere/x"\n'
    )
    findings = [finding for finding in host.examine() if finding.check == "commands"]
    assert [finding.level for finding in findings] == ["warning", "ok"]
    assert "gone" in findings[0].message

    own_path = '[own.environment]\nPATH = "{}"\n'
    for path, levels in [("/nowhere", ["warning", "ok"]), ("/usr/bin:/bin", ["ok"])]:
        use_commands('[own]\ndescription = "x"\nprogram = "true"\n' + own_path.format(path))
        assert found("commands") == levels

    use_commands('[own]\ndescription = "x"\nprogram = "true"\nuser = "no-such-user"\n')
    assert found("commands") == ["warning", "ok"]

    commands_file.write_text("[half")
    (finding,) = [finding for finding in host.examine() if finding.check == "commands"]
    assert finding.level == "problem"
    assert f"{commands_file} cannot be used, and the last good one stays in force: line 1:" in finding.message


def test_file_and_program_that_settings_name_but_that_do_not_exist_are_reported(
    monkeypatch, settings, tmp_path
):
    monkeypatch.setenv("CRONTY_COMMANDS_FILE", str(tmp_path / "none.toml"))
    settings.CRONTY_AGENT_COMMAND = ["no-such-agent", "--print"]

    messages = [finding.message for finding in host.examine() if finding.level == "warning"]

    assert messages == [
        f"CRONTY_COMMANDS_FILE names {tmp_path}/none.toml, which does not exist: there are no commands.",
        "The program of CRONTY_AGENT_COMMAND cannot be started on this host: no-such-agent.",
    ]
