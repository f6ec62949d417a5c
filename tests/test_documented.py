"""Every command and file of the README and the docs is executed: here, or by the test that the tables name.

What takes minutes is only spelled out here, and run by its own target of make. A page that gains a command or a block
fails until it has a line in a table or one of the rules below executes it, and so does a line of a table that no page
contains any more.
"""

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
from tests.documented import PAGES, blocks, has_test, inline_commands
from tests.factories import ExecutionFactory, JobFactory

TERMINAL_PAGE = "docs/reference/terminal.md"
EXAMPLES = "tests/test_documented_examples.py"
PAGES_ON_COMMANDS = "tests/test_documented_commands.py"
INSTALLATION = "tests/site/test_installation.py::test_service_is_installed_as_the_page_says"
LONG = "tests/test_documented.py::test_long_programs_exist_and_know_their_arguments"
DIST = "verification/dist.py::"
CHECKS = "tests/site/terminal/test_healthchecks.py"
ALERTS = "tests/site/terminal/test_alerts.py"
EXEC = "tests/site/terminal/elsewhere/test_executing.py"
RUNNER_CHECK = "tests/site/terminal/test_runners.py::test_check_shows_verdict_time_and_cost_and_leaves_no_run"

# The blocks of a page in their order, and what executes each.
BLOCKS: dict[str, list[str]] = {
    "README.md": ["verification/bare.py::commands", f"{EXAMPLES}::test_tasks_of_the_pages_are_found_and_run"],
    "docs/explanation/architecture.md": [f"{EXAMPLES}::test_pictures_name_files_that_exist"] * 3,
    "docs/explanation/scale.md": [
        "verification/hosts/test_partitions.py::test_script_runs_in_psql_as_the_page_says",
        "verification/hosts/test_partitions.py::test_weeks_are_added_and_dropped_as_the_page_says",
        f"{EXAMPLES}::test_workflow_is_started_with_the_key_of_the_run",
    ],
    "docs/explanation/time-zones.md": [f"{EXAMPLES}::test_clock_changes_are_as_the_page_shows"],
    "docs/first-steps/first-reminder.md": [
        f"{DIST}check_runners",
        "verification/bare.py::commands",
        f"{EXAMPLES}::test_first_steps_show_what_up_prints",
        f"{EXAMPLES}::test_commands_of_the_terminal_work_in_their_order",
    ],
    "docs/how-to/agents.md": [
        "tests/agents/test_examples.py::test_first_runner_of_the_page_is_valid",
        "tests/agents/test_gates.py::test_example_of_the_page_is_valid",
        "tests/agents/test_questions.py::test_example_of_the_page_asks",
        "tests/site/terminal/test_rehearsing.py::test_command_of_the_page_works",
        RUNNER_CHECK,
    ],
    "docs/how-to/answers.md": [
        "tests/site/terminal/test_answering.py::test_commands_of_the_page_work_in_their_order"
    ],
    "docs/how-to/api.md": ["tests/api/test_documented.py::test_requests_of_the_page_are_answered"] * 2,
    "docs/how-to/backup.md": [f"{EXAMPLES}::test_backup_of_the_page_is_restored"] * 4,
    "docs/how-to/calendars.md": [f"{PAGES_ON_COMMANDS}::test_calendars_are_set_and_deleted_as_the_page_says"],
    "docs/how-to/commands.md": [
        f"{PAGES_ON_COMMANDS}::test_first_command_is_scheduled_and_runs",
        f"{PAGES_ON_COMMANDS}::test_first_command_is_scheduled_and_runs",
        f"{PAGES_ON_COMMANDS}::test_backup_gets_the_arguments_that_the_page_shows",
        f"{PAGES_ON_COMMANDS}::test_secrets_are_set_and_deleted_as_the_pages_say",
        f"{PAGES_ON_COMMANDS}::test_report_is_read_from_standard_input_within_its_limits",
    ],
    "docs/how-to/crontab.md": [f"{PAGES_ON_COMMANDS}::test_crontabs_are_taken_over_as_the_page_says"],
    "docs/how-to/deploy.md": [INSTALLATION] * 2,
    "docs/how-to/embedding.md": [
        f"{DIST}install",
        *["tests/examples/test_embedded.py::test_project_made_from_the_page_works"] * 4,
    ],
    "docs/how-to/events.md": [
        "tests/site/terminal/test_events.py::test_commands_of_the_page_work_in_their_order",
        "tests/channels/test_event_delivery.py::test_page_shows_an_event_as_it_is_sent",
        "tests/channels/test_event_delivery.py::test_documented_example_accepts_genuine_events_only",
        "tests/mcp/test_claude_channel.py::test_page_starts_a_server_with_a_channel",
    ],
    "docs/how-to/files.md": [f"{EXAMPLES}::test_file_of_the_page_is_applied"] * 2,
    "docs/how-to/heartbeats.md": [
        "tests/site/terminal/test_heartbeats.py::test_heartbeat_of_the_page_is_added",
        "tests/web/pings/test_snippets.py::test_line_for_a_crontab_reports_the_exit_code",
        f"{EXEC}::test_command_of_the_page_is_wrapped",
    ],
    "docs/how-to/monitoring.md": [
        f"{EXAMPLES}::test_findings_of_the_page_are_those_of_doctor",
        *["tests/web/test_metrics.py::test_page_explains_every_metric_and_its_alerts_ask_for_known_ones"] * 2,
        "tests/site/test_logs.py::test_line_of_the_page_has_the_keys_of_a_real_one",
    ],
    "docs/how-to/own-task.md": [f"{EXAMPLES}::test_tasks_of_the_pages_are_found_and_run"] * 3,
    "docs/how-to/channels.md": [
        "tests/services/people/test_channels.py::test_documented_notification_goes_by_the_channel",
        "tests/channels/test_operator_services.py::test_file_of_the_page_is_valid",
    ],
    "docs/how-to/secrets.md": [
        f"{PAGES_ON_COMMANDS}::test_secrets_are_set_and_deleted_as_the_pages_say",
        f"{PAGES_ON_COMMANDS}::test_webhook_with_a_secret_is_valid",
        f"{PAGES_ON_COMMANDS}::test_every_file_of_commands_is_valid",
    ],
    "docs/how-to/webhooks.md": [
        "tests/tasks/outbound/test_signing.py::test_documented_example_accepts_genuine_requests_only"
    ]
    * 3,
    "docs/reference/benchmarks.md": [LONG],
    "docs/reference/growth.md": [LONG],
    TERMINAL_PAGE: [
        f"{EXAMPLES}::test_commands_of_the_terminal_work_in_their_order",
        "tests/site/terminal/elsewhere/test_remote.py::test_commands_of_the_page_are_sent",
    ],
}

