"""Rules about tools: which are valid, which an operator's rule includes, and the narrowest one for a call."""

from schedules.tasks.grants import LONGEST_GRANT, MAX_GRANTS, covers, grant_of, grants_problem


def test_rule_is_valid():
    for grant in [
        "Read",
        "Bash(git push:*)",
        "Edit(src/**)",
        "WebFetch(domain:example.org)",
        "mcp__notes__*",
        "Bash(ls)",
    ]:
        assert grants_problem([grant]) is None


def test_what_is_no_rule_is_refused_with_the_reason():
    for grants, problem in [
        ("Bash", "Give a list of rules"),
        ([1], "Give a list of rules"),
        (["Read"] * 2, "Name each permission once."),
        ([f"Tool{n}" for n in range(MAX_GRANTS + 1)], "At most 50 permissions."),
        (["x" * (LONGEST_GRANT + 1)], "at most 200 characters"),
        (["Bash(git push, git pull)"], "this is no rule"),
        (["--dangerously-skip-permissions"], "this is no rule"),
        (["*"], "this is no rule"),
        (["Bash()"], "this is no rule"),
        ([""], "this is no rule"),
        (["Bash(git\u200bpush)"], "Remove the invisible character U+200B"),
        (["Bash(git\npush)"], "Remove the control character U+000A"),
    ]:
        assert problem in grants_problem(grants)


def test_operators_rule_includes_only_what_is_narrower():
    for allowed, grant, is_included in [
        ("*", "Bash(rm -rf /)", True),
        ("Bash", "Bash(git push:*)", True),
        ("Bash(git:*)", "Bash(git push:*)", True),
        ("Bash(git:*)", "Bash(git)", True),
        ("Bash(git:*)", "Bash(git push origin main)", True),
        ("Bash(git push:*)", "Bash(git push:*)", True),
        ("mcp__notes", "mcp__notes__write", True),
        ("mcp__notes__*", "mcp__notes__write", True),
        ("Bash(git push:*)", "Bash(git:*)", False),
        ("Bash(git:*)", "Bash(github-cli)", False),
        ("Bash(git:*)", "Bash", False),
        ("Bash(git:*)", "Bash(git status; rm -rf /)", False),
        ("Bash(git:*)", "Bash(git $x)", False),
        ("Bash(git push)", "Bash(git push origin)", False),
        ("mcp__notes", "mcp__notesother__write", False),
        ("Read", "Write", False),
    ]:
        assert covers(allowed, grant) is is_included


def test_narrowest_rule_says_the_call_and_no_more():
    for tool, arguments, grant in [
        ("Bash", {"command": "git push origin main", "description": "x"}, "Bash(git push origin main)"),
        ("mcp__notes__write", {"text": "x"}, "mcp__notes__write"),
        ("Bash", {"command": "rm *"}, ""),
        ("Bash", {"command": "git push && rm -rf /"}, ""),
        ("Bash", {"command": "echo a,b"}, ""),
        ("Bash", {"command": "x" * 300}, ""),
        ("Bash", {}, ""),
        ("Bash", None, ""),
    ]:
        assert grant_of(tool, arguments) == grant
