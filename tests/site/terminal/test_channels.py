"""The subcommand channels."""

import pytest

from schedules.models import Channel


def test_channel_is_added_listed_renamed_and_deleted(cronty):
    saved = cronty("channels", "phone", "topic=plants", "--add", "ntfy")

    assert saved.code == 0, saved.err
    (listed,) = cronty("channels", "--json").json
    assert (listed["name"], listed["kind"], listed["options"]) == ("phone", "ntfy", {"topic": "plants"})
    assert "plants" in cronty("channels").out
    assert cronty("channels", "phone", "--rename", "mobile").code == 0
    assert cronty("channels", "phone", "--delete").code == 3
    assert cronty("channels", "mobile", "--delete").code == 0
    assert not Channel.objects.exists()


def test_secret_is_asked_for_and_never_an_argument(cronty, monkeypatch):
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda prompt: "Asecret-token")

    refused = cronty("channels", "home", "server=https://gotify.example", "token=x", "--add", "gotify")
    saved = cronty("channels", "home", "server=https://gotify.example", "--add", "gotify")

    assert refused.code == 2
    assert saved.code == 0, saved.err
    assert "Asecret" not in saved.out + cronty("channels", "--json").out


@pytest.mark.parametrize("arguments", [("phone",), ("phone", "chat=1", "--add", "ntfy")])
def test_wrong_usage_says_what_to_write(cronty, arguments):
    assert cronty("channels", *arguments).code == 2
