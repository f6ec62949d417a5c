"""The subcommand that takes over a crontab."""

import json
import sys

import click
import pytest
from django.contrib.auth.models import User

from schedules.models import Job
from schedules.tasks.commands.catalog import catalog
from tests.services.files.crontabs import REAL_LIFE

LINES = """
CRON_TZ=America/New_York
# Opening bell
30 9 * * 1-5 /opt/bell.sh open
0 3 * * * pg_dump shop | gzip > /srv/shop.gz
@reboot /opt/start.sh
@rebooted /opt/wrong.sh
"""


@pytest.fixture
def file(tmp_path, settings, owner):
    User.objects.filter(pk=owner.pk).update(is_staff=True)
    settings.CRONTY_COMMANDS_FILE = str(tmp_path / "data/commands.toml")
    (tmp_path / "data").mkdir()
    catalog.refresh()
    path = tmp_path / "my.crontab"
    path.write_text(LINES)
    yield path
    settings.CRONTY_COMMANDS_FILE = ""
    catalog.refresh()


def test_lines_are_shown_first(cronty, file, tmp_path):
    ended = cronty("import", "crontab", str(file), "--check")

    assert ended.code == 0
    assert "Opening bell" in ended.out
    assert "line 7: not taken over: this macro is unknown" in ended.out
    assert "@reboot" in ended.out
    assert "3 jobs, 3 new commands, 1 line not taken over" in ended.out
    assert not (tmp_path / "data/commands.toml").exists()
    assert not Job.objects.exists()
    assert cronty("import", "crontab", str(file)).code == 1


def test_commands_and_jobs_are_created_once(cronty, file, tmp_path):
    (tmp_path / "data/commands.toml").write_text('[mine]\ndescription = "x"\nprogram = "/bin/true"\n')

    ended = cronty("import", "crontab", str(file), "--yes", "--timezone", "Europe/Berlin")

    assert ended.code == 0, ended.err
    written = (tmp_path / "data/commands.toml").read_text()
    assert written.startswith("[mine]")
    assert sorted(Job.objects.values_list("name", "task", "cron", "timezone", "source")) == [
        ("/opt/start.sh", "start.sh", "@reboot", "America/New_York", "my.crontab"),
        ("Opening bell", "opening-bell", "30 9 * * 1-5", "America/New_York", "my.crontab"),
        (
            "pg_dump shop | gzip > /srv/shop.gz",
            "pg_dump-shop-gzip-shop.gz",
            "0 3 * * *",
            "America/New_York",
            "my.crontab",
        ),
    ]
    again = cronty("import", "crontab", str(file), "--yes", "--timezone", "Europe/Berlin", "--json")
    assert again.code == 0
    assert again.json["commands"] == {}
    assert (tmp_path / "data/commands.toml").read_text() == written
    assert Job.objects.count() == 3


def test_jobs_of_lines_that_are_gone_are_pruned_if_asked_for(cronty, file):
    file.write_text("0 3 * * * /bin/true old\n0 4 * * * /bin/true other\n")
    assert cronty("import", "crontab", str(file), "--yes").code == 0
    file.write_text("0 3 * * * /bin/true new\n0 4 * * * /bin/true other\n")

    assert cronty("import", "crontab", str(file), "--yes").code == 0
    assert Job.objects.kept().count() == 3
    pruned = cronty("import", "crontab", str(file), "--yes", "--prune")

    assert "- 0 3 * * * /bin/true old" in pruned.out
    assert sorted(Job.objects.kept().values_list("name", flat=True)) == ["/bin/true new", "/bin/true other"]


def test_system_crontab_is_recognised_by_its_users(cronty, file):
    file.write_text("17 * * * * root cd / && run-parts --report /etc/cron.hourly\n")

    assert "is read with --system" in cronty("import", "crontab", str(file), "--check").err
    assert cronty("import", "crontab", str(file), "--check", "--system").err.startswith("You are not alerted")


def test_crontab_of_real_life_is_taken_over(cronty, file):
    file.write_text(REAL_LIFE)

    ended = cronty("import", "crontab", str(file), "--yes", "--json")

    assert ended.code == 0, ended.err
    assert "You are not alerted when a job fails" in ended.err
    assert Job.objects.count() == len(ended.json["jobs"]) > 30
    assert catalog.current_problem() == ""


def test_files_are_written_for_review(cronty, file, tmp_path):
    folder = tmp_path / "imported"

    assert cronty("import", "crontab", str(file), "--write", str(folder), "--yes").code == 0

    assert "[opening-bell]" in (folder / "commands.toml").read_text()
    assert "name: Opening bell" in (folder / "jobs.yaml").read_text()
    assert not Job.objects.exists()


def test_file_that_was_reviewed_is_not_overwritten(cronty, file, tmp_path):
    folder = tmp_path / "imported"
    folder.mkdir()
    (folder / "jobs.yaml").write_text("# mine\n")

    ended = cronty("import", "crontab", str(file), "--write", str(folder), "--yes")

    assert ended.code == 1
    assert "--force" in ended.err
    assert [path.name for path in folder.iterdir()] == ["jobs.yaml"]
    assert (folder / "jobs.yaml").read_text() == "# mine\n"
    assert cronty("import", "crontab", str(file), "--write", str(folder), "--yes", "--force").code == 0


def test_commands_added_while_it_asks_are_not_lost(cronty, file, tmp_path, monkeypatch):
    commands = tmp_path / "data/commands.toml"

    def add_a_command(question, *, err):
        commands.write_text('[mine]\ndescription = "x"\nprogram = "/bin/true"\n')
        return True

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", add_a_command)

    ended = cronty("import", "crontab", str(file))

    assert ended.code == 1
    assert "changed meanwhile" in ended.err
    assert "[mine]" in commands.read_text()


def test_broken_commands_file_is_left_alone(cronty, file, tmp_path):
    (tmp_path / "data/commands.toml").write_text("[broken\n")

    ended = cronty("import", "crontab", str(file), "--yes")

    assert ended.code == 1
    assert "not TOML" in ended.err
    assert (tmp_path / "data/commands.toml").read_text() == "[broken\n"


def test_somebody_who_may_not_use_commands_is_refused(cronty, file, owner):
    User.objects.filter(pk=owner.pk).update(is_staff=False)

    ended = cronty("import", "crontab", str(file), "--yes")

    assert ended.code == 1
    assert "Only staff may use the command" in ended.err
    assert not Job.objects.exists()


def test_crontabs_of_several_files_do_not_share_jobs(cronty, file, tmp_path):
    for name, minute in (("one", 1), ("two", 2)):
        other = tmp_path / f"{name}.cron"
        other.write_text(f"# Backup\n{minute} 3 * * * /bin/echo {name}\n")
        cronty("import", "crontab", str(other), "--yes")

    assert set(Job.objects.values_list("name", "cron", "source")) == {
        ("Backup", "1 3 * * *", "one.cron"),
        ("Backup", "2 3 * * *", "two.cron"),
    }


def test_notes_are_json_for_programs(cronty, tmp_path):
    path = tmp_path / "crontab"
    path.write_text("0 3 * * * root /bin/true\n")

    shown = cronty("import", "crontab", str(path), "--check", "--json")

    notes = [json.loads(line)["note"] for line in shown.err.splitlines()]
    assert notes[0].startswith("The commands begin with names of users")
    assert len(shown.json["jobs"]) == 1
