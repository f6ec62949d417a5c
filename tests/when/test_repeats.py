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

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def trigger(text):
    return parse_trigger(text, now=NOW, timezone=ZONE)


@pytest.mark.parametrize(
    ("phrase", "expression"),
    [
        ("every weekday at 8:30", "30 8 * * 1-5"),
        ("last working day of the month at 16:00", "0 16 LW * *"),
        ("on the first working day of every month at 9:00", "0 9 1W * *"),
        ("every month on the last business day at 17:00", "0 17 LW * *"),
        ("the workday nearest the 15th at 10:00", "0 10 15W * *"),
        ("weekday closest to the 3rd of the month at 8:00", "0 8 3W * *"),
        ("every last weekday of the month at 9:00", "0 9 LW * *"),
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
        ("weekdays 8.30", "30 8 * * 1-5"),
        ("weekdays 9", "0 9 * * 1-5"),
        ("weekdays", "0 9 * * 1-5"),
        ("every day", "0 9 * * *"),
        ("mondays", "0 9 * * 1"),
        ("daily", "0 9 * * *"),
        ("weekly", "0 9 * * 1"),
        ("weekly at 10", "0 10 * * 1"),
        ("monthly", "0 9 1 * *"),
        ("every quarter", "0 9 1 1,4,7,10 *"),
        ("quarterly at 8:00", "0 8 1 1,4,7,10 *"),
        ("once a day at 7:30", "30 7 * * *"),
        ("every hour on the hour", "0 * * * *"),
        ("every hour at :05", "5 * * * *"),
        ("every morning", "0 9 * * *"),
        ("every evening at 8", "0 20 * * *"),
        ("every night at 11", "0 23 * * *"),
        ("mon-fri 9:00", "0 9 * * 1-5"),
        ("Mon–Fri at 9", "0 9 * * 1-5"),
        ("monday to friday at 8.30", "30 8 * * 1-5"),
        ("friday to sunday at 10", "0 10 * * 0,5,6"),
        ("mon, wed, fri 9am", "0 9 * * 1,3,5"),
        ("mon/wed/fri at 9", "0 9 * * 1,3,5"),
        ("monday and tuesday at 9am", "0 9 * * 1,2"),
        ("tues and thurs at 9", "0 9 * * 2,4"),
        ("workdays at 7", "0 7 * * 1-5"),
        ("every business day at 17:00", "0 17 * * 1-5"),
        ("on the 1st and 15th of every month at 9", "0 9 1,15 * *"),
        ("every second monday of the month at 9", "0 9 * * 1#2"),
        ("every 15 minutes on weekdays", "*/15 * * * 1-5"),
        ("every 15 minutes from 9 to 17 on weekdays", "*/15 9-16 * * 1-5"),
        ("every 15 minutes on weekdays between 9:00 and 17:00", "*/15 9-16 * * 1-5"),
        ("every 30 minutes from 22:00 to 6:00", "*/30 22-23,0-5 * * *"),
        ("every hour from 9:00 to 17:00", "0 9-17 * * *"),
        ("every 2 hours from 8:30 to 18:30", "30 8-18/2 * * *"),
        ("every night at 2", "0 2 * * *"),
        ("every night at 3:30", "30 3 * * *"),
        ("nightly at 2am", "0 2 * * *"),
        ("every night at 12", "0 0 * * *"),
        ("every afternoon at 2 and 4", "0 14,16 * * *"),
        ("every evening at 8 and 10", "0 20,22 * * *"),
        ("every day at 9am, 1pm, and 5pm", "0 9,13,17 * * *"),
        ("every day at 9 and 5pm", "0 9,17 * * *"),
        ("every day at 8 and 20:00", "0 8,20 * * *"),
        ("every day at 20:00 and 8", "0 8,20 * * *"),
        ("every day at 8 and 8pm", "0 8,20 * * *"),
        ("every day at 4, 8, 12, 16 and 20", "0 4,8,12,16,20 * * *"),
        ("every day at 8, noon and 9pm", "0 8,12,21 * * *"),
        ("every evening at 12", "0 0 * * *"),
        ("every 15 minutes from 1am to 4am every night", "*/15 1-3 * * *"),
        ("every hour between 10pm and 4am at night", "0 22-23,0-4 * * *"),
        ("every hour from 8:00 to 10:00 in the evening", "0 20-22 * * *"),
        ("every hour from 9 to 5pm", "0 9-17 * * *"),
        ("every hour from 10pm to 6", "0 22-23,0-6 * * *"),
        ("every 10 minutes from 23:00 to 5:00", "*/10 23,0-4 * * *"),
        ("every hour from 11pm to midnight", "0 23,0 * * *"),
        ("every 30 minutes from 18:00 to midnight on weekdays", "*/30 18-23 * * 1-5"),
        ("every hour on monday", "0 * * * 1"),
        ("first day of the month at 9", "0 9 1 * *"),
        ("every 1st of the month at 9", "0 9 1 * *"),
        ("2nd tuesday of the month at 9", "0 9 * * 2#2"),
        ("once a week on monday at 9", "0 9 * * 1"),
        ("every day except sunday at 9", "0 9 * * 1,2,3,4,5,6"),
        ("every day at nine", "0 9 * * *"),
        ("every weekday except friday at 9", "0 9 * * 1,2,3,4"),
        ("every day at 9 except weekends", "0 9 * * 1,2,3,4,5"),
        ("every 15 minutes on weekdays except monday and tuesday", "*/15 * * * 3,4,5"),
        ("every day at 9:00, 9:30, 17:00 and 17:30", "0,30 9,17 * * *"),
        ("weekdays at 9:30 and 17:30", "30 9,17 * * 1-5"),
        ("every weekday at 9:00 starting tomorrow", "0 9 * * 1-5"),
        ("3 times a day at 8, 14 and 20", "0 8,14,20 * * *"),
        ("twice a day at 9:00 and 17:00", "0 9,17 * * *"),
        ("two times per day at half past 8 and 20:30", "30 8,20 * * *"),
        ("every weekday at half past nine", "30 9 * * 1-5"),
        ("every evening at quarter to 9", "45 20 * * *"),
        ("mondays at a quarter past 7pm", "15 19 * * 1"),
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
        ("every other day", 172800),
        ("every fortnight", 1209600),
        ("every 1.5 hours", 5400),
    ],
)
def test_uneven_repeat_becomes_an_interval_from_now(phrase, seconds):
    assert trigger(phrase) == Interval(seconds, NOW + timedelta(seconds=seconds))


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
    ("phrase", "reason"),
    [
        ("every weekday at 9:00 starting 1 december", "can't start later"),
        ("monday except monday at 9:00", "only days of the week"),
        ("mondays at 9:00 except mondays", "no day is left"),
        ("twice a day", "at which times"),
        ("biweekly", "two meanings"),
        ("every 3 months", "on which day"),
        ("yearly", "on which day"),
        ("every friday at midnight", "start or the end"),
        ("every day at 9:00 and 17:30", "one job for each"),
        ("every 2 days at 9:00 and 17:00", "one time only"),
        ("every 3 months on the 31st at 9:00", "1 to 28"),
        ("every december 24 2026 at noon", "couldn't read that schedule"),
        ("every 0 minutes", "1 second"),
        ("every 0 minutes on weekdays", "1 second"),
        ("every 0 hours from 9 to 17", "1 second"),
        ("every 99999999999 days at 9", "five years"),
        ("every 99999999999 weeks on monday at 9", "five years"),
        ("every day at 3", "3am or 3pm"),
        ("every monday at 5", "5am or 5pm"),
        ("every other tuesday at 3", "3am or 3pm"),
        ("every day at 9 and 5", "5am or 5pm"),
        ("every day at 9 and 6", "6am or 6pm"),
        ("every day at 8 and 10pm", "8am or 8pm"),
        ("every day at 8:30 and 10:30pm", "8:30am or 8:30pm"),
        ("every friday night at 1am", "on which day"),
        ("every hour from 1pm to 5", "5am or 5pm"),
        ("every hour from 1 to 5", "1am or 1pm"),
        ("every 15 minutes between 2pm and 6:00", "6:00am or 6:00pm"),
        ("every 30 minutes from 1 to 5pm", "1am or 1pm"),
        ("every 10 minutes between 2-4pm", "2am or 2pm"),
        ("every hour from 10 to 6am", "10am or 10pm"),
        ("every 30 minutes from 22:00 to 6:00 on fridays", "the next day"),
        ("every hour from 18:00 to midnight on weekdays", "the next day"),
        ("every hour from 9 to 5", "morning or evening"),
        ("every 7 minutes from 9 to 17", "don't divide an hour"),
        ("every 20 minutes from 9:10 to 17:00", "full hours"),
        ("every 99999999999999 seconds", "five years"),
        ("0 0 9 * * *", "five fields"),
        ("3 times a day at 8 and 20", "2 times are named"),
        ("every 2 weeks starting in november", "begun already"),
        ("0 0 30 2 *", "February has no 30th"),
        ("every month on the 32nd at 9am", "takes 1-31"),
    ],
)
def test_unclear_repeat_is_refused_with_its_reason(phrase, reason):
    with pytest.raises(PhraseError, match=reason):
        trigger(phrase)


