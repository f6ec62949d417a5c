"""`manage.py doctor`: what it prints, and how it exits."""

import json
from contextlib import suppress
from io import StringIO

import pytest
from django.core.management import call_command

from schedules.management.commands import doctor
from schedules.management.doctor import ok, problem, warning
from tests.factories import ClusterFactory


def ended(monkeypatch, findings, *options: str) -> tuple[int, str]:
    monkeypatch.setattr(doctor, "examine", lambda reach_out: iter(findings))
    out = StringIO()
    try:
        call_command("doctor", *options, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


GOOD = ok("disk", "There is space.")
SO_SO = warning("clock", "It is slow.", "Set it.")
BAD = problem("clusters", "None.", "Start one.")


@pytest.mark.parametrize(
    ("findings", "options", "code"),
    [
        ([GOOD], [], 0),
        ([GOOD, SO_SO], [], 0),
        ([GOOD, SO_SO], ["--strict"], 1),
        ([GOOD, BAD], [], 1),
        ([GOOD, BAD], ["--json"], 1),
    ],
)
def test_exit_code_says_whether_there_is_a_problem(monkeypatch, findings, options, code):
    assert ended(monkeypatch, findings, *options)[0] == code


def test_lines_name_check_and_remedy(monkeypatch):
    _, text = ended(monkeypatch, [GOOD, BAD])

    assert text.splitlines() == [
        "ok       disk         There is space.",
        "problem  clusters     None.",
        "                      → Start one.",
        "",
        "1 problem, 0 warnings.",
    ]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_terminal_is_given_nothing_that_it_obeys(monkeypatch, options):
    hostile = problem("commands", "\x1b[2J\x9b31m\u202eb", "\x1b]0;owned\x07")

    _, text = ended(monkeypatch, [hostile], *options)

    assert [character for character in text if not (character.isprintable() or character == "\n")] == []


def test_json_has_everything(monkeypatch):
    _, text = ended(monkeypatch, [GOOD, SO_SO], "--json")

    assert json.loads(text) == {
        "summary": {"ok": 1, "warning": 1, "problem": 0},
        "findings": [
            {"check": "disk", "level": "ok", "message": "There is space.", "remedy": ""},
            {"check": "clock", "level": "warning", "message": "It is slow.", "remedy": "Set it."},
        ],
    }


@pytest.mark.django_db
def test_real_installation_is_examined():
    ClusterFactory()
    out = StringIO()

    with suppress(SystemExit):
        call_command("doctor", "--offline", "--json", stdout=out)

    checks = {finding["check"] for finding in json.loads(out.getvalue())["findings"]}
    assert checks >= {"database", "migrations", "clock", "clusters", "work", "settings", "zone data"}
    assert "ntfy" not in checks
