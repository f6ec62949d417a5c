"""Refusals of phrases: they propose corrected spelling, and never another time than the one that was written."""

import re
from datetime import UTC, datetime

import pytest

from schedules.when.phrases import PhraseError, parse_moment
from schedules.when.repeats import parse_trigger

NOW = datetime(2026, 2, 4, 11, tzinfo=UTC)
ZONE = "Europe/Berlin"
# Each is refused; what is quoted for it keeps every number, and repeats only if the text does.
REFUSED = [
    "in 3 weeks on monday at 9",
    "next month",
    "next month at 9",
    "next week",
    "next week on friday",
    "Easter monday 10:00",
    "easter monday",
    "christmas",
    "christmas at 18:00",
    "the day before christmas at 10:00",
    "early monday at 9",
    "late friday",
    "friday or saturday at 10",
    "later",
    "soon",
    "asap",
    "whenever",
    "sometime next week",
    "end of the month",
    "end of the day",
    "end of the year at 17:00",
    "mid december at 9:00",
    "bimonthly at 9",
    "biweekly",
    "biweekly on friday at 16:00",
    "semi-monthly",
    "twice a day",
    "twice a week",
    "twice a year",
    "3 times a week at 8:00",
    "three times a day",
    "2 times a day at 8:00",
    "every 2 months",
    "every 2 months at 8:00",
    "every year",
    "yearly at 10:00",
    "every an hour",
    "every blue moon",
    "every full moon at 21:00",
    "every day at 3",
    "tomorrow at 3",
    "tomorrow at half past 3",
    "today",
    "tonight at 1",
    "friday night at 1am",
    "in 30 minutes 2 hours",
    "in 2 months",
    "2 weeks ago on monday at 9",
    "forth friday of the month at 17:00",
    "every forth friday at 17:00",
    "the 31st at 9:00",
    "monday except monday at 9:00",
    "every 7 minutes from 9 to 17",
    "every 50 minutes on weekdays",
    "every 5 hours from 8:00 to 20:00",
    "every 20 minutes from 9:10 to 17:00",
    "every 2 hours from 22:00 to 6:00",
    "every 3 months on the 31st at 9:00",
    "every day at 9:00 and 17:30",
    "at 25:00",
    "today at sunset",
    "every day at sunrise",
    "10 minutes at the start of any event in calendar work",
    "0 9 * *",
    "0 0 9 * * *",
    "morgen um 9 Uhr",
    "jeden Tag um 8",
    "mañana a las 9",
    "明日9時",
    "xyzzy plugh",
]
REPEATING = re.compile(
    r"\b(?:every|each|daily|weekly|monthly|yearly|weekdays|weekends|\w+days)\b|(?:[\d*/,-]+ ){4}", re.I
)
DAYS = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|today|tomorrow|december", re.I)


@pytest.mark.parametrize("text", REFUSED)
def test_refusal_proposes_no_other_meaning(text):
    with pytest.raises(PhraseError) as refused:
        parse_trigger(text, now=NOW, timezone=ZONE)

    quoted = re.findall(r'"([^"]+)"', str(refused.value))
    said = " ".join(quoted)
    assert "Try" not in str(refused.value)
    assert REPEATING.search(text) or not REPEATING.search(said), said
    assert set(re.findall(r"\d+", said)) <= set(re.findall(r"\d+", text)), said
    assert set(DAYS.findall(said.lower())) <= set(DAYS.findall(text.lower())), said


@pytest.mark.parametrize(
    ("phrase", "meant"),
    [
        ("in 20 minuts", "in 20 minutes"),
        ("in 1 minuts", "in 1 minute"),
        ("in 3 wekes", "in 3 weeks"),
        ("tomorow 9am", "tomorrow 9am"),
        ("tommorrow at 9", "tomorrow at 9"),
        ("wendesday at 9am", "wednesday at 9am"),
        ("2026/12/24 18:00", "2026-12-24 18:00"),
        ("tomorrow 15h30", "tomorrow 15:30"),
        ("evry weekdy at 8:30", "every weekday at 8:30"),
        ("every mondy at 9", "every monday at 9"),
        ("evry 15 minuts", "every 15 minutes"),
        ("weekdys 8:30", "weekdays 8:30"),
        ("wenesdays at 9", "wednesdays at 9"),
    ],
)
def test_misspelt_phrase_is_corrected(phrase, meant):
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