@pytest.mark.parametrize(
    ("phrase", "count", "unit", "start"),
    [
        ("every other day at 8", 2, "days", "2026-11-16 08:00"),
        ("every 3 days at 11:15", 3, "days", "2026-11-15 11:15"),
        ("every other monday at 9", 14, "days", "2026-11-16 09:00"),
        ("every other sunday at 9", 14, "days", "2026-11-22 09:00"),
        ("every second tuesday at 18:00", 14, "days", "2026-11-17 18:00"),
        ("every two weeks on friday", 14, "days", "2026-11-20 09:00"),
        ("every fortnight on monday at 9", 14, "days", "2026-11-16 09:00"),
        ("every 2 weeks at 7:00", 14, "days", "2026-11-16 07:00"),
        ("every 3 months on the 1st at 9:00", 3, "months", "2026-12-01 09:00"),
        ("every 2 months on the 15th at 17:00", 2, "months", "2026-11-15 17:00"),
        ("every three months on the 1st at 9:00", 3, "months", "2026-12-01 09:00"),
        ("every other month on the first day at 9:00", 2, "months", "2026-12-01 09:00"),
        ("every second tuesday at 18:00 starting 1 december", 14, "days", "2026-12-01 18:00"),
        ("every second tuesday at 18:00, starting on 2 december", 14, "days", "2026-12-08 18:00"),
        ("mondays at 9 starting 1 december", 7, "days", "2026-12-07 09:00"),
        ("every day at 9 starting 1 december", 1, "days", "2026-12-01 09:00"),
        ("on the 1st of every month at 6:00 starting 2 march", 1, "months", "2027-04-01 06:00"),
        ("every year on 24 december at 18:00 starting 2028-01-01", 12, "months", "2028-12-24 18:00"),
        ("every 2 weeks starting 1 december", 14, "days", "2026-12-01 09:00"),
        ("every 3 days starting tomorrow at 14:00", 3, "days", "2026-11-16 14:00"),
        ("every 2 weeks starting in january", 14, "days", "2027-01-01 09:00"),
        ("mondays at 9 starting in march", 7, "days", "2027-03-01 09:00"),
        ("every 2 weeks on friday starting in november 2027", 14, "days", "2027-11-05 09:00"),
    ],
)
def test_repeat_with_days_between_starts_with_the_first_that_fits(phrase, count, unit, start):
    first = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(ZONE))

    assert trigger(phrase) == CalendarInterval(count, unit, first, ZONE)


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


@pytest.mark.parametrize(
    "expression",
    [
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
    ],
)
def test_sentence_of_a_schedule_is_read_back(expression):
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


@pytest.mark.parametrize(
    "phrase",
    [
        "@reboot",
        " @Reboot ",
        "When the machine starts",
        "when my server boots",
        "whenever the computer restarts",
        "when Cronty starts",
        "at startup",
        "on every boot",
        "after reboot",
    ],
)
def test_start_of_the_machine_is_understood(phrase):
    assert trigger(phrase) == AtStart()


def test_words_of_a_start_are_read_back():
    assert trigger(AtStart().words()) == AtStart()