# Commands in running text that the rules below do not execute, and what does.
EXECUTED = {
    "uvx cronty up": f"{DIST}check_runners",
    "pipx run cronty up": f"{DIST}check_runners",
    "uvx cronty mcp": f"{DIST}check_runners",
    "pip install cronty && cronty up": f"{DIST}check_start",
    "pip install .": f"{DIST}follow_dockerfile",
    "cronty up": "tests/management/test_commands.py::test_up_restarts_a_killed_web_and_cluster_and_stops_on_sigterm",
    "cronty mcp": f"{DIST}check_runners",
    "cronty exec": f"{EXEC}::test_start_end_exit_code_and_output_are_reported",
    "cronty exec --send": f"{EXEC}::test_what_was_kept_is_sent_without_a_command",
    "runner check NAME": RUNNER_CHECK,
    "exec --job NAME -- COMMAND …": f"{EXEC}::test_start_end_exit_code_and_output_are_reported",
    "pip install 'cronty[apprise]'": "tests/channels/test_operator_services.py::test_missing_package_says_what_to_install",
    "cronty import healthchecks checks.json": f"{CHECKS}::test_checks_become_heartbeats_with_their_addresses",
    "import healthchecks FILE [--check --yes --prune --source --ping-key --replace-ping-key]": f"{CHECKS}::test_checks_become_heartbeats_with_their_addresses",
    "cronty doctor": "tests/management/test_doctor.py::test_real_installation_is_examined",
    'cronty add "every 6 hours" backup folder=/home': f"{PAGES_ON_COMMANDS}::test_backup_gets_the_arguments_that_the_page_shows",
    "cronty manage restore --already-in-place": "tests/management/test_restore.py::test_backup_copied_by_hand_is_accounted_for",
    "cronty manage restore PATH": f"{EXAMPLES}::test_backup_of_the_page_is_restored",
    "cronty manage adopt_secret_key": "tests/management/test_secret_key.py::test_key_is_adopted_by_a_command",
    "manage.py adopt_secret_key": "tests/management/test_secret_key.py::test_key_is_adopted_by_a_command",
    "manage.py up": "tests/examples/test_embedded.py::test_job_created_by_the_project_fires_and_is_visible_to_people_and_agents",
    "manage.py up [--host --port --workers --check --no-web --no-cluster]": "tests/management/test_commands.py::test_up_check_fires_a_job_end_to_end_and_deletes_no_history",
    "manage.py qcluster": "tests/management/test_commands.py::test_qcluster_ends_with_its_parent_and_creates_the_pruning_job",
    "manage.py web": "tests/management/test_commands.py::test_web_passes_its_address_to_the_server",
    "manage.py mcp_serve": "tests/mcp/test_stdio.py::test_agent_lists_tools_schedules_a_job_and_finds_it",
    "manage.py mcp_serve [--user NAME] [--name AGENT] [--read-only] [--tools FAMILIES] [--claude-channel]": "tests/mcp/test_stdio.py::test_families_scopes_and_name_come_from_the_command_line",
    "… -- /path/to/.venv/bin/python /path/to/manage.py mcp_serve --user NAME": "tests/mcp/test_stdio.py::test_agent_lists_tools_schedules_a_job_and_finds_it",
    "manage.py issue_token --user NAME --name LAPTOP [--scopes read,write] [--expires-in 365d] [--tools FAMILIES]": "tests/examples/test_embedded.py::test_job_created_by_the_project_fires_and_is_visible_to_people_and_agents",
    "manage.py doctor [--offline] [--strict] [--json]": "tests/management/test_doctor.py::test_real_installation_is_examined",
    "manage.py backup PATH [--all] [--passphrase-file PATH] [--plain]": "tests/management/test_backup.py::test_backup_contains_every_row_in_one_private_file",
    ".venv/bin/python manage.py backup PATH": "tests/management/test_backup.py::test_backup_contains_every_row_in_one_private_file",
    ".venv/bin/python manage.py changepassword admin": "tests/test_documented.py::test_terminal_commands_of_a_page_work",
    "manage.py restore PATH [--slots skip|catch-up] [--yes] [--passphrase-file PATH]": "tests/management/test_restore.py::test_sqlite_backup_replaces_the_database_which_is_kept",
    "manage.py verify_activity PATH": "tests/api/test_events.py::test_command_checks_a_file",
    "cronty manage verify_activity FILE": "tests/api/test_events.py::test_command_checks_a_file",
    "pg_dump --format=custom": "tests/management/test_restore.py::test_postgresql_dump_replaces_the_database_which_is_kept",
    "umask 077": "tests/secrets/test_private_files.py::test_every_file_that_commands_create_is_private_whatever_the_umask",
    "chmod go-w": "tests/tasks/commands/test_catalog.py::test_file_that_others_can_change_is_refused",
    "kill -9": "verification/faults/test_campaign.py::test_faults_leave_every_slot_accounted_for",
    "systemd-analyze security --offline=true /etc/systemd/system/cronty.service": INSTALLATION,
    "check --deploy": "tests/test_documented.py::test_make_knows_every_target",
    "python -m tests.browser.lighthouse": LONG,
    "python -m tests.ways": "tests/test_ways.py::test_list_of_a_way_is_written_anew",
    ".venv/bin/python -m cronty_site.terminal": f"{EXAMPLES}::test_backup_of_the_page_is_restored",
    "done JOB [--undo]": "tests/site/terminal/test_answering.py::test_commands_of_the_page_work_in_their_order",
    "snooze JOB [UNTIL]": "tests/site/terminal/test_answering.py::test_commands_of_the_page_work_in_their_order",
    "alerts show NUMBER": f"{ALERTS}::test_alerts_are_listed_and_shown_with_what_was_sent",
    "alerts snooze NUMBER [UNTIL]": f"{ALERTS}::test_alert_is_snoozed_for_a_day_or_until_a_time_in_words",
    "run --wait": "tests/site/terminal/test_changing.py::test_run_waits_for_its_outcome",
    "apply --check": "tests/site/terminal/test_files.py::test_file_is_checked_applied_and_then_unchanged",
}

