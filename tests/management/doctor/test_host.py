"""This host: folder, disk, files and zone data."""

import os
from collections import namedtuple

import pytest
import time_machine

from schedules.management.doctor import host

Usage = namedtuple("Usage", "total used free")


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


def test_folder_that_cannot_be_written_is_a_problem(monkeypatch, settings):
    path = settings.CRONTY_DATA / "cronty.sqlite3"
    path.touch(0o600)
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


@pytest.mark.parametrize(
    ("today", "level"), [("2026-12-01", "ok"), ("2027-05-31", "ok"), ("2027-06-01", "warning")]
)
def test_old_zone_data_is_reported(monkeypatch, today, level):
    monkeypatch.setattr(host.zones, "release", lambda: "2026c")

    with time_machine.travel(f"{today}T12:00:00Z", tick=False):
        assert found("zone data") == [level]


def test_embedding_project_needs_no_data_folder(settings):
    del settings.CRONTY_DATA

    folder = host.data_folder()

    assert folder is None or os.path.isdir(folder)


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

    commands_file.write_text("[half")
    assert found("commands") == ["problem"]
