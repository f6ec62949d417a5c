"""Phrases that repeat."""

import time
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedules.when.phrase_writer import phrase_of
from schedules.when.phrases import PhraseError, parse_delay, parse_moment
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once
from schedules.when.unplanned import AtStart
from tests.when.tables import rows

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def trigger(text):
    return parse_trigger(text, now=NOW, timezone=ZONE)


def test_repeats_are_those_of_the_table():
    meanings = {phrase: Cron(expression, ZONE) for phrase, expression in rows("cron")}
    meanings |= {
        phrase: Interval(int(seconds), NOW + timedelta(seconds=int(seconds)))
        for phrase, seconds in rows("seconds")
    }
    for phrase, count, unit, start in rows("apart"):
        first = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(ZONE))
        meanings[phrase] = CalendarInterval(int(count), unit, first, ZONE)

    differences = [phrase for phrase, meaning in meanings.items() if trigger(phrase) != meaning]

    assert differences == []


def test_unclear_repeats_are_refused_with_the_reasons_of_the_table():
    for phrase, reason in rows("no repeat"):
        with pytest.raises(PhraseError, match=reason):
            trigger(phrase)


def test_interval_without_a_start_begins_at_a_round_time():
    odd = NOW + timedelta(minutes=3, seconds=21, microseconds=5)

    starts = [
        parse_trigger(phrase, now=odd, timezone=ZONE).start.astimezone(ZoneInfo(ZONE))
        for phrase in ("every 90 minutes", "every 24 hours", "every 7 seconds")
    ]

    assert [f"{start:%d %H:%M:%S.%f}" for start in starts] == [
        "15 11:33:00.000000",
        "16 10:03:00.000000",
        "15 10:03:28.000000",
    ]


@pytest.mark.parametrize(
    ("phrase", "start"),
    [
        ("every 15 minutes starting at 12:10", "2026-11-15 12:10"),
        ("every 2 hours, starting tomorrow at 9:00", "2026-11-16 09:00"),
    ],
)
def test_interval_starts_when_the_phrase_says(phrase, start):
    first = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(ZONE))

    assert trigger(phrase).next_after(NOW) == first


@pytest.mark.parametrize(
    ("phrase", "count", "unit", "start"),
    [
        ("every 2 weeks, starting 2026-11-23 09:00", 14, "days", "2026-11-23 09:00"),
        ("every 3 months, starting 2026-08-31 09:00", 3, "months", "2026-08-31 09:00"),
        ("every 1 month, starting 2027-01-29 06:00", 1, "months", "2027-01-29 06:00"),
        ("every 1 day, starting 2020-01-01 00:00", 1, "days", "2020-01-01 00:00"),
        ("every 10 days, starting 2026-11-15 09:00:30", 10, "days", "2026-11-15 09:00:30"),
    ],
)
def test_repeat_with_a_start_is_read_and_written(phrase, count, unit, start):
    first = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(ZONE))
    meant = CalendarInterval(count, unit, first, ZONE)

    assert trigger(phrase) == meant
    assert phrase_of(meant) == phrase


@pytest.mark.parametrize(
    "phrase",
    [
        "every 2 weeks, starting soon",
        "every 3 months starting 2026-11-23 09:00 or so",
        "every weekday at 9:00 starting 1 december",
        "tomorrow at 9:00 starting soon",
        "every 0 days, starting 2026-11-23 09:00",
        "every 2 weeks, starting 2026-02-30 09:00",
    ],
)
def test_start_that_is_no_date_and_time_is_refused(phrase):
    with pytest.raises(PhraseError):
        trigger(phrase)


@pytest.mark.parametrize(
    "phrase", ["every other sunday at 2:30", "every 2 days at 2:30", "every 2 months on the 28th at 2:30"]
)
def test_clock_change_moves_only_the_first_run(phrase):
    now = datetime(2027, 3, 27, 12, tzinfo=ZoneInfo(ZONE))

    runs = parse_trigger(phrase, now=now, timezone=ZONE).upcoming(now, 3)

    local = [run.astimezone(ZoneInfo(ZONE)) for run in runs]
    assert [f"{run:%H:%M}" for run in local] == ["03:00", "02:30", "02:30"]
    assert f"{local[0]:%m-%d}" == "03-28"


@pytest.mark.parametrize("phrase", ["every 24 hours", "every 7 days", "every 2 days", "every 90 minutes"])
def test_words_of_an_interval_are_read_back(phrase):
    assert trigger(trigger(phrase).words()) == trigger(phrase)


def test_sentence_of_a_schedule_is_read_back():
    for expression in [
        "0 * * * *",
        "5 * * * *",
        "*/15 * * * *",
        "*/7 * * * *",
        "0 */6 * * *",
        "30 8 * * 1-5",
        "0 5 * * 3",
        "0 19 * * 1,4",
        "0 10 * * 0,6",
        "0 9 * * 2-4",
        "0 9 * * 0,1,2,4,5,6",
        "0 9,17 * * *",
        "0 6 1 * *",
        "0 9 1,15 * *",
        "0 9 L * *",
        "0 18 24 12 *",
        "0 10 * * 1#1",
        "0 17 * * 5L",
        "*/20 8-18 * * 1-5",
        "0 9-17 * * 1-5",
        "0 9-17/2 * * *",
        "*/15 * * * 3",
    ]:
        assert trigger(Cron(expression).words()) == Cron(expression, ZONE)


@pytest.mark.parametrize(
    "phrase", ["tomorrow at 9am", "in 20 minutes", "2h30m", "2026-12-24T18:00:00Z", "noon"]
)
def test_moment_becomes_a_one_time_trigger(phrase):
    assert trigger(phrase) == Once(parse_moment(phrase, now=NOW, timezone=ZONE), ZONE)


def test_unknown_zone_is_refused():
    with pytest.raises(PhraseError, match="Europe/Berlin"):
        parse_trigger("every day at 9am", now=NOW, timezone="Mars/Base")


vocabulary = "every each at in on the next monday fridays day month of first last and 9 9am 8:30 15 noon a "
vocabulary += "ago yesterday last now minutes hours dec 24 2026 2026-12-24 * */5 1-5 @daily tonight tomorrow half an hour"
words = st.sampled_from(vocabulary.split())


@settings(max_examples=400)
@given(st.one_of(st.text(max_size=220), st.lists(words, max_size=40).map(" ".join)))
@example("at 9am and " * 18)
@example("1 a " * 50)
@example("1d" * 100)
@example(" ," * 100)
def test_any_text_is_parsed_or_refused_quickly(text):
    # Far above the usual few milliseconds, far below what a pattern that backtracks without end takes. A slow machine
    # may need another try.
    assert any(seconds_to_read(text) < 2 for _ in range(3))


def seconds_to_read(text):
    started = time.thread_time()
    parsers = (parse_trigger, parse_moment, partial(parse_moment, past=True))
    for parse in parsers:
        with suppress(PhraseError):
            parse(text, now=NOW, timezone=ZONE)
    with suppress(PhraseError):
        parse_delay(text)
    return time.thread_time() - started


def test_start_of_the_machine_is_understood():
    for phrase in [
        "@reboot",
        " @Reboot ",
        "When the machine starts",
        "when my server boots",
        "whenever the computer restarts",
        "when Cronty starts",
        "at startup",
        "on every boot",
        "after reboot",
    ]:
        assert trigger(phrase) == AtStart()


def test_words_of_a_start_are_read_back():
    assert trigger(AtStart().words()) == AtStart()