# What no test executes, and what is checked instead.
NOT_EXECUTED = {
    # The processes that it would start are compared; `cronty up` starts both.
    "cronty up --no-cluster": "tests/management/test_commands.py::test_no_cluster_option_starts_only_the_web_command",
    # Without systemd as the first process, systemctl only installs; the test runs the ExecStart line itself.
    "systemctl start cronty": INSTALLATION,
    "systemctl stop cronty": INSTALLATION,
    "systemctl start …": INSTALLATION,
    # They need a client, or an account at the registry. The server that they name is started, and the file checked.
    "claude mcp add --scope user cronty -- uvx cronty mcp": f"{DIST}check_runners",
    'claude mcp add --scope user --transport http cronty https://cronty.example/mcp --header "Authorization: Bearer TOKEN"': "tests/programs/test_programs.py::test_program_follows_the_page_and_calls_tools_over_http",
    "codex mcp add cronty --url https://cronty.example/mcp --bearer-token-env-var CRONTY_TOKEN": "tests/programs/test_programs.py::test_program_follows_the_page_and_calls_tools_over_http",
    "codex exec": "tests/programs/test_programs.py::test_program_follows_the_page_and_calls_tools_over_http",
    "mcp-publisher publish": "tests/site/test_server_json.py::test_file_keeps_the_rules_of_the_registry",
    # They stand for any command.
    ".venv/bin/python manage.py …": "tests/site/terminal/test_operating.py::test_management_commands_get_their_arguments",
    "cronty manage …": "tests/site/terminal/test_operating.py::test_management_commands_get_their_arguments",
}
LONG_PROGRAM = re.compile(r"python -m (verification\.\S+)(.*)")
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
    """Return the commands of the terminal that no other test executes."""
    elsewhere = {*EXECUTED, *NOT_EXECUTED}
    return [each for each in inline_commands(page) if is_terminal(each) and each not in elsewhere]


