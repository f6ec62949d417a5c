import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedules.when.phrases import PhraseError, parse_delay, parse_moment, parse_trigger
from schedules.when.triggers import Cron, Interval, Once

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def moment(text, now=NOW):
    return parse_moment(text, now=now, timezone=ZONE)


def past_moment(text, now=NOW):
    return parse_moment(text, now=now, timezone=ZONE, past=True)


def trigger(text, now=NOW):
    return parse_trigger(text, now=now, timezone=ZONE)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("tomorrow at 9am", "2026-11-16 09:00"),
        ("in 20 minutes", "2026-11-15 10:20"),
        ("next friday 17:30", "2026-11-20 17:30"),
        ("friday at noon", "2026-11-20 12:00"),
        ("2026-12-24 18:00", "2026-12-24 18:00"),
        ("dec 24 6pm", "2026-12-24 18:00"),
        ("in 2 hours", "2026-11-15 12:00"),
        ("tonight at 8", "2026-11-15 20:00"),
        ("monday 9:00", "2026-11-16 09:00"),
        ("in 3 days at 14:00", "2026-11-18 14:00"),
        ("the day after tomorrow at noon", "2026-11-17 12:00"),
        ("at 15:45", "2026-11-15 15:45"),
        ("at 8am", "2026-11-16 08:00"),
        ("24.12.2026 18:00", "2026-12-24 18:00"),
        ("in an hour and a half", "2026-11-15 11:30"),
        ("2026-02-04 3:00 PM", "2026-02-04 15:00"),
        ("2h30m", "2026-11-15 12:30"),
        ("1d2h30m10s", "2026-11-16 12:30:10"),
        ("2026-12-24T18:00:00Z", "2026-12-24 19:00"),
        ("2026-12-24t18:00+02:00", "2026-12-24 17:00"),
        ("2026-12-24 18:00:30.5", "2026-12-24 18:00:30.500000"),
        ("noon", "2026-11-15 12:00"),
        ("midnight", "2026-11-16 00:00"),
        ("12am", "2026-11-16 00:00"),
        ("9 a.m. tomorrow", "2026-11-16 09:00"),
        ("6pm on dec 24", "2026-12-24 18:00"),
        ("december 24, 2027 at 6pm", "2027-12-24 18:00"),
        ("the 24th of december at 6pm", "2026-12-24 18:00"),
        ("jan 2 at noon", "2027-01-02 12:00"),
        ("sunday at 9:00", "2026-11-22 09:00"),
        ("sunday at 11:00", "2026-11-15 11:00"),
        ("next sunday at 11:00", "2026-11-22 11:00"),
        ("this friday at 11:00", "2026-11-20 11:00"),
        ("today at 08:00", "2026-11-15 08:00"),
        ("tonight at 8:30", "2026-11-15 20:30"),
        ("tonight at 23:15", "2026-11-15 23:15"),
        ("at 08", "2026-11-16 08:00"),
        ("at 15", "2026-11-15 15:00"),
        ("in half an hour", "2026-11-15 10:30"),
        ("in two weeks", "2026-11-29 10:00"),
        ("in 1 day and 2 hours", "2026-11-16 12:00"),
        ("in 1 hour, 30 minutes.", "2026-11-15 11:30"),
    ],
)
def test_moment(phrase, expected):
    assert moment(phrase) == datetime.fromisoformat(expected).replace(tzinfo=ZoneInfo(ZONE))
    assert trigger(phrase) == Once(moment(phrase), ZONE)


