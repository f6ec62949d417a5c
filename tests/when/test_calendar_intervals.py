"""Calendar months, and intervals that step on the wall clock of a zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.when.durations import add_months, months_between
from schedules.when.slot_batches import count_slots, slots
from schedules.when.triggers import CalendarInterval, TriggerError

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]


def wall(text):
    return datetime.fromisoformat(text)


def interval(count, unit, start, zone="Europe/Berlin"):
    return CalendarInterval(count, unit, datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)), zone)


def local(moments, zone="Europe/Berlin"):
    return [moment.astimezone(ZoneInfo(zone)).isoformat(" ", "minutes") for moment in moments]


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        ("2027-01-31", 1, "2027-02-28"),
        ("2027-01-31", 2, "2027-03-31"),
        ("2028-01-31", 1, "2028-02-29"),
        ("2027-11-30", 3, "2028-02-29"),
        ("2027-12-15", 1, "2028-01-15"),
        ("2027-05-15", 0, "2027-05-15"),
    ],
)
def test_month_that_is_too_short_ends_on_its_last_day(start, count, expected):
    assert add_months(wall(start), count) == wall(expected)


def test_months_are_counted_by_the_calendar():
    assert months_between(wall("2027-11-30"), wall("2028-02-01")) == 3


def test_calendar_ends_with_its_last_year():
    with pytest.raises(OverflowError):
        add_months(wall("9999-12-01"), 1)
    assert interval(1, "months", "9999-12-01").next_after(datetime(9999, 12, 2, tzinfo=UTC)) is None


def test_every_second_tuesday_keeps_its_time_over_clock_changes():
    trigger = interval(14, "days", "2027-03-02 09:00")

    assert local(trigger.upcoming(datetime(2027, 1, 1, tzinfo=UTC), 4)) == [
        "2027-03-02 09:00+01:00",
        "2027-03-16 09:00+01:00",
        "2027-03-30 09:00+02:00",
        "2027-04-13 09:00+02:00",
    ]
    assert trigger.words() == "Every 2 weeks on Tuesday at 09:00, starting 2 Mar 2027"


def test_last_day_of_a_month_comes_back_after_a_shorter_one():
    trigger = interval(1, "months", "2027-01-31 09:00")

    assert [text[:10] for text in local(trigger.upcoming(datetime(2027, 1, 1, tzinfo=UTC), 4))] == [
        "2027-01-31",
        "2027-02-28",
        "2027-03-31",
        "2027-04-30",
    ]
    assert trigger.words() == "Every month on the 31st or the last day at 09:00, starting 31 Jan 2027"
    assert trigger.warnings() == ["In months without a 31st, the job runs on the last day."]


def test_skipped_time_runs_after_the_gap_and_repeated_time_once():
    spring = interval(1, "days", "2027-03-27 02:30")
    autumn = interval(1, "days", "2027-10-30 02:30")

    assert local(spring.upcoming(datetime(2027, 3, 27, 12, tzinfo=UTC), 2)) == [
        "2027-03-28 03:00+02:00",
        "2027-03-29 02:30+02:00",
    ]
    assert local(autumn.upcoming(datetime(2027, 10, 30, 12, tzinfo=UTC), 2)) == [
        "2027-10-31 02:30+02:00",
        "2027-11-01 02:30+01:00",
    ]


@settings(max_examples=60)
@given(
    count=st.integers(1, 40),
    unit=st.sampled_from(["days", "months"]),
    start=st.datetimes(wall("2025-01-01"), wall("2028-01-01")),
    offset=st.integers(-(10**7), 2 * 10**8),
    zone=st.sampled_from(ZONES),
)
def test_queries_agree_with_each_other(count, unit, start, offset, zone):
    trigger = CalendarInterval(count, unit, start.replace(tzinfo=ZoneInfo(zone)), zone)
    moment = trigger.start + timedelta(seconds=offset)

    following = trigger.next_after(moment)
    latest = trigger.latest_at_or_before(moment, trigger.start)

    assert following > moment
    assert latest is None if moment < trigger.start else trigger.start <= latest <= moment
    assert trigger.next_after(latest or trigger.start - timedelta(1)) == following
    end = moment + timedelta(days=400)
    batches = list(slots(trigger, moment, end))
    assert [batch.first for batch in batches] == sorted({batch.first for batch in batches})
    assert len(batches) == count_slots(trigger, moment, end)


@pytest.mark.parametrize(("count", "unit"), [(0, "days"), (2000, "days"), (80, "months"), (-1, "months")])
def test_interval_out_of_range_is_refused(count, unit):
    with pytest.raises(TriggerError):
        interval(count, unit, "2027-01-01")
