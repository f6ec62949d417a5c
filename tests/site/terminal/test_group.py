"""The `cronty` command itself: its help without Django, its failures, and completion."""

import json
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from cronty_site.terminal.group import COMMANDS, cli, load, main
from tests.clusters import PROJECT
from tests.factories import JobFactory


def test_help_names_every_command_and_imports_no_large_library():
    script = (
        "import sys; from cronty_site.terminal import main; code = main(sys.argv[1:]);"
        "sys.exit(code or (0 if {'django', 'pydantic', 'rich'}.isdisjoint(sys.modules) else 99))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script, "--help"], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr
    assert [name for name in COMMANDS if f"  {name} " not in ended.stdout] == []


def test_every_command_has_help_with_examples(cronty):
    for name in COMMANDS:
        command = load(name)
        assert command.help, name
        if name not in ("up", "doctor", "manage", "mcp", "schema", "completion"):
            assert "cronty " in (command.epilog or command.help), name


@pytest.mark.parametrize(("typed", "meant"), [("job", "jobs"), ("logz", "logs"), ("delet", "delete")])
def test_unknown_command_is_wrong_usage_and_the_nearest_is_named(cronty, typed, meant):
    ended = cronty(typed)

    assert ended.code == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'?" in ended.err


def test_aliases_are_the_commands_they_stand_for(cronty, owner):
    job = JobFactory(owner=owner, name="Backup")

    assert "Backup" in cronty("ls").out
    assert cronty("list").out == cronty("jobs").out
    assert cronty("delete", "Backup").code == 0
    job.refresh_from_db()
    assert job.deleted_at


def test_error_repeats_no_character_that_a_terminal_obeys(cronty):
    title = "\x1b]0;owned\x07\x9b31m"

    for words in (
        ["show", title],
        [title],
        ["jobs", f"--{title}"],
        ["add", title, "notify"],
        ["token", "revoke", title],
    ):
        ended = cronty(*words)
        assert ended.code in (2, 3), words
        assert not {"\x1b", "\x07", "\x9b"} & set(ended.err), words


def test_commands_are_completed_without_importing_them(monkeypatch):
    monkeypatch.setattr("cronty_site.terminal.group.load", None)

    completed = ShellComplete(cli, {}, "cronty", "_CRONTY_COMPLETE").get_completions([], "re")

    assert [item.value for item in completed] == ["restore", "resume"]


@pytest.mark.parametrize(
    "arguments", [("nothing", "--json"), ("show", "--json"), ("pause", "x", "--until", "never", "--json")]
)
def test_wrong_usage_is_json_if_asked_for(cronty, arguments):
    ended = cronty(*arguments)

    assert json.loads(ended.err).keys() == {"error", "code"}
    assert ended.code in (2, 3)


def test_version(cronty):
    assert cronty("--version").out.startswith("cronty, version 0.")


def test_completion_script_calls_cronty(cronty):
    assert "_CRONTY_COMPLETE=bash_complete" in cronty("completion", "bash").out


def test_names_of_jobs_are_completed(owner, stranger):
    JobFactory(owner=owner, name="Backup")
    JobFactory(owner=stranger, name="Backwards")

    completed = ShellComplete(cli, {}, "cronty", "_CRONTY_COMPLETE").get_completions(["show"], "back")

    assert [(item.value, item.help) for item in completed] == [("Backup", "tests.ping")]


@pytest.mark.parametrize(
    "words", [["add", "every day at 9:00", "notify"], ["rm", "1"], ["manage", "shell"], ["up"]]
)
def test_run_of_a_prompt_changes_nothing_in_the_terminal(monkeypatch, capsys, words):
    monkeypatch.setenv("CRONTY_IN_RUN", "1")

    assert main(words) == 1

    assert "A run of a prompt may not change schedules here." in capsys.readouterr().err


def test_run_of_a_prompt_may_read_in_the_terminal(monkeypatch, cronty):
    monkeypatch.setenv("CRONTY_IN_RUN", "1")

    assert cronty("jobs").code == 0


def test_server_for_agents_only_reads_within_a_run(monkeypatch):
    monkeypatch.setenv("CRONTY_IN_RUN", "1")
    started = []
    monkeypatch.setattr("cronty_site.terminal.group.cli.main", lambda args, **more: started.append(args))

    main(["mcp", "--user", "olga"])

    assert started == [["mcp", "--user", "olga", "--read-only"]]
