"""The agent command: its input, environment, output and end."""

import json
import sys
import tempfile
from dataclasses import replace

import psutil
import pytest
from django.contrib.auth.models import User

from schedules.tasks.interface import Final, RetryLater
from tests.factories import UserFactory
from tests.tasks.builtin.conftest import RUN, perform
from tests.tasks.conftest import timeouts
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def owner(transactional_db):
    """The owner of the run, who may start the agent command."""
    return UserFactory(pk=RUN.owner_id, username="olga", is_superuser=True)


@pytest.fixture(autouse=True)
def workplaces(tmp_path_factory, monkeypatch):
    """The folder in which the folders of runs are made."""
    folder = tmp_path_factory.mktemp("workplaces")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


@pytest.fixture
def agent_command(settings):
    """Set the agent command to a Python program."""

    def use(program: str, *arguments: object) -> None:
        settings.CRONTY_AGENT_COMMAND = [sys.executable, "-c", program, *map(str, arguments)]

    return use


def test_agent_command_gets_the_prompt_and_its_output_is_the_result(agent_command):
    agent_command("import sys; print('You said: ' + sys.stdin.read(), end='')")

    assert perform("prompt", prompt="Grüße 🌵; $(rm -rf /)\n") == "You said: Grüße 🌵; $(rm -rf /)\n"


def test_agent_command_sees_only_a_small_environment(agent_command, settings, monkeypatch):
    monkeypatch.setenv("CRONTY_SECRET_KEY", "hush")
    monkeypatch.delenv("LANG", raising=False)
    settings.CRONTY_URL = "https://cronty.example"
    agent_command("import json, os; print(json.dumps(dict(os.environ)))")

    environment = json.loads(perform("prompt", prompt="Hello"))

    assert len(environment.pop("CRONTY_MARK")) == 32
    assert {name: environment[name] for name in environment if name.startswith("CRONTY_")} == {
        "CRONTY_EXECUTION": "42",
        "CRONTY_JOB": "job_17_1738764000",
        "CRONTY_OWNER": "olga",
        "CRONTY_URL": "https://cronty.example",
        "CRONTY_IN_RUN": "1",
    }
    assert set(environment) <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "LC_CTYPE",
        *(name for name in environment if name.startswith("CRONTY_")),
    }


def test_agent_command_works_in_an_empty_folder_of_its_own_that_is_removed(agent_command, workplaces):
    agent_command(
        "import json, os, stat; here = os.getcwd(); "
        "print(json.dumps([here, os.environ['HOME'], os.listdir(), oct(stat.S_IMODE(os.stat(here).st_mode))])); "
        "os.makedirs('deep/er'); open('deep/er/file', 'w').close(); os.symlink('/', 'root'); "
        "os.chmod('deep/er', 0); os.chmod('deep', 0o500)"
    )

    first, second = (json.loads(perform("prompt", prompt="Hello")) for _ in range(2))

    assert first[0] == first[1]
    assert first[0].startswith(f"{workplaces}/cronty-agent-")
    assert first[2:] == [[], "0o700"]
    assert first[0] != second[0]
    assert not list(workplaces.iterdir())


@pytest.mark.parametrize(
    ("chosen", "is_superuser", "is_started"),
    [
        pytest.param([], True, True, id="superuser by default"),
        pytest.param([], False, False, id="nobody else by default"),
        pytest.param(["olga"], False, True, id="chosen"),
        pytest.param(["otto"], True, False, id="not chosen"),
        pytest.param(["*"], False, True, id="everybody"),
    ],
)
def test_agent_command_runs_only_for_chosen_users(
    agent_command, settings, owner, tmp_path, chosen, is_superuser, is_started
):
    settings.CRONTY_AGENT_USERS = chosen
    User.objects.filter(pk=owner.pk).update(is_superuser=is_superuser)
    agent_command(
        "import os, sys; open(sys.argv[1], 'w').write(os.environ['CRONTY_OWNER']); print('done')",
        tmp_path / "ran",
    )

    if is_started:
        perform("prompt", prompt="Hello")
        assert (tmp_path / "ran").read_text() == "olga"
    else:
        with pytest.raises(Final, match=r"does not run for this user.* CRONTY_AGENT_USERS"):
            perform("prompt", prompt="Hello")
        assert not (tmp_path / "ran").exists()


