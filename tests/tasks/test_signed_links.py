"""Signed links and the buttons of a notification that asks for an answer: bound to a run and one answer, for a while."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.core import signing

from schedules.tasks.asking import ReminderStep, read_ask
from schedules.tasks.interface import Asked
from schedules.tasks.signed_links import (
    ANSWER_LIFETIME,
    Button,
    ExpiredLinkError,
    UnknownLinkError,
    answer_address,
    answer_token,
    read_answer,
)
from tests.tasks.builtin.conftest import RUN, perform, problems, sink  # noqa: F401

pytest_plugins = ["tests.ntfy"]

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
KEY = "job_17_1738764000@20260204T090000000000Z"
OWN = {"action": "view", "label": "Open", "url": "https://example.com/"}
REPEATED = replace(RUN, repeats=True)


@pytest.fixture(autouse=True)
def public(settings):
    settings.CRONTY_URL = "https://cronty.example.org"


def test_token_says_what_it_was_made_for():
    link = read_answer(answer_token(42, KEY, Button.SNOOZE))

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
        read_answer(token)


def test_token_with_one_changed_character_is_unknown():
    token = answer_token(42, KEY, Button.DONE)
    believed = []
    for forged in changed(token)[:-1]:
        with suppress(UnknownLinkError):
            believed.append(read_answer(forged))

    assert believed == []


def test_what_django_signs_for_another_purpose_is_no_link():
    with pytest.raises(UnknownLinkError):
        read_answer(signing.TimestampSigner(salt="password reset", sep=".").sign("42.done.0123456789abcdef"))


def test_secret_key_decides(settings):
    token = answer_token(42, KEY, Button.DONE)
    settings.SECRET_KEY = "another " * 8

    with pytest.raises(UnknownLinkError):
        read_answer(token)


def test_token_expires():
    with time_machine.travel(NOW, tick=False) as now:
        token = answer_token(42, KEY, Button.DONE)
        now.shift(ANSWER_LIFETIME - timedelta(seconds=1))
        assert read_answer(token).execution_id == 42
        now.shift(timedelta(seconds=2))
        with pytest.raises(ExpiredLinkError):
            read_answer(token)


def test_link_leads_to_the_public_address():
    assert answer_address(42, KEY, Button.DONE).startswith("https://cronty.example.org/a/42.done.")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:8000"])
def test_without_a_public_address_there_are_no_links(settings, url):
    settings.CRONTY_URL = url

    assert answer_address(42, KEY, Button.DONE) == ""


def test_message_that_belongs_to_no_run_has_no_links():
    assert answer_address(0, KEY, Button.DONE) == ""


def again(number: int, topic: str = ""):
    async def find() -> ReminderStep:
        return ReminderStep(number, 5, topic)

    return replace(REPEATED, find_reminder=find)


def sent(sink, run=REPEATED, **fields):  # noqa: F811
    result = perform("notify", run, **{"message": "Take the pills", "topic": "home", "ask": "yes"} | fields)
    (request,) = sink.requests
    return result, json.loads(request.body)


def test_notification_has_three_buttons_and_a_page_behind_it(sink):  # noqa: F811
    _, body = sent(sink)

    assert [(each["label"], each["action"], each["method"], each["clear"]) for each in body["actions"]] == [
        ("Done", "http", "POST", True),
        ("Snooze", "http", "POST", True),
        ("Skip next", "http", "POST", True),
    ]
    urls = [*(each["url"] for each in body["actions"]), body["click"]]
    links = [read_answer(url.removeprefix("https://cronty.example.org/a/").rstrip("/")) for url in urls]
    assert [link.button for link in links] == ["done", "snooze", "skip", "page"]
    assert all(link.execution_id == RUN.execution_id and link.is_about(RUN.key) for link in links)


def test_one_time_job_has_no_next_run_to_skip(sink):  # noqa: F811
    _, body = sent(sink, RUN)

    assert [each["label"] for each in body["actions"]] == ["Done", "Snooze"]


def test_own_buttons_and_own_address_stay(sink):  # noqa: F811
    _, body = sent(sink, actions=[OWN, OWN], click="https://example.com/plants")

    assert [each["label"] for each in body["actions"]] == ["Open", "Open", "Done"]
    assert body["click"] == "https://example.com/plants"


def test_without_a_public_address_the_message_has_no_buttons_but_still_asks(sink, settings):  # noqa: F811
    settings.CRONTY_URL = "http://127.0.0.1:8000"

    result, body = sent(sink, ask="every 10m")

    assert body == {"topic": "home", "message": "Take the pills"}
    assert result == Asked({"id": "abc", "topic": "home", "server": "127.0.0.1"}, read_ask("every 10m"))


def test_notification_that_asks_nothing_is_as_before(sink):  # noqa: F811
    result, body = sent(sink, ask=None)

    assert body == {"topic": "home", "message": "Take the pills"}
    assert isinstance(result, dict)


def test_reminder_says_which_one_it_is_and_asks_no_new_question(sink):  # noqa: F811
    result, body = sent(sink, again(2))

    assert (body["title"], body["topic"]) == ("Water the plants (reminder 2 of 5)", "home")
    assert isinstance(result, dict)


def test_last_reminder_goes_to_the_other_topic(sink):  # noqa: F811
    result, body = sent(sink, again(6, "boss"), title="Pills")

    assert (body["title"], body["topic"], result["topic"]) == ("Pills (nobody answered)", "boss", "boss")


def test_snoozed_message_looks_like_the_first_one(sink):  # noqa: F811
    _, body = sent(sink, again(0))

    assert "title" not in body


def test_unreadable_ask_is_refused_when_the_job_is_made():
    (problem,) = problems("notify", message="x", topic="home", ask="every now and then")

    assert problem.startswith("ask: the interval is not understood")


def test_real_ntfy_keeps_the_buttons(ntfy, settings):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url, ""

    perform("notify", REPEATED, message="Take the pills", topic="answers", ask="yes")

    (message,) = ntfy.messages("answers")
    assert [each["label"] for each in message["actions"]] == ["Done", "Snooze", "Skip next"]
    assert message["click"].startswith("https://cronty.example.org/a/42.page.")
