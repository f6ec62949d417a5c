"""Runs of commands: what the program gets, and what is known when it has ended."""

import asyncio
import json
import os
import pwd
import sys
import traceback
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User

from schedules.secrets.masking import MASK
from schedules.tasks import registry
from schedules.tasks.interface import Final, FindSecrets, OutputText, RetryLater, Run
from schedules.tasks.processes import running as running_module
from tests.factories import UserFactory
from tests.tasks.conftest import timeouts
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"


def file_of(program: str, *arguments: str, more: str = "", parameters: str = "") -> str:
    listed = json.dumps(["-I", "-S", "-c", program, *arguments])
    return (
        f'[try]\ndescription = "Try it."\nprogram = "{sys.executable}"\narguments = {listed}\n{more}\n'
        f"[try.parameters]\n{parameters}\n"
    )


@pytest.fixture
def run(operator: User) -> Run:
    return replace(
        Run.without_job(datetime(2026, 2, 4, 9, tzinfo=UTC), operator.pk, PATIENCE),
        execution_id=42,
        job_id="job_17",
    )


def giving(secret: str) -> FindSecrets:
    """Return a store in which every secret has this value."""

    async def find(names: Collection[str], **where: object) -> dict[str, str]:
        return dict.fromkeys(names, secret)

    return find


def perform(run: Run, **kwargs: object) -> dict:
    task = registry.get("try")
    assert task is not None
    return asyncio.run(task.call(run, [], kwargs))


def test_program_gets_typed_values_as_single_arguments(
    use_commands: Callable[[str], None], run, tmp_path, monkeypatch
):
    monkeypatch.setenv("CRONTY_SECRET_KEY", "hush")
    use_commands(
        file_of(
            SHOW,
            "{text}",
            "--count={count}",
            "--flag={flag}",
            "{choice}",
            more=f'directory = "{tmp_path}"\n[try.environment]\nWHO = "I am {{text}}"',
            parameters='text = {}\ncount = { type = "integer", default = 3 }\n'
            'flag = { type = "boolean", default = true }\nchoice = { choices = ["a", "b"], default = "b" }',
        )
    )

    result = perform(run, text="; ls * $(reboot) ☃")

    arguments, directory, environment = json.loads(result["output"])
    assert arguments == ["; ls * $(reboot) ☃", "--count=3", "--flag=true", "b"]
    assert directory == str(tmp_path)
    assert environment["WHO"] == "I am ; ls * $(reboot) ☃"
    assert environment["CRONTY_EXECUTION"] == "42"
    assert environment["CRONTY_OWNER"] == "otto"
    assert "CRONTY_SECRET_KEY" not in environment
    assert (result["exit_code"], result["signal"]) == (0, None)
    assert result["cpu_seconds"] > 0
    assert result["peak_memory_bytes"] > 1_000_000


READ = "import sys; print(repr(sys.stdin.read()[:200]))"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"body": "first\n\tsecond {name}"}, r"'To: all\nfirst\n\tsecond {name}'"),
        ({}, "''"),
    ],
)
def test_standard_input_is_filled_in_and_missing_without_its_parameter(use_commands, run, given, shown):
    use_commands(
        file_of(
            READ,
            more='input = "To: all\\n{body}"',
            parameters="body = { multiline = true, optional = true, max_length = 100 }",
        )
    )

    result = perform(run, **given)

    assert result["output"].strip() == shown


def test_fixed_input_with_a_secret_reaches_the_program_and_is_masked(use_commands, run):
    use_commands(file_of("print(input())", more="input = 'token ${secret:TOKEN}'"))

    result = perform(replace(run, secrets=giving("s3cret-value")))

    assert result["output"].strip() == f"token {MASK}"


@pytest.mark.parametrize("program", ["import sys; print(len(sys.stdin.read()))", "print('did not read')"])
def test_long_input_neither_blocks_nor_is_cut(use_commands, run, program):
    use_commands(
        file_of(
            program,
            more=f"input = '{'{x}' * 30}'",
            parameters=f"x = {{ max_length = 10000, default = '{'y' * 10000}' }}",
        )
    )

    assert perform(run)["output"].strip() in ("300000", "did not read")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")


def file_of_another_user(script: str) -> str:
    listed = json.dumps(["-c", script])
    return (
        f'[try]\ndescription = "Try it."\nprogram = "/bin/sh"\narguments = {listed}\n'
        'user = "nobody"\ndirectory = "/"\n'
    )