def test_agent_command_does_not_see_what_a_person_cannot_see(agent_command):
    agent_command("import sys; print(ascii(sys.stdin.read()), end='')")

    assert perform("prompt", prompt="Pay\U000e0041\u200b me\n") == ascii("Pay me\n")


def test_failed_agent_command_shows_the_end_of_its_error_output(agent_command):
    agent_command("import sys; sys.stderr.write('noise ' * 10_000 + 'disk full'); sys.exit(3)")

    with pytest.raises(RetryLater, match=r"ended with code 3: .*disk full\.$") as caught:
        perform("prompt", prompt="Hello")

    assert len(str(caught.value)) < 2200


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; print('Invalid API key'); sys.exit(1)", "ended with code 1: Invalid API key."),
        ("import sys; sys.exit('\\x1b[31mError:\\x1b[0m quota')", "ended with code 1: Error: quota."),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL."),
        ("raise SystemExit(2)", "ended with code 2."),
    ],
    ids=["output", "colours", "signal", "silence"],
)
def test_failed_agent_command_says_why(agent_command, program, words):
    agent_command(program)

    with pytest.raises(RetryLater) as caught:
        perform("prompt", prompt="Hello")

    assert str(caught.value) == f"It {words}"


def test_output_of_the_agent_command_is_bounded(agent_command):
    agent_command("import sys; sys.stdout.write('ä' * 5_000_000); sys.stderr.write('y' * 5_000_000)")

    output = perform("prompt", prompt="Hello")

    assert output.endswith("… (shortened)")
    assert len(output.encode()) <= 16_384


def test_output_after_a_gap_does_not_follow_what_was_before_it(agent_command):
    agent_command(
        "import sys; print('begin', flush=True); sys.stderr.write('e' * 200_000); sys.stderr.flush();"
        "sys.stdout.write('x' * 100_000 + 'end' + 'y' * 8_000)"
    )

    output = perform("prompt", prompt="Hello")

    assert output.startswith("begin\n")
    assert output.endswith("… (shortened)")
    assert "end" not in output


@pytest.mark.parametrize("command", ["/nonexistent/agent", "/etc"])
def test_agent_command_that_cannot_start_is_not_retried(command, settings):
    settings.CRONTY_AGENT_COMMAND = [command]

    with pytest.raises(Final, match="cannot be started"):
        perform("prompt", prompt="Hello")


@pytest.fixture
def family_command(settings, tmp_path):
    """Set the agent command to one that starts a long-lived child, writes its pid, and runs for some seconds."""

    def use(*, child: str = "sleep 600", seconds: int) -> None:
        script = f"{child} & echo $! > {tmp_path}/child; : > {tmp_path}/ready; echo started; sleep {seconds}"
        settings.CRONTY_AGENT_COMMAND = ["/bin/sh", "-c", script]

    return use


def ends(path):
    """Wait for the process whose pid is in the file; return False if it still runs after a timeout."""
    try:
        child = psutil.Process(int(path.read_text()))
        # Without an init process that reaps orphans, a dead one stays a zombie.
        return child.status() == psutil.STATUS_ZOMBIE or child.wait(timeout=PATIENCE) is None
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return child.status() == psutil.STATUS_ZOMBIE


def test_agent_command_that_times_out_is_killed_with_its_children(family_command, tmp_path):
    family_command(seconds=600)

    for timeout in timeouts(tmp_path / "ready"):
        with pytest.raises(RetryLater, match="did not finish in time"):
            perform("prompt", replace(RUN, timeout=timeout), prompt="Hello")

    assert ends(tmp_path / "child")
