"""Lines that say what to do and when."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from schedules.when.clauses import parse_plan
from schedules.when.phrases import PhraseError
from schedules.when.sentences import parse_sentence
from tests.when.tables import rows

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def read(text):
    return parse_sentence(text, now=NOW, timezone=ZONE)


def test_lines_are_split_into_what_and_when():
    for what, when in rows("sentence"):
        found = read(f"{what} {when}")

        assert (found.what, found.when) == (what[0].upper() + what[1:], when)
        assert found.plan == parse_plan(when, now=NOW, timezone=ZONE)


def test_unclear_lines_are_refused_with_the_reasons_of_the_table():
    for text, reason in [*rows("no sentence"), ("", "when"), ("x" * 301, "at most 300")]:
        with pytest.raises(PhraseError, match=reason):
            read(text)


@pytest.mark.parametrize(
    ("text", "what", "when"),
    [
        ("every friday at 17:00 send the report", "Send the report", "every friday at 17:00"),
        ("tomorrow at 9: call mum", "Call mum", "tomorrow at 9:"),
        ("in 20 minutes check the oven", "Check the oven", "in 20 minutes"),
        ("remind me to call mum tomorrow at 9", "Call mum", "tomorrow at 9"),
        ("Remind me tomorrow at 9 to call mum", "Call mum", "tomorrow at 9"),
        ("call mum, tomorrow at 9", "Call mum", "tomorrow at 9"),
    ],
)
def test_other_orders_are_split(text, what, when):
    found = read(text)

    assert (found.what, found.when.rstrip(":")) == (what, when.rstrip(":"))


@pytest.mark.parametrize(
    ("text", "what", "when", "ask"),
    [
        ("pills every weekday 8:30, ask every 10m", "Pills", "every weekday 8:30", "every 10m"),
        (
            "remind me every weekday at 8:30 to take my pills and nag me every 10 minutes until done",
            "Take my pills",
            "every weekday at 8:30",
            "every 10 minutes",
        ),
        (
            "tablet tomorrow at 9, remind me every hour 5 times",
            "Tablet",
            "tomorrow at 9",
            "every hour 5 times",
        ),
        ("prepare for monday every sunday at 18:00", "Prepare for monday", "every sunday at 18:00", ""),
        ("ask Anna tomorrow at 9", "Ask Anna", "tomorrow at 9", ""),
    ],
)
def test_reminders_until_done_are_understood(text, what, when, ask):
    found = read(text)

    assert (found.what, found.when, found.ask) == (what, when, ask)