@needs_root
def test_command_runs_as_its_user_with_its_groups_and_home(use_commands, run):
    who = pwd.getpwnam("nobody")
    use_commands(file_of_another_user("id -u; id -g; id -G; echo $USER $HOME"))

    lines = perform(run)["output"].splitlines()

    groups = os.getgrouplist("nobody", who.pw_gid)
    assert lines == [
        str(who.pw_uid),
        str(who.pw_gid),
        " ".join(map(str, groups)),
        f"nobody {who.pw_dir}",
    ]


@needs_root
def test_program_of_another_user_is_killed_with_everything_it_started(use_commands, run):
    use_commands(file_of_another_user("setsid sleep 600 & exec sleep 600") + "timeout = 1\n")

    with pytest.raises(RetryLater, match="did not finish within 1 s") as failed:
        perform(run)

    assert "left_processes" not in failed.value.result


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("nobody", "it runs as the user nobody, for which Cronty must run as root"),
        ("no-such-user", "this host has no user no-such-user"),
    ],
)
def test_user_that_cronty_cannot_become_is_refused(use_commands, run, monkeypatch, user, words):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    use_commands(file_of("print(1)", more=f'user = "{user}"'))

    with pytest.raises(Final, match=f"try cannot be started: {words}"):
        perform(run)


def test_cpu_time_is_limited(use_commands, run):
    use_commands(file_of("while True: pass", more='max_cpu = "1s"'))

    with pytest.raises(RetryLater, match="try used more than 1 s of CPU time and was killed"):
        perform(run)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_memory_is_limited(use_commands, run):
    use_commands(file_of("print(len(bytes(300_000_000)))", more='max_memory = "200MB"'))

    with pytest.raises(RetryLater, match="MemoryError"):
        perform(run)


def test_arguments_may_be_given_in_order_required_ones_first(use_commands, run):
    use_commands(file_of(SHOW, "{first}", "{second}", parameters='first = { default = "1st" }\nsecond = {}'))
    task = registry.get("try")
    assert task is not None

    results = [asyncio.run(task.call(run, args, {})) for args in (["a"], ["a", "b"])]

    assert [json.loads(result["output"])[0] for result in results] == [["1st", "a"], ["b", "a"]]
    assert task.check(["a", "b", "c"], {})


def test_failed_program_may_be_retried_and_says_how_it_ended(use_commands, run):
    use_commands(file_of("import sys; print('fine'); sys.stderr.write('disk full\\n'); sys.exit(3)"))

    with pytest.raises(RetryLater, match=r"^try ended with code 3: disk full$") as caught:
        perform(run)

    assert caught.value.result["exit_code"] == 3
    assert "fine" in caught.value.result["output"]


def test_program_that_takes_too_long_is_stopped(use_commands, run, monkeypatch, tmp_path):
    monkeypatch.setattr(running_module, "GRACE_SECONDS", 0.2)
    ready = tmp_path / "ready"
    program = f"import signal, time; signal.signal(15, signal.SIG_IGN); open('{ready}', 'w'); time.sleep(600)"

    for timeout in timeouts(ready):
        use_commands(file_of(program, more=f"timeout = {timeout}"))
        with pytest.raises(RetryLater, match=f"did not finish within {timeout} s and was stopped") as caught:
            perform(run)

    assert caught.value.result["signal"] == "SIGKILL"


@pytest.mark.parametrize("program", ["/nonexistent/program", "/etc"])
def test_program_that_cannot_start_is_not_retried(use_commands, run, program):
    use_commands(f'[try]\ndescription = "Try it."\nprogram = "{program}"')

    with pytest.raises(Final, match=r"^try cannot be started: /"):
        perform(run)


@pytest.mark.parametrize(
    ("allow", "is_staff", "is_started"),
    [('["staff"]', True, True), ('["staff"]', False, False), ('["everyone"]', False, True)],
)
def test_command_runs_only_for_those_who_may_schedule_it_now(use_commands, run, allow, is_staff, is_started):
    owner = UserFactory(is_staff=is_staff)
    use_commands(f'[try]\ndescription = "Try it."\nprogram = "/bin/true"\nallow = {allow}')

    if is_started:
        assert perform(replace(run, owner_id=owner.pk))["exit_code"] == 0
    else:
        with pytest.raises(Final, match="Only staff may use the command try"):
            perform(replace(run, owner_id=owner.pk))


