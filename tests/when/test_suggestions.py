"""Refusals of phrases: they propose corrected spelling, and never another time than the one that was written."""

import re
from datetime import UTC, datetime

import pytest

from schedules.when.phrases import PhraseError, parse_moment
from schedules.when.repeats import parse_trigger
from tests.when.tables import rows

NOW = datetime(2026, 2, 4, 11, tzinfo=UTC)
ZONE = "Europe/Berlin"
REPEATING = re.compile(
    r"\b(?:every|each|daily|weekly|monthly|yearly|weekdays|weekends|\w+days)\b|(?:[\d*/,-]+ ){4}", re.I
)
DAYS = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|today|tomorrow|december", re.I)


# Each is refused; what is quoted for it keeps every number, and repeats only if the text does.
def test_refusal_proposes_no_other_meaning():
    for (text,) in rows("refused"):
        with pytest.raises(PhraseError) as refused:
            parse_trigger(text, now=NOW, timezone=ZONE)

        quoted = re.findall(r'"([^"]+)"', str(refused.value))
        said = " ".join(quoted)
        assert "Try" not in str(refused.value)
        assert REPEATING.search(text) or not REPEATING.search(said), said
        assert set(re.findall(r"\d+", said)) <= set(re.findall(r"\d+", text)), said
        assert set(DAYS.findall(said.lower())) <= set(DAYS.findall(text.lower())), said


def test_misspelt_phrases_are_corrected():
    for phrase, meant in rows("misspelt"):
        with pytest.raises(PhraseError, match=f'^couldn\'t read that schedule. Did you mean "{meant}"\\?$'):
            parse_trigger(phrase, now=NOW, timezone=ZONE)
        parse_trigger(meant, now=NOW, timezone=ZONE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Easter monday 10:00",
            'couldn\'t read that date and time: "easter" is not known. Write a date and time as YYYY',
        ),
        (
            "in 3 weeks on monday at 9",
            "couldn't read that date and time. Write a date and time as YYYY-MM-DD HH",
        ),
        ("today at sunset", "clock times only: look up the time of sunset, and write it as HH:MM"),
        ("demain à 9h", "use English letters, digits and punctuation only"),
    ],
)
def test_refusal_names_what_is_unclear(text, reason):
    with pytest.raises(PhraseError, match=f"^{reason}"):
        parse_moment(text, now=NOW, timezone=ZONE)
