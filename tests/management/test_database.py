"""Commands that find no tables, or no database."""

from pathlib import Path

from schedules.services.installation.command_words import how_to_run
from tests.clusters import PROJECT
from tests.projects import Project


def test_command_ends_with_one_sentence_that_says_what_to_do(tmp_path: Path):
    (tmp_path / "empty.sqlite3").touch()
    empty, away = f"sqlite:///{tmp_path}/empty.sqlite3", "postgres://u:p@127.0.0.1:1/x"
    for address, command in ((empty, ("mcp_serve", "--user", "olga")), (away, ("adopt_secret_key",))):
        done = Project(PROJECT, {"CRONTY_DATA": str(tmp_path), "DATABASE_URL": address}).run(*command)

        assert done.returncode == 1
        assert done.stderr.startswith("CommandError: The database cannot be read ("), command
        assert done.stderr.endswith(f"): run `{how_to_run('up')}` first.\n")
        assert done.stderr.count("\n") == 1
