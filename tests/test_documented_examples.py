"""The examples of the other pages: doctests, a task of one's own, the terminal, files and backups, executed as written."""

import asyncio
import doctest
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import call_command, get_commands

import schedules.tasks
from cronty_site.terminal.group import main
from schedules import clock
from schedules.management.commands.up import greeting
from schedules.models import Job
from schedules.services.installation.setup import FirstUser
from schedules.web.views.job import TABS
from tests import documented
from tests.clusters import PROJECT
from tests.factories import JobFactory
from tests.forks import python
from tests.projects import Project

HOW_TO = PROJECT / "docs/how-to"


def blocks(page: Path, language: str) -> list[str]:
    return [block.text for block in documented.blocks(str(page.relative_to(PROJECT)), language)]


def test_clock_changes_are_as_the_page_shows():
    result = doctest.testfile(str(PROJECT / "docs/explanation/time-zones.md"), module_relative=False)

    assert result.attempted > 3
    assert result.failed == 0


def test_tasks_of_the_pages_are_found_and_run(tmp_path: Path):
    """The app of the how-to page, whose folder its own commands make, with the task of the README beside it."""
    (code,) = blocks(HOW_TO / "own-task.md", "python")
    (in_readme,) = blocks(PROJECT / "README.md", "python")
    folder, start = blocks(HOW_TO / "own-task.md", "sh")
    subprocess.run(["sh", "-euc", folder], cwd=tmp_path, check=True)
    (tmp_path / code.splitlines()[0].removeprefix("# ")).write_text(f"{code}\n{in_readme}")
    (variable,) = re.findall(r"^CRONTY_APPS=(\w+) make up", start)
    site = Project(PROJECT, {"CRONTY_DATA": str(tmp_path / "data"), "CRONTY_APPS": variable})

    said = site.shell(
        "from schedules.tasks import registry as r; print(r.get('free_space').function('/', percent=0),"
        " r.get('clean_up').check([], {'folder': '/tmp', 'days': 'x'}))"
    )

    assert re.match(r"/ has \d+ % free \[.*days", said)


def test_pictures_name_files_that_exist():
    """Those of the page on the architecture: its diagrams, and the list of folders."""
    page = PROJECT / "docs/explanation/architecture.md"
    (folders,) = blocks(page, "")
    pictures = "".join(blocks(page, "mermaid"))
    named = re.findall(r"(?:^|(?<= ))([a-z_]+(?:/[a-z_]+)?)/(?=\s)", folders, flags=re.MULTILINE)
    named += re.findall(r"[a-z_/]+\.py", pictures)
    apps = (PROJECT / "schedules" / name for name in ("", "engine", "worker", "tasks"))
    places = [PROJECT, PROJECT / "cronty_site", *apps]

    assert len(named) > 15
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_workflow_is_started_with_the_key_of_the_run():
    """The example for an engine of workflows, with a client that refuses a second workflow of the same id."""

    class AlreadyStartedError(Exception): ...

    started: dict[str, str] = {}

    class Client:
        async def start_workflow(self, name: str, branch: str, *, id: str, **options: object) -> None:  # noqa: A002
            if id in started:
                raise AlreadyStartedError
            started[id] = f"{name} {branch} {options['task_queue']}"

    (code,) = blocks(PROJECT / "docs/explanation/scale.md", "python")
    names = {
        **vars(schedules.tasks),
        "task": lambda name: lambda function: function,
        "suppress": suppress,
        "temporal": Client(),
        "WorkflowAlreadyStartedError": AlreadyStartedError,
        "WorkflowIDReusePolicy": SimpleNamespace(REJECT_DUPLICATE=1),
    }
    exec(code, names)  # noqa: S102
    run = replace(schedules.tasks.Run.without_job(clock.now(), 1, 60), key="slot-7")

    answers = [asyncio.run(names["start_report"]("north", run=run)) for _ in range(2)]

    assert answers == ["slot-7", "slot-7"]
    assert started == {"slot-7": "Report north reports"}


