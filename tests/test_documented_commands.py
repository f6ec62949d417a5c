"""The examples of the pages on commands, secrets and crontabs, and the example file: read, scheduled and run as written."""

import asyncio
import getpass
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from cronty_site.terminal import crontabs
from cronty_site.terminal.group import main
from schedules import clock
from schedules.models import Calendar, Job, Secret
from schedules.tasks import registry
from schedules.tasks.commands.definitions import parse
from schedules.tasks.interface import Run
from tests.clusters import PROJECT

pytestmark = pytest.mark.django_db(transaction=True)

COMMANDS = (PROJECT / "docs/how-to/commands.md").read_text()
CRONTABS = (PROJECT / "docs/how-to/crontab.md").read_text()
CALENDARS = (PROJECT / "docs/how-to/calendars.md").read_text()
SECRETS = (PROJECT / "docs/how-to/secrets.md").read_text()
EXAMPLES = (PROJECT / "examples/commands.toml").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def perform(task: str, owner: User, **kwargs: object) -> dict:
    known = registry.get(task)
    assert known is not None
    run = replace(Run.without_job(clock.now(), owner.pk, 60), execution_id=1)
    return asyncio.run(known.call(run, [], kwargs))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (COMMANDS, ["disk_space", "backup", "mail_report"]),
        (SECRETS, ["report"]),
        (EXAMPLES, ["disk_space", "archive"]),
    ],
)
def test_every_file_of_commands_is_valid(text, names, use_commands: Callable[[str], None]):
    files = blocks(text, "toml") or [text]

    assert list(parse("\n".join(files))) == names
    use_commands("\n".join(files))


def test_first_command_is_scheduled_and_runs(use_commands, operator, capsys):
    use_commands(blocks(COMMANDS, "toml")[0])
    add, run, logs = blocks(COMMANDS, "sh")[0].splitlines()

    for line in (add, run, logs):
        assert main([*shlex.split(line)[1:], "--user", operator.username]) == 0, capsys.readouterr()

    job = Job.objects.get()
    assert (job.task, job.kwargs) == ("disk_space", {"folder": "/tmp"})  # noqa: S108
    result = perform(job.task, operator, **job.kwargs)
    assert result["exit_code"] == 0
    assert "%" in result["output"]


def test_backup_gets_the_arguments_that_the_page_shows(use_commands, operator, capsys):
    use_commands(blocks(COMMANDS, "toml")[1])
    line = re.search(r'`(cronty add "every 6 hours" backup .*?)`', COMMANDS.replace("\n", " "))
    assert line is not None

    assert main([*shlex.split(line[1])[1:], "--user", operator.username]) == 0, capsys.readouterr()

    command = parse(blocks(COMMANDS, "toml")[1])["backup"]
    values = {"tag": "cronty"} | Job.objects.get().kwargs
    assert command.argument_list(values) == ["/usr/bin/restic", "backup", "--tag=cronty", "--", "/home"]
    assert command.timeout.total_seconds() == 7200


def test_secrets_are_set_and_deleted_as_the_pages_say(operator, monkeypatch, capsys):
    lines = [*blocks(SECRETS, "sh")[0].splitlines(), *blocks(COMMANDS, "sh")[1].splitlines()]
    for line in lines:
        words, _, redirected = line.partition(" < ")
        monkeypatch.setattr("sys.stdin", StringIO("hush-hush-7\n" if redirected else ""))
        assert main([*shlex.split(words)[1:], "--user", operator.username]) == 0, capsys.readouterr()

    row = Secret.objects.get()
    assert (row.name, row.commands, row.owner_id) == ("RESTIC_PASSWORD", ["backup"], None)


def test_calendars_are_set_and_deleted_as_the_page_says(operator, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team.ics").write_text("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n")
    for line in blocks(CALENDARS, "sh")[0].splitlines():
        assert main([*shlex.split(line)[1:], "--user", operator.username]) == 0, capsys.readouterr()

    row, work = Calendar.objects.order_by("name")
    assert (row.name, row.rule["categories"]) == ("DE-BY", ["public", "catholic"])
    assert (work.name, work.rule["source"]) == ("work", "team.ics")


@pytest.mark.usefixtures("commands_file")
def test_crontabs_are_taken_over_as_the_page_says(operator, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "crontab"
    program.write_text('#!/bin/sh\necho "0 3 * * * /bin/true nightly"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "my.crontab").write_text("# Tidy up\n*/10 8-18 * * 1-5 /bin/true tidy\n@reboot /bin/true\n")
    (tmp_path / "cron.d").mkdir()
    (tmp_path / "cron.d/backup").write_text(f"15 2 * * * {getpass.getuser()} /bin/true backup\n")
    monkeypatch.setattr(crontabs, "SYSTEM_PATHS", (f"{tmp_path}/cron.d/",))
    lines = blocks(CRONTABS, "sh")[0].replace("/etc/cron.d/", f"{tmp_path}/cron.d/").splitlines()
    check, own, of_system, write = lines

    # Nobody can be asked in a test.
    for line in (check, own, of_system, write):
        arguments = [*shlex.split(line, comments=True)[1:], "--user", operator.username, "--yes"]
        assert main(arguments) == 0, capsys.readouterr()
        if line == check:
            assert not Job.objects.exists()

    assert sorted(Job.objects.values_list("name", "cron", "source")) == [
        ("/bin/true", "@reboot", "my.crontab"),
        ("/bin/true backup", "15 2 * * *", "backup"),
        ("Tidy up", "*/10 8-18 * * 1-5", "my.crontab"),
    ]
    assert sorted(path.name for path in (tmp_path / "imported").iterdir()) == ["commands.toml", "jobs.yaml"]
