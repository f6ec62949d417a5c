"""The examples of the other pages: doctests, a task of one's own, the terminal, files and backups, executed as written."""

import doctest
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cronty_site.terminal.group import main
from schedules.models import Job
from tests import documented
from tests.clusters import PROJECT
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


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", ["docs/reference/terminal.md", "docs/first-steps/first-reminder.md"])
def test_commands_of_the_terminal_work_in_their_order(operator, capsys, page):
    for line in blocks(PROJECT / page, "sh")[-1].splitlines():
        assert main([*shlex.split(line)[1:], "--user", operator.username]) == 0, capsys.readouterr()

    assert Job.objects.get().name == "Stand up"


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
