"""Commands that find no tables, or no database."""

from pathlib import Path

import pytest

from schedules.services.installation.command_words import how_to_run
from tests.clusters import PROJECT
from tests.projects import Project

COMMANDS = [
    ("issue_token", "--user", "olga", "--name", "laptop"),
    ("adopt_secret_key",),
    ("mcp_serve", "--user", "olga"),
]


def test_command_ends_with_one_sentence_that_says_what_to_do(tmp_path: Path):
    (tmp_path / "empty.sqlite3").touch()
    empty, away = f"sqlite:///{tmp_path}/empty.sqlite3", "postgres://u:p@127.0.0.1:1/x"
    for address, command in ((empty, COMMANDS[0]), (empty, COMMANDS[2]), (away, COMMANDS[1])):
        done = Project(PROJECT, {"CRONTY_DATA": str(tmp_path), "DATABASE_URL": address}).run(*command)

        assert done.returncode == 1
        assert done.stderr.startswith("CommandError: The database cannot be read ("), command
        assert done.stderr.endswith(f"): run `{how_to_run('up')}` first.\n")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS[1:2], ids=lambda command: command[0])
def test_command_with_the_wrong_folder_creates_no_empty_database(tmp_path: Path, command):
    variables = {"CRONTY_DATA": str(tmp_path), "DATABASE_URL": ""}

    done = Project(PROJECT, variables).run(*command)

    assert done.returncode == 1
    assert (
        f"CommandError: There is no database {tmp_path}/cronty.sqlite3: check CRONTY_DATA, or run"
        in done.stderr
    )
    assert not (tmp_path / "cronty.sqlite3").exists()