def test_secrets_are_filled_in_at_the_last_moment_and_masked(use_commands, run):
    use_commands(
        file_of(
            SHOW,
            "{text}",
            more='[try.environment]\nKEY = "key ${secret:SHARED}"',
            parameters="text = {}",
        )
    )
    asked = []

    async def find(names: Collection[str], **where: object) -> dict[str, str]:
        asked.append((sorted(names), where))
        return {name: f"value-of-{name}" for name in names}

    result = perform(replace(run, secrets=find), text="Bearer ${secret:MINE}")

    arguments, _, environment = json.loads(result["output"])
    assert arguments == [f"Bearer {MASK}"]
    assert environment["KEY"] == f"key {MASK}"
    assert asked == [
        (["MINE"], {"command": "try"}),
        (["SHARED"], {"command": "try", "of_installation": True}),
    ]


READ_OTHERS = """
import glob, os, stat
def read(path):
    try: return open(path).read()
    except OSError: return ""
secret, guard = os.environ["KEY"], os.getppid()
assert secret in read("/proc/self/environ")
print([path for path in glob.glob("/proc/[0-9]*/cmdline") if secret in read(path)])
print(secret in read("/proc/%d/environ" % guard), oct(stat.S_IMODE(os.stat("/proc/self/environ").st_mode)))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs the proc file system of Linux")
def test_secret_in_the_environment_is_for_no_other_user_to_read(use_commands, run):
    use_commands(file_of(READ_OTHERS, more='[try.environment]\nKEY = "${secret:SHARED}"'))

    # In no command line, which everybody can read, and not with the guard; the environment is its owner's.
    assert perform(replace(run, secrets=giving("value-4711-of-a-secret")))["output"] == "[]\nFalse 0o400\n"


def test_secret_cannot_become_an_option(use_commands, run):
    use_commands(file_of(SHOW, "{text}", parameters="text = {}"))

    with pytest.raises(Final, match="text: must not begin with -") as caught:
        perform(replace(run, secrets=giving("--exec")), text="${secret:MINE}")
    assert "exec" not in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "value", "words"),
    [
        pytest.param('pattern = "[^.]*"', "reports/../../etc/passwd", "text: .*pattern", id="pattern"),
        pytest.param("max_length = 20", "reports/" * 3, "text: .*at most 20 characters", id="length"),
        pytest.param("", "first\nsecond", r"text: remove the control character U\+000A", id="line break"),
        pytest.param("", "abc\u202edef", r"text: remove the invisible character U\+202E", id="reordering"),
    ],
)
def test_rules_of_a_parameter_hold_for_a_secret_in_it(use_commands, run, tmp_path, rule, value, words):
    started = tmp_path / "started"
    use_commands(
        file_of(f"open('{started}', 'w')", "--", "{text}", parameters=f"[try.parameters.text]\n{rule}")
    )

    with pytest.raises(Final, match=f"^Invalid arguments: {words}") as caught:
        perform(replace(run, secrets=giving(value)), text="${secret:MINE}")
    assert value not in str(caught.value)
    assert value not in "".join(traceback.format_exception(caught.value))
    assert not started.exists()


def test_secret_that_keeps_to_the_rules_of_its_parameter_is_used(use_commands, run):
    parameters = '[try.parameters.text]\npattern = "[^.]*"\nmax_length = 20\noptional = true'
    condition = '{ if = "text", arguments = ["{text}"] }'
    use_commands(
        file_of("import sys; print(len(sys.argv[1]))", "PLACE", parameters=parameters).replace(
            '"PLACE"', condition
        )
    )

    assert perform(replace(run, secrets=giving("reports/2026")), text="${secret:MINE}")["output"] == "12\n"


def test_output_is_saved_while_the_program_runs_and_at_its_end(use_commands, run, tmp_path):
    use_commands(
        file_of(
            f"import os, time; print('first', flush=True)\nwhile not os.path.exists('{tmp_path}/seen'):"
            " time.sleep(0.02)\nprint('last')"
        )
    )
    saved: list[OutputText] = []

    async def save(output: OutputText) -> None:
        saved.append(output)
        (tmp_path / "seen").touch()

    perform(replace(run, save_output=save))

    assert saved[0] == ("first\n", "", 6, ())
    assert saved[-1] == ("first\nlast\n", "", 11, ())


def test_output_is_saved_at_the_end_although_nothing_is_new(use_commands, run, tmp_path, monkeypatch):
    monkeypatch.setattr("schedules.tasks.commands.run.SAVE_SECONDS", 0.01)
    saved: list[OutputText] = []
    noted = tmp_path / "noted"

    async def save(output: OutputText) -> None:
        saved.append(output)
        noted.touch()

    wait = f"import os, time; print('important', flush=True)\nwhile not os.path.exists({str(noted)!r}): time.sleep(0.01)"
    use_commands(file_of(wait))
    perform(replace(run, save_output=save))

    # The first save may have failed.
    assert [output.head + output.tail for output in saved] == ["important\n"] * 2
