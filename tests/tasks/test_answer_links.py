"""Signed links: bound to a run and one answer, for a while."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.core import signing

from schedules.tasks.answer_links import (
    LIFETIME,
    Button,
    ExpiredLinkError,
    UnknownLinkError,
    make_link,
    make_token,
    read_token,
)

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
KEY = "job_17_1738764000@20260204T090000000000Z"


def test_token_says_what_it_was_made_for():
    link = read_token(make_token(42, KEY, Button.SNOOZE))

    assert (link.execution_id, link.button, link.name) == (42, Button.SNOOZE, "42.snooze")
    assert link.is_about(KEY)
    assert not link.is_about(f"{KEY}-manual")


def changed(text: str) -> list[str]:
    """Return texts that differ from this one by one character each."""
    return [
        text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :] for place in range(len(text))
    ]


@pytest.mark.parametrize("token", ["", ".", "42.done", "42.done.x.y.z", "\ud800", "é" * 100, "A" * 100_000])
def test_nonsense_is_unknown(token):
    with pytest.raises(UnknownLinkError):
        read_token(token)


def test_token_with_one_changed_character_is_unknown():
    token = make_token(42, KEY, Button.DONE)
    believed = []
    for forged in changed(token)[:-1]:
        with suppress(UnknownLinkError):
            believed.append(read_token(forged))

    assert believed == []


def test_what_django_signs_for_another_purpose_is_no_link():
    with pytest.raises(UnknownLinkError):
        read_token(signing.TimestampSigner(salt="password reset", sep=".").sign("42.done.0123456789abcdef"))


def test_secret_key_decides(settings):
    token = make_token(42, KEY, Button.DONE)
    settings.SECRET_KEY = "another " * 8

    with pytest.raises(UnknownLinkError):
        read_token(token)


def test_token_expires():
    with time_machine.travel(NOW, tick=False) as now:
        token = make_token(42, KEY, Button.DONE)
        now.shift(LIFETIME - timedelta(seconds=1))
        assert read_token(token).execution_id == 42
        now.shift(timedelta(seconds=2))
        with pytest.raises(ExpiredLinkError):
            read_token(token)


def test_link_leads_to_the_public_address(settings):
    settings.CRONTY_URL = "https://cronty.example.org"

    assert make_link(42, KEY, Button.DONE).startswith("https://cronty.example.org/a/42.done.")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:8000"])
def test_without_a_public_address_there_are_no_links(settings, url):
    settings.CRONTY_URL = url

    assert make_link(42, KEY, Button.DONE) == ""


def test_message_that_belongs_to_no_run_has_no_links(settings):
    settings.CRONTY_URL = "https://cronty.example.org"

    assert make_link(0, KEY, Button.DONE) == ""