@pytest.mark.parametrize(
    ("phrase", "reason"),
    [
        ("end of the month", "tomorrow at 9am"),
        ("next week", "tomorrow at 9am"),
        ("morgen um 9 Uhr", "tomorrow at 9am"),
        ("mañana a las 9", "plain English"),
        ("half past 3 tomorrow", "tomorrow at 9am"),
        ("", "nothing is written"),
        ("2026-12-24", "not a date with a time"),
        ("12/24/2026 18:00", "day is not understood"),
        ("monday and tuesday at 9am", "day is not understood"),
        ("at 8", "morning or evening"),
        ("tomorrow at 9", "8pm|9pm"),
        ("tomorrow at midnight", "00:00 or 23:59"),
        ("tonight at 8am", "17:00 to 23:59"),
        ("tonight at 1", "17:00 to 23:59"),
        ("at 25:00", "no time"),
        ("at 13pm", "no time"),
        ("at 9:75", "no time"),
        ("friday at 9am and 5pm", "one time"),
        ("31.02.2027 10:00", "no day 2027-02-31"),
        ("feb 29 at noon", "no day 2026-02-29"),
        ("2026-13-01 10:00", "no such date"),
        ("in 0 minutes", "at least one second"),
        ("in 2 hours,", "tomorrow at 9am"),
        ("in 30 minutes 2 hours", "tomorrow at 9am"),
        ("in 99999999999 days", "five years"),
        ("in 9999 days at 9am", "five years"),
        ("9999-12-31 23:59", "five years"),
        ("0001-01-01 00:00", "five years"),
        ("tomorrow at 9am\0", "plain English"),
        ("\u202etomorrow at 9am", "plain English"),
        ("in \u0662 hours", "plain English"),
        ("9" * 201, "200 characters"),
        (None, "200 characters"),
        ("2027-03-28 02:30", "skip 02:30 on 2027-03-28: write 03:30"),
    ],
)
def test_unclear_moment_is_refused_with_its_reason(phrase, reason):
    with pytest.raises(PhraseError, match=reason):
        moment(phrase)


def test_next_friday_is_refused_when_it_could_be_two():
    wednesday = NOW + timedelta(days=3)

    with pytest.raises(PhraseError, match="2026-11-20 or 2026-11-27"):
        moment("next friday 17:30", wednesday)


def test_time_that_clocks_show_twice_is_the_first():
    assert moment("2027-10-31 02:30").astimezone(UTC) == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "phrase", "expected"),
    [
        ("2027-10-31T02:15+02:00", "at 2:30", "2027-10-31T02:30+02:00"),
        ("2027-10-31T02:30+02:00", "at 2:15", "2027-10-31T02:15+01:00"),
        ("2027-10-31T02:30+01:00", "at 2:45", "2027-10-31T02:45+01:00"),
        ("2027-10-31T02:30+01:00", "2027-10-31 02:45", "2027-10-31T02:45+01:00"),
        ("2027-10-31T02:30+01:00", "2027-10-31 02:15", "2027-10-31T02:15+02:00"),
        ("2027-10-31T02:30+01:00", "at 2:15", "2027-11-01T02:15+01:00"),
        ("2027-03-28T12:00+02:00", "at 2:30", "2027-03-29T02:30+02:00"),
    ],
)
def test_of_two_times_that_clocks_show_alike_the_one_ahead_is_meant(now, phrase, expected):
    now, expected = datetime.fromisoformat(now), datetime.fromisoformat(expected)

    assert moment(phrase, now).astimezone(UTC) == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("now", "2026-11-15 10:00"),
        ("yesterday", "2026-11-14 00:00"),
        ("yesterday at 9:00", "2026-11-14 09:00"),
        ("yesterday 18:00", "2026-11-14 18:00"),
        ("2026-11-14", "2026-11-14 00:00"),
        ("14.11.2026", "2026-11-14 00:00"),
        ("2026-11-14 18:00", "2026-11-14 18:00"),
        ("today", "2026-11-15 00:00"),
        ("9:00", "2026-11-15 09:00"),
        ("at 18:00", "2026-11-14 18:00"),
        ("sunday 9:00", "2026-11-15 09:00"),
        ("sunday 18:00", "2026-11-08 18:00"),
        ("last sunday at 9:00", "2026-11-08 09:00"),
        ("last friday at noon", "2026-11-13 12:00"),
        ("monday", "2026-11-09 00:00"),
        ("dec 24 at 6pm", "2025-12-24 18:00"),
        ("nov 14", "2026-11-14 00:00"),
        ("20 minutes ago", "2026-11-15 09:40"),
        ("an hour ago", "2026-11-15 09:00"),
        ("2 days and 3 hours ago", "2026-11-13 07:00"),
        ("2h30m", "2026-11-15 07:30"),
        ("tomorrow at 9am", "2026-11-16 09:00"),
        ("in 20 minutes", "2026-11-15 10:20"),
        ("next sunday at 11:00", "2026-11-22 11:00"),
    ],
)
def test_moment_that_was(phrase, expected):
    assert past_moment(phrase) == datetime.fromisoformat(expected).replace(tzinfo=ZoneInfo(ZONE))


