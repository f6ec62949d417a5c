"""The hook that Claude Code asks before each call: what passes, what a person has allowed, and what is put off."""

import json
import subprocess
import sys

import pytest

from schedules.agents import hook

CALL = {"tool_name": "Bash", "tool_input": {"command": "git push"}, "tool_use_id": "t1", "session_id": "s1"}


@pytest.fixture
def rules(tmp_path):
    approved = {
        "call_id": "t1",
        "session_id": "s1",
        "digest": hook.digest_of_call("Bash", {"command": "git push"}),
    }
    return {"granted": [], "may_edit": False, "used": str(tmp_path / "used"), "approved": approved}


def test_allowed_call_is_allowed_once(rules):
    assert [hook.decide(CALL, rules), hook.decide(CALL, rules)] == ["allow", "defer"]


@pytest.mark.parametrize(
    "change",
    [
        {"tool_use_id": "t2"},
        {"session_id": "s2"},
        {"tool_name": "Write"},
        {"tool_input": {"command": "git push --force"}},
        {"tool_input": {"command": "git push", "timeout": 1}},
        {"tool_input": None},
    ],
)
def test_any_other_call_is_put_off(rules, change):
    assert hook.decide(CALL | change, rules) == "defer"


def test_what_a_rule_is_about_is_left_to_the_program(rules):
    for granted, tool, arguments, decision in [
        ("Bash(git push:*)", "Bash", {"command": "git push origin main"}, ""),
        ("Bash(git push:*)", "Bash", {"command": "git push"}, ""),
        ("Bash(git push *)", "Bash", {"command": "git push origin"}, ""),
        ("Bash(git * main)", "Bash", {"command": "git push main"}, ""),
        ("Bash(ls && pwd)", "Bash", {"command": "ls && pwd"}, ""),
        ("Bash", "Bash", {"command": "anything; else"}, ""),
        ("Bash(git push:*)", "Bash", {"command": "git pushed"}, "defer"),
        ("Bash(git push:*)", "Bash", {"command": "git push; rm -rf /"}, "defer"),
        ("Bash(git push:*)", "Bash", {"command": "git push $(rm -rf /)"}, "defer"),
        ("Bash(git push:*)", "Bash", {"command": "git push\nrm -rf /"}, "defer"),
        ("Bash(git push:*)", "Bash", {"command": ["git push"]}, "defer"),
        ("Edit(src/**)", "Write", {"file_path": "/etc/passwd"}, ""),
        ("mcp__notes", "mcp__notes__write", {}, ""),
        ("mcp__notes__*", "mcp__notes__write", {}, ""),
        ("mcp__notes", "mcp__other__write", {}, "defer"),
        ("Read", "Write", {}, "defer"),
        ("Bash", "Read", {}, ""),
    ]:
        asked = {"tool_name": tool, "tool_input": arguments, "tool_use_id": "t9", "session_id": "s1"}

        assert hook.decide(asked, rules | {"granted": [granted]}) == decision


@pytest.mark.parametrize(("may_edit", "decision"), [(True, ""), (False, "defer")])
def test_files_are_edited_without_asking_only_in_the_mode_for_it(rules, may_edit, decision):
    assert hook.decide(CALL | {"tool_name": "Edit"}, rules | {"may_edit": may_edit}) == decision


def started(rules_file, asked: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", hook.__file__, str(rules_file)]
    return subprocess.run(command, input=asked, capture_output=True, text=True, check=False)


def test_started_by_its_path_it_answers_in_the_form_of_the_program(rules, tmp_path):
    (tmp_path / "rules").write_text(json.dumps(rules | {"approved": None}))

    done = started(tmp_path / "rules", json.dumps(CALL))

    answer = json.loads(done.stdout)["hookSpecificOutput"]
    assert (answer["hookEventName"], answer["permissionDecision"]) == ("PreToolUse", "defer")


@pytest.mark.parametrize("asked", ["", "{", "[]", '{"tool_name": 5}'])
def test_what_it_cannot_read_it_allows_nothing(rules, tmp_path, asked):
    (tmp_path / "rules").write_text(json.dumps(rules))

    assert started(tmp_path / "rules", asked).stdout == ""


def test_call_that_no_run_answers_is_denied(rules, tmp_path):
    (tmp_path / "rules").write_text(json.dumps(rules | {"approved": None, "socket": str(tmp_path / "gone")}))

    done = started(tmp_path / "rules", json.dumps(CALL))

    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