@pytest.mark.django_db
def test_findings_of_the_page_are_those_of_doctor(settings):
    settings.CRONTY_MANAGE = ["-m", "cronty_site"]
    (shown,) = blocks(HOW_TO / "monitoring.md", "")
    out = StringIO()

    with suppress(SystemExit):
        call_command("doctor", "--offline", stdout=out)

    def shape(text: str) -> set[str]:
        """The lines, without the values that differ between hosts."""
        return {re.sub(r"\d[\d.]*|under .*|PostgreSQL|SQLite|[GM]B", "…", line) for line in text.splitlines()}

    assert shape(shown) <= shape(out.getvalue())


def test_errors_of_the_page_can_be_raised():
    page = (HOW_TO / "own-task.md").read_text()
    names = {**vars(schedules.tasks), "timedelta": timedelta}

    raised = [eval(code, names) for code in re.findall(r"`raise (.+?)`", page)]  # noqa: S307

    assert [type(error).__name__ for error in raised] == ["Final", "RetryLater"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", ["docs/reference/terminal.md", "docs/first-steps/first-reminder.md"])
def test_commands_of_the_terminal_work_in_their_order(operator, capsys, page):
    for line in blocks(PROJECT / page, "sh")[-1].splitlines():
        assert main([*shlex.split(line)[1:], "--user", operator.username]) == 0, capsys.readouterr()

    assert Job.objects.get().name == "Stand up"


def test_first_steps_show_what_up_prints():
    page = (PROJECT / "docs/first-steps/first-reminder.md").read_text()
    printed = greeting({"host": "127.0.0.1", "port": 8000, "no_web": False}, FirstUser("admin", "…"), "admin")

    (shown,) = re.findall(r"```\n(  Cronty .*?)```", page, flags=re.DOTALL)
    assert shown in printed
    assert "changepassword" in get_commands()
    assert "changepassword admin" in page


@pytest.mark.django_db(transaction=True)
def test_file_of_the_page_is_applied(operator, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content = blocks(HOW_TO / "files.md", "yaml")[0]
    (tmp_path / "jobs.yaml").write_text(content)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "all.yaml").write_text(content)
    lines = blocks(HOW_TO / "files.md", "sh")[0].splitlines()
    assert len(lines) > 3

    for line in lines:
        # Nobody can be asked in a test.
        arguments = [*shlex.split(line, comments=True)[1:], "--user", operator.username, "--yes"]
        assert main(arguments) == 0, capsys.readouterr()

    assert set(Job.objects.values_list("name", flat=True)) == {"Nightly hook", "Stand-up"}


@pytest.mark.django_db(transaction=True)
def test_backup_of_the_page_is_restored(operator, tmp_path: Path, monkeypatch, capsys):
    """The copy is of this test's database; another one, which is in use nowhere, is replaced by it."""
    monkeypatch.chdir(tmp_path)
    JobFactory(name="Kept")
    backup, archive, restore, repair = (block.strip() for block in blocks(HOW_TO / "backup.md", "sh"))

    # Nobody can type a passphrase in a test.
    for line in (backup, f"{archive} --plain"):
        assert main([*shlex.split(line)[1:], "--user", operator.username]) == 0, capsys.readouterr()

    shutil.copy("cronty-backup.sqlite3", "database.sqlite3")
    with closing(sqlite3.connect("database.sqlite3")) as database, database:
        database.execute("UPDATE schedules_job SET name = 'Changed since'")
    # Nobody can be asked in a test.
    for line in (f"{restore} --slots skip --yes", repair):
        done = subprocess.run(
            [*python(), "-m", "cronty_site.terminal", *shlex.split(line)[1:]],
            env=os.environ
            | {
                "PYTHONPATH": str(PROJECT),
                "DATABASE_URL": f"sqlite:///{tmp_path}/database.sqlite3",
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "COVERAGE_PROCESS_START": "",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect("database.sqlite3")) as database:
        assert database.execute("SELECT name FROM schedules_job").fetchall() == [("Kept",)]


def test_first_steps_name_buttons_that_exist():
    page = " ".join((PROJECT / "docs/first-steps/first-reminder.md").read_text().split())
    templates = "".join(
        path.read_text() for path in (PROJECT / "schedules/templates/schedules").rglob("*.html")
    )
    named = re.findall(r"\*\*(.+?)\*\*", page)

    assert len(named) >= 5
    missing = [name for name in named if not re.search(rf"[>}}]\s*{re.escape(name)}\s*[<{{]", templates)]
    assert set(missing) <= set(TABS.values())