@pytest.mark.parametrize(
    ("phrase", "reason"),
    [
        ("", 'nothing is written here: try "yesterday'),
        ("back then", 'day is not understood: try "yesterday'),
        ("ago", 'day is not understood: try "yesterday'),
        ("soon ago", "day is not understood"),
        ("99999 days ago", "five years"),
        ("yesterday at 8", "morning or evening"),
        ("yesterday at midnight", "00:00 or 23:59"),
        ("2026-02-30", "no day 2026-02-30"),
    ],
)
def test_unclear_moment_that_was_is_refused_with_its_reason(phrase, reason):
    with pytest.raises(PhraseError, match=reason):
        past_moment(phrase)


def test_days_ago_keep_the_clock_time_and_hours_ago_are_elapsed():
    after_change = datetime(2027, 3, 28, 12, tzinfo=ZoneInfo(ZONE))

    assert past_moment("1 day ago", after_change).isoformat() == "2027-03-27T12:00:00+01:00"
    assert past_moment("24 hours ago", after_change).isoformat() == "2027-03-27T11:00:00+01:00"


def test_days_keep_the_clock_time_and_hours_are_elapsed():
    before_change = datetime(2027, 3, 27, 12, tzinfo=ZoneInfo(ZONE))

    assert moment("in 1 day", before_change).isoformat() == "2027-03-28T12:00:00+02:00"
    assert moment("in 24 hours", before_change).isoformat() == "2027-03-28T13:00:00+02:00"


def test_leap_day_is_found_in_a_leap_year():
    assert (
        moment("feb 29 at noon", datetime(2028, 1, 1, tzinfo=ZoneInfo(ZONE))).date().isoformat()
        == "2028-02-29"
    )


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
def test_rhythm_by_the_clock(phrase, expression):
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
def test_uneven_rhythm_is_elapsed_time_from_now(phrase, seconds):
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
        ("0 0 30 2 *", "five years"),
        ("@reboot", "no time of its own"),
        ("every month on the 32nd at 9am", "takes 1-31"),
    ],
)
def test_unclear_rhythm_is_refused_with_its_reason(phrase, reason):
    with pytest.raises(PhraseError, match=reason):
        trigger(phrase)


@pytest.mark.parametrize("parse", [parse_moment, parse_trigger])
def test_unknown_zone_is_refused(parse):
    with pytest.raises(PhraseError, match="Europe/Berlin"):
        parse("tomorrow at 9am", now=NOW, timezone="Mars/Base")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1d2h30m10s", 95410), ("2h30m", 9000), ("90m", 5400), (" 45S ", 45)],
)
def test_delay(text, seconds):
    assert parse_delay(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("parse", "example"),
    [(moment, "tomorrow at 9am"), (past_moment, "yesterday at 9:00"), (parse_delay, "1d2h30m10s")],
)
def test_what_is_shown_for_an_empty_text_is_understood_there(parse, example):
    with pytest.raises(PhraseError, match=f'nothing is written here: try "{example}"'):
        parse(" ")
    parse(example)


@pytest.mark.parametrize("text", ["", "soon", "in 20 minutes", "30m2h", "0s", "9" * 99 + "d", "1.5h", "-1h"])
def test_bad_delay_is_refused(text):
    with pytest.raises(PhraseError):
        parse_delay(text)


vocabulary = "every each at in on the next monday fridays day month of first last and 9 9am 8:30 15 noon a "
vocabulary += "ago yesterday last now minutes hours dec 24 2026 2026-12-24 * */5 1-5 @daily tonight tomorrow half an hour"
words = st.sampled_from(vocabulary.split())


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=220), st.lists(words, max_size=40).map(" ".join)))
@example("at 9am and " * 18)
@example("1 a " * 50)
@example("1d" * 100)
@example(" ," * 100)
def test_any_text_is_answered_or_refused_at_once(text):
    started = time.thread_time()
    for parse in (moment, past_moment, trigger, parse_delay):
        with suppress(PhraseError):
            parse(text)
    # Far above the usual few milliseconds, far below what a pattern that backtracks without end takes.
    assert time.thread_time() - started < 2


@pytest.mark.parametrize("text", ["2026-04-24", "24 apr 2026", "friday"])
def test_day_alone_begins_when_its_clocks_begin(text):
    now = datetime(2026, 4, 25, 9, tzinfo=UTC)

    # Clocks in Cairo go from midnight to one.
    moment = parse_moment(text, now=now, timezone="Africa/Cairo", past=True)

    assert moment == datetime(2026, 4, 23, 22, tzinfo=UTC)
    assert f"{moment:%H:%M}" == "01:00"
