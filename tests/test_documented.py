"""The commands that the README and the docs name: those of the terminal are typed, long ones exist with their options."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import load_command_class

from cronty_site.terminal.group import COMMANDS, load, main
from tests.clusters import PROJECT
from tests.documented import PAGES, blocks, inline_commands
from tests.factories import ExecutionFactory, JobFactory

TERMINAL_PAGE = "docs/reference/terminal.md"


# They start servers, want something that only the tests of their own have, or stand for any command.
NOT_TYPED = {
    "cronty up",
    "cronty up --no-cluster",
    "cronty mcp",
    "cronty exec",
    "cronty exec --send",
    "cronty doctor",
    'cronty add "every 6 hours" backup folder=/home',
    "cronty import healthchecks checks.json",
    "cronty manage …",
    "cronty manage adopt_secret_key",
    "cronty manage restore PATH",
    "cronty manage restore --already-in-place",
    "runner check NAME",
    "exec --job NAME -- COMMAND …",
    "import healthchecks FILE [--check --yes --prune --source --ping-key --replace-ping-key]",
    "done JOB [--undo]",
    "snooze JOB [UNTIL]",
    "alerts show NUMBER",
    "alerts snooze NUMBER [UNTIL]",
    "run --wait",
    "apply --check",
}
# What stands for a value in the lines that list the commands of the terminal.
VALUES = {
    "JOB": "JOB",
    "WHEN": "every day at 9:00",
    "TASK": "disk_space",
    "TEXT": "JOB",
    "MOMENT": "yesterday 9:00",
    "ID": "NUMBER",
    "NAME": "laptop",
    "COMMAND": "showmigrations",
    "bash|zsh|fish": "bash",
}


def all_commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for command in inline_commands(page):
            yield page, command


def is_terminal(command: str) -> bool:
    return command.startswith("cronty ")


def typed_commands(page: str) -> list[str]:
    return [each for each in inline_commands(page) if is_terminal(each) and each not in NOT_TYPED]


def test_make_knows_every_target():
    """The long ones are only spelled out: what they would run, without running it."""
    commands = {command for _, command in all_commands() if command.startswith("make ")}
    commands |= {
        line.partition("#")[0].strip()
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.lines
        if line.startswith("make ")
    }
    words = [shlex.split(re.sub(r"\[.*\]", "", command))[1:] for command in sorted(commands)]
    targets = sorted({target for each in words for target in each if "=" not in target})
    assert len(targets) > 15

    done = subprocess.run(["make", "-n", *targets], cwd=PROJECT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "manage.py check --deploy" in done.stdout
    modules = set(re.findall(r"-m ((?:verification|tests)\.[\w.]+)", done.stdout))
    assert len(modules) > 10
    assert sorted(name for name in modules if find_spec(name) is None) == []


def test_lists_of_tests_name_tests_that_exist():
    files = ("Makefile", "tests/conftest.py", "verification/pythons.py")
    text = "".join((PROJECT / file).read_text() for file in files)
    paths = set(re.findall(r"(?:tests|verification)/[\w/]+(?:\.py\b|(?=[\s:\\\"]))", text))

    assert len(paths) > 40
    assert sorted(path for path in paths if not (PROJECT / path).exists()) == []


@pytest.fixture
def world(operator: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_commands) -> int:
    """A job named JOB with a run, and an empty folder to work in; the number of the run."""
    use_commands((PROJECT / "examples/commands.toml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRONTY_USER", operator.username)
    monkeypatch.setattr("getpass.getpass", lambda **_: "correct horse battery")
    User.objects.create_superuser("admin")
    job = JobFactory(name="JOB", owner=operator)
    return ExecutionFactory(job=job, status="succeeded", result="done").pk


def type_in_terminal(command: str, run: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command as a person types it, where `> FILE` keeps what it prints; return what went wrong."""
    line, _, file = command.partition(" > ")
    words = [word.replace("NUMBER", str(run)) for word in shlex.split(line)]
    capsys.readouterr()
    try:
        code = main(words[1:])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    if code:
        return f"{command} ended with {code}: {printed.err}"
    if file:
        Path(file).write_text(printed.out)
    return f"{command} printed nothing" if file and not printed.out else ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if typed_commands(page)],
)
def test_terminal_commands_of_a_page_work(page, world, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO())
    Path("jobs.yaml").write_text(blocks("docs/how-to/files.md", "yaml")[0].text)

    for command in typed_commands(page):
        # Nobody can be asked in a test.
        asks = " apply " in command and "--yes" not in command
        assert type_in_terminal(f"{command} --yes" if asks else command, world, capsys) == ""


@pytest.mark.django_db(transaction=True)
def test_every_line_of_the_terminal_page_works_and_its_options_exist(world, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdin", StringIO())
    monkeypatch.setenv("EDITOR", "true")
    synopses = [each for each in inline_commands(TERMINAL_PAGE) if each.split()[0] in COMMANDS]
    files = {
        "apply": blocks("docs/how-to/files.md", "yaml")[0].text,
        "import": "0 3 * * * /bin/true\n",
    }
    assert len(synopses) > 20

    for synopsis in synopses:
        name = synopsis.split()[0]
        options = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", synopsis)
        command = load(name)
        commands = [command, *getattr(command, "commands", {}).values()]
        known = {option for each in commands for parameter in each.params for option in parameter.opts}
        assert set(options) <= known, synopsis
        if synopsis in NOT_TYPED:
            continue
        (path := tmp_path / name).unlink(missing_ok=True)
        if name in files:
            path.write_text(files[name])
        values = {**VALUES, "PATH": str(path)}
        required = re.sub(r"\[[^\]]*--[^\]]*\]|…", "", synopsis).replace("[PATH]", "PATH")
        required = re.sub(r"\[[^\]]*\]", "", required)
        words = [values.get(word, word) for word in required.split()]
        asks = ["--yes"] if name in files else []
        assert type_in_terminal(shlex.join(["cronty", *words, *asks]), world, capsys) == ""


@pytest.mark.parametrize("name", ["up", "mcp_serve", "issue_token", "doctor", "backup", "restore"])
def test_options_of_management_commands_exist(name):
    lines = [
        each for each in inline_commands("docs/reference/commands.md") if each.startswith(f"manage.py {name}")
    ]
    parser = load_command_class("schedules", name).create_parser("manage.py", name)
    known = {option for action in parser._actions for option in action.option_strings}

    assert lines
    assert set(re.findall(r"--[a-z][a-z-]*", " ".join(lines))) <= known
