"""The subcommand secret."""

import json
from io import StringIO

import pytest

from schedules import clock
from schedules.models import Event, Secret
from schedules.secrets.encryption import unseal


def test_secret_is_read_from_standard_input_listed_and_deleted(cronty, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO("hush-hush-7\n"))

    saved = cronty("secret", "KEY", "--host", "api.example", "--host", "b.example", "--command", "backup")

    assert saved.code == 0
    assert "${secret:KEY}" in saved.out
    (listed,) = cronty("secret", "--json").json
    assert (listed["name"], listed["hosts"], listed["commands"]) == (
        "KEY",
        ["api.example", "b.example"],
        ["backup"],
    )
    assert "hush" not in cronty("secret").out + saved.out + saved.err
    assert Event.objects.get().door == "terminal"
    assert cronty("secret", "KEY", "--delete").code == 0
    assert not Secret.objects.exists()
    assert cronty("secret", "KEY", "--delete").code == 3


@pytest.mark.parametrize(
    ("given", "value"),
    [("hush-hush-7\n", "hush-hush-7"), ("hush-hush-7", "hush-hush-7"), ("BEGIN\nkey\n", "BEGIN\nkey\n")],
    ids=["line", "text", "key"],
)
def test_last_line_break_belongs_to_a_secret_of_several_lines(cronty, monkeypatch, given, value):
    monkeypatch.setattr("sys.stdin", StringIO(given))

    cronty("secret", "KEY", "--host", "api.example")

    row = Secret.objects.get()
    assert unseal(row.sealed, row.place) == value


def test_question_for_a_value_is_json_for_programs(cronty, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda prompt: prompt or "hush-hush-7")

    saved = cronty("secret", "KEY", "--host", "api.example", "--json")

    assert [json.loads(text) for text in saved.err.splitlines()] == [{"question": "Value of KEY"}]
    assert saved.json["name"] == "KEY"
    row = Secret.objects.get()
    assert unseal(row.sealed, row.place) == "hush-hush-7"


def test_expiry_is_set_listed_and_moved_without_the_value(cronty, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO("hush-hush-7"))
    cronty("secret", "KEY", "--host", "api.example", "--expires", "2030-03-31")
    sealed = Secret.objects.get().sealed

    assert "2030-03-31 23:59" in cronty("secret").out
    moved = cronty("secret", "KEY", "--expires", "2031-03-31")

    assert moved.out.startswith("KEY expires on")
    assert cronty("secret", "--json").json[0]["expires_at"].startswith("2031-03-31")
    assert cronty("secret", "KEY", "--expires", "never").out == "KEY never expires.\n"
    assert Secret.objects.get().sealed == sealed
    Secret.objects.update(expires_at=clock.now())
    assert "(expired)" in cronty("secret").out
    assert cronty("secret", "KEY", "--expires", "blue moon").code == 1
    assert cronty("secret", "OTHER", "--expires", "2031-03-31").code == 3
