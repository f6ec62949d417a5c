"""Moves: runs at closed moments go to the next or the previous open one, in every question about their slots."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.when.calendars import Calendar, ClosedTimes, Hours, Span
from schedules.when.forecast import PendingJob, per_day, runs_ahead
from schedules.when.moves import Moved, moved_by
from schedules.when.skips import Skips
from schedules.when.slot_batches import count_slots, slots
from schedules.when.triggers import Cron, Interval, Once

BERLIN = "Europe/Berlin"
HOUR, DAY, TICK = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)
WEEKEND = Calendar("weekend", "weekends", hours=[Hours(5, 0, 1440), Hours(6, 0, 1440)])
OFFICE = Calendar("office", "office", closes=False, hours=[Hours(day, 9 * 60, 17 * 60) for day in range(5)])
MAINTENANCE = Calendar("maintenance", "maintenance", hours=[Hours(6, 22 * 60, 1440), Hours(0, 0, 120)])
XMAS = Calendar("DE", "public holidays", days={f"2026-12-{day}": "Christmas" for day in (24, 25, 26)})
NIGHT = Calendar("night", "night", hours=[Hours(day, 60, 210) for day in range(7)])


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN)).astimezone(UTC)


def test_run_at_a_closed_moment_goes_to_the_nearest_open_one():
    for calendars, move, slot, target in [
        ([WEEKEND, XMAS], "next", "2026-12-23T16:00", "2026-12-23T16:00"),
        ([WEEKEND, XMAS], "next", "2026-12-24T16:00", "2026-12-28T16:00"),
        ([WEEKEND, XMAS], "previous", "2026-12-26T16:00", "2026-12-23T16:00"),
        ([WEEKEND], "previous", "2027-01-31T16:00", "2027-01-29T16:00"),
        ([OFFICE], "next", "2026-12-04T20:00", "2026-12-07T09:00"),
        ([OFFICE], "next", "2026-12-05T20:00", "2026-12-07T09:00"),
        ([OFFICE], "next", "2026-12-05T10:00", "2026-12-07T10:00"),
        ([OFFICE], "previous", "2026-12-04T20:00", "2026-12-04T16:59"),
        ([OFFICE], "previous", "2026-12-07T08:00", "2026-12-04T16:59"),
        ([MAINTENANCE], "next", "2026-12-06T23:00", "2026-12-07T02:00"),
        ([MAINTENANCE], "previous", "2026-12-07T01:00", "2026-12-06T21:59"),
        ([NIGHT], "next", "2027-03-28T03:00", "2027-03-28T03:30"),
        ([NIGHT], "next", "2027-10-31T02:30", "2027-10-31T03:30"),
    ]:
        assert ClosedTimes(calendars, BERLIN, move).moved(at(slot)) == at(target)


def test_run_stays_if_nothing_is_open_for_two_months():
    shut = Calendar("shut", "shut", periods=[Span(at("2026-12-01"), at("2027-06-01"))])
    found = ClosedTimes([shut], BERLIN, "next")

    assert found.moved(at("2027-01-10T08:00")) == at("2027-01-10T08:00")
    assert found.reason(at("2027-01-10T08:00"))


def test_last_working_day_of_the_month_at_16():
    trigger = moved_by(Cron("0 16 L * *", BERLIN), ClosedTimes([WEEKEND, XMAS], BERLIN, "previous"))

    found = [
        f"{slot.astimezone(ZoneInfo(BERLIN)):%d.%m. %H}" for slot in trigger.upcoming(at("2026-12-01"), 6)
    ]

    assert found == ["31.12. 16", "29.01. 16", "26.02. 16", "31.03. 16", "30.04. 16", "31.05. 16"]


def test_one_time_jobs_are_not_moved():
    once = Once(at("2026-12-05T10:00"))

    assert moved_by(once, ClosedTimes([WEEKEND], BERLIN, "next")) is once


BASES = [
    Cron("0 9,16 * * *", BERLIN),
    Cron("30 2 * * *", BERLIN),
    Cron("0 20 * * 5,6", BERLIN),
    Cron("0 16 L * *", BERLIN),
    Interval(5 * 3600, at("2026-03-01T07:00")),
]
SETS = [[WEEKEND], [OFFICE], [MAINTENANCE, XMAS], [WEEKEND, XMAS], [NIGHT], [NIGHT, OFFICE, XMAS]]


@given(
    base=st.sampled_from(BASES),
    calendars=st.sampled_from(SETS),
    move=st.sampled_from(["next", "previous"]),
    start=st.sampled_from([at("2026-12-18"), at("2026-03-27"), at("2026-10-23")]),
    hours=st.integers(0, 72),
)
def test_every_question_about_moved_slots_has_the_same_answer(base, calendars, move, start, hours):
    trigger = Moved(base, ClosedTimes(calendars, BERLIN, move))
    start += hours * HOUR
    end = start + 12 * DAY
    expected = _brute(trigger, start, end)

    assert trigger.upcoming(start - TICK, len(expected)) == expected
    assert [slot for batch in slots(trigger, start, end) for slot in batch.moments()] == expected
    assert count_slots(trigger, start, end) == len(expected)
    assert trigger.latest_at_or_before(end - TICK, start) == (expected[-1] if expected else None)
    for moment in expected:
        earlier = [slot for slot in expected if slot < moment]
        assert trigger.latest_at_or_before(moment - TICK, start) == (earlier[-1] if earlier else None)


def _brute(trigger: Moved, start: datetime, end: datetime) -> list[datetime]:
    found, slot = set(), trigger.base.next_after(start - 40 * DAY)
    while slot < end + 40 * DAY:
        found.add(trigger.closed.moved(slot))
        slot = trigger.base.next_after(slot)
    return sorted(moment for moment in found if start <= moment < end)


@pytest.mark.parametrize("calendars", SETS)
def test_forecast_leaves_out_exactly_the_closed_slots(calendars):
    for base in [*BASES, Cron("* * * * *", BERLIN), Interval(60, at("2026-03-01T07:00"))]:
        for start in [at("2026-12-23"), at("2026-03-27"), at("2026-10-23")]:
            skips, end = Skips(frozenset(), BERLIN, ClosedTimes(calendars, BERLIN)), start + 4 * DAY
            first = base.next_after(start)
            armed = PendingJob(base, first, skips=skips)
            walked, slot = [], first
            while slot < end:
                walked += [] if skips.reason(slot) else [slot]
                slot = base.next_after(slot)

            assert [moment for batch in runs_ahead(armed, start, end) for moment in batch.moments()] == walked
            assert sum(count for _, count in per_day(armed, start, end, BERLIN).values()) == len(walked)
