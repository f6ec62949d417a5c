"""The subcommand runner: the list, the check of a real program, and the kill switch."""

import sys

import pytest

from schedules.models import AgentRun, AgentStop
from tests.agents.streams import as_bytes, lines_of


@pytest.fixture
def notes(use_runners, tmp_path):
    """Put a scripted program into force as the runner `notes`."""

    def use(ending="done", more=""):
        (tmp_path / "lines").write_bytes(as_bytes(lines_of("claude", ending)))
        program = tmp_path / "agent"
        program.write_text(
            f"#!{sys.executable}\nimport sys\nsys.stdin.read()\n"
            f"sys.stdout.write(open({str(tmp_path / 'lines')!r}).read())\n"
        )
        program.chmod(0o700)
        use_runners(
            f'[notes]\ndescription = "x"\nkind = "claude"\nprogram = "{program}"\nallow = ["everyone"]\n{more}'
        )

    return use


def test_check_shows_verdict_time_and_cost_and_leaves_no_run(cronty, notes):
    notes()

    checked = cronty("runner", "check", "notes")

    assert checked.code == 0, checked.err
    assert all(words in checked.out for words in ("Done", "$0.0110 as reported", "2,000 read", " s"))
    shown = cronty("runner", "check", "notes", "--json").json
    assert (shown["verdict"], shown["cost"], shown["tokens_in"]) == ("done", 0.011, 2000)
    assert not AgentRun.objects.exists()


def test_check_that_does_not_end_well_fails_with_its_verdict(cronty, notes):
    notes("denied")

    checked = cronty("runner", "check", "notes")

    assert checked.code == 4
    assert "permission for" in checked.err
    assert "Refused" in checked.out


def test_check_of_a_program_that_is_gone_says_so(cronty, notes, tmp_path):
    notes()
    (tmp_path / "agent").unlink()

    checked = cronty("runner", "check", "notes")

    assert checked.code == 4
    assert "cannot be started" in checked.err


def test_check_warns_of_an_unknown_version(cronty, notes, tmp_path):
    notes()
    lines = (tmp_path / "lines").read_text()
    (tmp_path / "lines").write_text(lines.replace("2.1.197", "3.0.1"))

    assert "This is claude 3.0.1, and Cronty knows 2.1" in cronty("runner", "check", "notes", "--json").out


def test_unknown_runner_and_wrong_usage(cronty, notes):
    notes()

    assert cronty("runner", "check", "other").code == 3
    assert cronty("runner", "check").code == 2
    assert cronty("runner", "stop", "notes").code == 2


def test_list_shows_limits_and_what_is_left(cronty, notes):
    notes(more="max_turns = 4\nper_day = { runs = 7 }\n")

    assert "7 of 7 runs" in cronty("runner").out
    (listed,) = cronty("runner", "list", "--json").json
    left = {"scope": "runner", "unit": "runs", "cap": 7, "left": 7.0, "description": "7 of 7 runs"}
    assert listed["left"] == [left]


def test_stop_and_start(cronty, notes):
    notes()

    assert cronty("runner", "stop").code == 0
    assert AgentStop.objects.exists()
    assert "olga stopped all agents." in cronty("runner").err
    assert "olga stopped all agents." in cronty("runner", "check", "notes").err
    assert cronty("runner", "stop", "--everybody").code == 1
    assert cronty("runner", "start").code == 0
    assert cronty("runner", "start").code == 1
    assert not AgentStop.objects.exists()