def has_rule(page: str, command: str) -> bool:
    """Return whether a test below executes this command wherever it stands."""
    return (
        is_terminal(command)
        or command.startswith("make ")
        or bool(LONG_PROGRAM.fullmatch(command))
        or (page == TERMINAL_PAGE and command.split()[0] in COMMANDS)
    )


def test_every_block_has_a_test():
    found = {page: len(blocks(page)) for page in PAGES if blocks(page)}

    assert found == {page: len(tests) for page, tests in BLOCKS.items()}


def test_every_command_has_a_test():
    named = {*EXECUTED, *NOT_EXECUTED}

    assert (
        sorted(
            {
                (page, command)
                for page, command in all_commands()
                if command not in named and not has_rule(page, command)
            }
        )
        == []
    )
    assert sorted(named - {command for _, command in all_commands()}) == []


def test_tables_name_tests_that_exist():
    named = {
        *EXECUTED.values(),
        *NOT_EXECUTED.values(),
        *(test for tests in BLOCKS.values() for test in tests),
    }

    assert sorted(name for name in named if not has_test(name)) == []


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
    # `make bench` ends with the report, in the same process.
    long_programs = {found[1] for found in documented_programs()} - {"verification.bench.report"}
    assert sorted(long_programs - modules) == []


def test_make_names_tests_that_exist():
    paths = set(
        re.findall(r"(?:tests|verification)/[\w/]+(?:\.py\b|(?=[\s:\\]))", (PROJECT / "Makefile").read_text())
    )

    assert len(paths) > 20
    assert sorted(path for path in paths if not (PROJECT / path).exists()) == []


def documented_programs() -> list[re.Match[str]]:
    lines = [command for _, command in all_commands()]
    lines += [
        line.partition("#")[0].strip()
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.lines
    ]
    return [found for line in lines if (found := LONG_PROGRAM.fullmatch(line))]


def test_long_programs_exist_and_know_their_arguments():
    """They measure for minutes; `make figures`, `make bench`, `make growth` and `make hosts` run them."""
    programs = documented_programs()
    assert len(programs) > 10

    for found in programs:
        spec = find_spec(found[1])
        assert spec is not None, found[0]
        assert spec.origin is not None, found[0]
        source = (
            Path(spec.origin).with_name("__main__.py")
            if spec.submodule_search_locations
            else Path(spec.origin)
        )
        names = [
            word
            for word in shlex.split(found[2])
            if not re.match(r"[\d./]", word) and not word.endswith(".json")
        ]
        assert [name for name in names if name.removeprefix("--") not in source.read_text()] == [], found[0]
    assert find_spec("tests.browser.lighthouse") is not None


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
        if synopsis in EXECUTED:
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
