"""Lines that say what to do and when."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from schedules.when.clauses import parse_plan
from schedules.when.phrases import PhraseError
from schedules.when.sentences import parse_sentence

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def read(text):
    return parse_sentence(text, now=NOW, timezone=ZONE)


SENTENCES = [
    ("take out the bins", "every second tuesday 18:00"),
    ("water the plants", "every day at 9am"),
    ("stand up", "every weekday at 8:30"),
    ("drink water", "every 2 hours"),
    ("drink water", "every hour from 9:00 to 17:00 on weekdays"),
    ("call mum", "tomorrow at 9"),
    ("call mum", "friday at noon"),
    ("call mum", "tomorrow"),
    ("swimming", "mondays"),
    ("call the dentist", "in 20 minutes"),
    ("pay the rent", "on the 1st of every month at 6:00"),
    ("send the report", "last friday of the month at 17:00"),
    ("Swimming lesson", "wednesdays at 15:30"),
    ("feed Miso", "every day at 7:30 and 18:30"),
    ("paper and cardboard", "thursdays at 18:00"),
    ("backup", "0 3 * * *"),
    ("backup the photos", "@daily"),
    ("renew the passport", "2027-03-01 09:00"),
    ("birthday of Anna", "every year on 24 december at 18:00"),
    ("check the oven", "in half an hour"),
    ("stretch", "every 45 minutes"),
    ("look at the stars", "tonight at 22:00"),
    ("walk the dog", "every morning at 7"),
    ("buy bread", "tomorrow morning"),
    ("read chapter 5", "tomorrow at 9"),
    ("buy 2 kg of flour", "saturday at 10:00"),
    ("Müll rausbringen", "every tuesday 18:00"),
    ("call Łukasz", "in 2 hours"),
    ("team meeting", "mondays at 9 starting 1 december"),
    ("advent calendar", "every day at 7:00 until 24 december"),
    ("school run", "every weekday at 7:35 except 24 december"),
    ("clean the filter", "every 3 months on the 1st at 9:00"),
    ("close the books", "on the last day of every month at 17:00"),
    ("invoices", "first working day of the month at 9:00"),
    ("lunch", "noon"),
    ("take the cake out", "15:45"),
    ("restart the lights", "when the machine starts"),
    ("week planning", "sundays at 19:00"),
    ("vote", "24 december at 18:00"),
    ("rotate keys", "every quarter"),
    ("yoga", "mon, wed, fri 9am"),
    ("timesheet", "every friday at 16:00"),
    ("medicine", "every day at 8, 14 and 20"),
    ("say hello", "the day after tomorrow at noon"),
]


@pytest.mark.parametrize(("what", "when"), SENTENCES)
def test_line_is_split_into_what_and_when(what, when):
    found = read(f"{what} {when}")

    assert (found.what, found.when) == (what[0].upper() + what[1:], when)
    assert found.plan == parse_plan(when, now=NOW, timezone=ZONE)


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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("take out the bins", "when\\?"),
        ("", "when\\?"),
        ("read the sun", "when\\?"),
        ("walk 10 minutes", "when\\?"),
        ("every tuesday 18:00", "what should happen"),
        ("tomorrow at 9", "what should happen"),
        ("bins every day at 9 and 17:30", "one job for each"),
        ("bins every day at 3", "3am or 3pm"),
        ("clean every room tomorrow at 9", '"every room" beside "tomorrow at 9"'),
        ("bins every blue tuesday at 18:00", '"every blue" beside "tuesday at 18:00"'),
        ("bins every monday every 3 days at 9", '"every monday" beside "every 3 days at 9"'),
        ("every monday call mum tomorrow", '"every monday call mum" beside "tomorrow"'),
        ("pills 8:30 every day at 9", '"8:30" beside'),
        ("pills at 8 every day at 9", '"at 8" beside'),
        ("pills 8 pm every weekday at 9", '"8 pm" beside'),
        ("check the oven in 20 minutes tomorrow at 9", '"in 20 minutes" beside'),
        ("brush teeth twice a day every day at 9", '"twice a day" beside'),
        ("gym monday every 2 weeks", '"monday" beside'),
        ("nag me about tablets every weekday at 8:30", '"nag me about tablets" beside'),
        ("take pills every weekday at 8:30 until done", "how often until it is done"),
        ("water plants every 3 days at 9 and nag me", "how often until it is done"),
        ("take pills until it's done every weekday at 8:30", '"until it\'s done" beside'),
        ("x" * 301, "at most 300"),
    ],
)
def test_unclear_line_is_refused_with_its_reason(text, reason):
    with pytest.raises(PhraseError, match=reason):
        read(text)
