"""The phrase of a trigger: what is written is what is read back."""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.when.phrase_writer import phrase_of
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import Cron, Interval, Once
from schedules.when.unplanned import AtStart

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def read(text):
    return parse_trigger(text, now=NOW, timezone=ZONE)


@pytest.mark.parametrize(
    ("expression", "phrase"),
    [
        ("35 7 * * 1-5", "every weekday at 7:35"),
        ("35 7 * * MON-FRI", "every weekday at 7:35"),
        ("0 9,17 * * *", "every day at 9:00 and 17:00"),
        ("0,30 9,17 * * 1", "Mondays at 9:00, 9:30, 17:00 and 17:30"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/20 8-17 * * 1-5", "every 20 minutes, 8:00-17:59, Mon-Fri"),
        ("0 9 LW * *", "on the last working day of every month at 9:00"),
        ("0 18 24 12 *", "every year on 24 December at 18:00"),
        ("@daily", "every day at 0:00"),
        # No phrase says this, or the phrase means something else.
        ("5/10 3 * * 2", "5/10 3 * * 2"),
        ("0 0 13 * 5", "0 0 13 * 5"),
    ],
)
def test_cron_is_written_in_words_if_they_mean_the_same(expression, phrase):
    assert phrase_of(Cron(expression, ZONE)) == phrase


def test_every_kind_of_trigger_is_read_back():
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo(ZONE), fold=1)
    triggers = [
        AtStart(),
        Once(NOW.replace(month=12), ZONE),
        Once(twice.replace(year=2027, day=31), ZONE),
        Interval(5400, NOW),
        Interval(90, NOW.replace(second=7)),
    ]

    assert [read(phrase_of(trigger)) for trigger in triggers] == triggers


weekday = st.sampled_from(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
weekdays = st.lists(weekday, min_size=1, max_size=5, unique=True).map(" and ".join).map("every {}".format)
dates = st.lists(st.integers(1, 31), min_size=1, max_size=4, unique=True).map(
    lambda days: f"on the {' and '.join(f'{day}th' for day in days)} of every month"
)
counted = st.builds(
    "{} {} of the month".format, st.sampled_from(["first", "second", "third", "last"]), weekday
)
exceptions = st.builds("every day except {}".format, weekday)
days = st.one_of(
    st.sampled_from(
        ["every day", "every weekday", "weekends", "on the last day of every month", "every quarter"]
    ),
    st.sampled_from(["first working day of the month", "every year on 24 december", "monday to thursday"]),
    weekdays,
    dates,
    counted,
    exceptions,
)
hours = st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True)
minutes = st.lists(st.integers(0, 59), min_size=1, max_size=2, unique=True)
clocks = st.builds(
    lambda hours, minutes: " and ".join(f"{hour:02}:{minute:02}" for hour in hours for minute in minutes),
    hours,
    minutes,
)
on_days = st.builds("{} at {}".format, days, clocks)
frequent = st.builds(
    "every {} minutes from {}:00 to {}:00{}".format,
    st.sampled_from([5, 6, 10, 12, 15, 20, 30]),
    st.integers(0, 11),
    st.integers(13, 23),
    st.sampled_from(["", " on weekdays", " on mondays", " on weekends"]),
)
# No clock skips or repeats these times.
starts = st.builds(
    "{} {:02}:{:02}".format,
    st.dates(date(2026, 11, 16), date(2029, 12, 31)),
    st.integers(4, 23),
    st.integers(0, 59),
)
apart = st.builds(
    "every {} {}s, starting {}".format,
    st.integers(2, 60),
    st.sampled_from(["minute", "hour", "day", "week"]),
    starts,
)
weeks = st.builds(
    "every {} weeks on {} at {:02}:00 starting {}".format,
    st.integers(2, 8),
    weekday,
    st.integers(4, 23),
    starts,
)
months = st.builds(
    "every {} months on the {}th at {:02}:{:02}".format,
    st.integers(2, 18),
    st.integers(1, 28),
    st.integers(4, 23),
    st.integers(0, 59),
)
elapsed = st.builds(
    "every {} {}".format, st.integers(2, 500), st.sampled_from(["seconds", "minutes", "hours"])
)


@settings(max_examples=600, deadline=None)
@given(st.one_of(on_days, on_days, frequent, apart, weeks, months, elapsed, starts))
def test_what_is_written_is_what_is_read_back(phrase):
    trigger = read(phrase)

    again = read(phrase_of(trigger))

    assert type(again) is type(trigger)
    assert again.upcoming(NOW, 20) == trigger.upcoming(NOW, 20)
    # Written once more, it does not change.
    assert phrase_of(again) == phrase_of(trigger)
