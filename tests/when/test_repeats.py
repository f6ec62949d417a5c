"""Phrases that repeat."""

import time
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedules.when.phrases import PhraseError, parse_delay, parse_moment
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import Cron, Interval, Once

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def trigger(text):
    return parse_trigger(text, now=NOW, timezone=ZONE)


@pytest.mark.parametrize(
    ("phrase", "expression"),
    [
        ("every weekday at 8:30", "30 8 * * 1-5"),
        ("every day at 9am", "0 9 * * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("every hour", "0 * * * *"),
        ("hourly", "0 * * * *"),
        ("daily at 18:00", "0 18 * * *"),
        ("every monday at 9", "0 9 * * 1"),
        ("mondays and thursdays at 7pm", "0 19 * * 1,4"),
        ("every tuesday and friday at 18:00", "0 18 * * 2,5"),
        ("weekly on sunday at noon", "0 12 * * 0"),
        ("first of every month at 6am", "0 6 1 * *"),
        ("every month on the 15th at 10:00", "0 10 15 * *"),
        ("every 2 hours", "0 */2 * * *"),
        ("weekends at 10am", "0 10 * * 0,6"),
        ("every year on december 24 at 18:00", "0 18 24 12 *"),
        ("last friday of the month at 17:00", "0 17 * * 5L"),
        ("every minute", "* * * * *"),
        ("first monday of the month at 10:00", "0 10 * * 1#1"),
        ("on the last day of each month at 9am", "0 9 L * *"),
        ("at 9am every day", "0 9 * * *"),
        ("every day at midnight", "0 0 * * *"),
        ("every day at 9am and 5pm", "0 9,17 * * *"),
        ("every monday, wednesday and friday at 9, 13 and 17", "0 9,13,17 * * 1,3,5"),
        ("every half hour", "*/30 * * * *"),
        ("every two hours", "0 */2 * * *"),
        ("every 60 minutes", "0 * * * *"),
        ("@daily", "@daily"),
        ("30 8 * * MON-FRI", "30 8 * * MON-FRI"),
    ],
)
def test_even_repeat_becomes_cron(phrase, expression):
    assert trigger(phrase) == Cron(expression, ZONE)


@pytest.mark.parametrize(
    ("phrase", "seconds"),
    [
        ("every 45 minutes", 2700),
        ("every 90 minutes", 5400),
        ("every 2h30m", 9000),
        ("every 5 hours", 18000),
        ("every 24 hours", 86400),
        ("every 30 seconds", 30),
        ("every second", 1),
        ("every 2 days", 172800),
    ],
)
def test_uneven_repeat_becomes_an_interval_from_now(phrase, seconds):
    assert trigger(phrase) == Interval(seconds, NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("phrase", "reason"),
    [
        ("twice a day", "which hours"),
        ("every other day at 8am", "first day"),
        ("every quarter", "on which day"),
        ("every day", 'Write "every day at 9:00"'),
        ("mondays", "at what time"),
        ("every friday at midnight", "which end"),
        ("every day at 9:00 and 17:30", "schedule each"),
        ("every an hour", "rhythm is not understood"),
        ("every december 24 2026 at noon", "rhythm is not understood"),
        ("every 0 minutes", "at least one second"),
        ("every 99999999999999 seconds", "five years"),
        ("0 0 9 * * *", "five fields"),
        ("0 0 30 2 *", "February has no 30th"),
        ("@reboot", "no time of its own"),
        ("every month on the 32nd at 9am", "takes 1-31"),
    ],
)
def test_unclear_repeat_is_refused_with_its_reason(phrase, reason):
    with pytest.raises(PhraseError, match=reason):
        trigger(phrase)


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


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=220), st.lists(words, max_size=40).map(" ".join)))
@example("at 9am and " * 18)
@example("1 a " * 50)
@example("1d" * 100)
@example(" ," * 100)
def test_any_text_is_parsed_or_refused_quickly(text):
    started = time.thread_time()
    parsers = (parse_trigger, parse_moment, partial(parse_moment, past=True))
    for parse in parsers:
        with suppress(PhraseError):
            parse(text, now=NOW, timezone=ZONE)
    with suppress(PhraseError):
        parse_delay(text)
    # Far above the usual few milliseconds, far below what a pattern that backtracks without end takes.
    assert time.thread_time() - started < 2
