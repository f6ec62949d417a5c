"""Calendars: what they close, on ordinary days and when clocks change."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from schedules.when.calendars import Calendar, ClosedTimes, Hours, Span

BERLIN = "Europe/Berlin"
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HOLIDAYS = Calendar(
    "DE", "public holidays in Germany", days={"2026-12-25": "Christmas Day", "2026-12-26": ""}
)
WEEKEND = Calendar("weekend", "weekends", hours=[Hours(5, 0, 1440), Hours(6, 0, 1440)])
OFFICE = Calendar("office", "office", closes=False, hours=[Hours(day, 9 * 60, 17 * 60) for day in range(5)])


def at(text: str, zone: str = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def closed(*calendars: Calendar, zone: str = BERLIN, move: str = "") -> ClosedTimes:
    return ClosedTimes(calendars, zone, move)


@pytest.mark.parametrize(
    ("moment", "reason"),
    [
        ("2026-12-24T23:59:59", ""),
        ("2026-12-25T00:00", "Closed: Christmas Day, calendar DE."),
        ("2026-12-25T23:59:59", "Closed: Christmas Day, calendar DE."),
        ("2026-12-26T12:00", "Closed by calendar DE."),
        ("2026-12-27T00:00", "Closed by calendar weekend."),
        ("2026-12-28T00:00", ""),
    ],
)
def test_marked_days_are_closed_from_midnight_to_midnight(moment, reason):
    assert closed(HOLIDAYS, WEEKEND).reason(at(moment)) == reason


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2026-12-23T08:59:59", False),
        ("2026-12-23T09:00", True),
        ("2026-12-23T16:59:59", True),
        ("2026-12-23T17:00", False),
        ("2026-12-26T12:00", False),
    ],
)
def test_calendar_of_open_hours_closes_everything_else(moment, is_open):
    reason = closed(OFFICE).reason(at(moment))

    assert reason == ("" if is_open else "Outside the times of calendar office.")


def test_days_are_those_of_the_jobs_zone_or_of_the_calendars_own():
    moment = at("2026-12-25T01:00")
    own = Calendar("own", "own", timezone=BERLIN, days={"2026-12-25": "Christmas Day"})

    assert closed(HOLIDAYS, zone="America/New_York").reason(moment) == ""
    assert closed(own, zone="America/New_York").reason(moment)
    assert not closed(own, zone="America/New_York").reason(at("2026-12-25T20:00", "America/New_York"))


def test_periods_are_closed_to_the_second():
    period = Span(at("2026-12-01T10:00"), at("2026-12-03T10:00"), "Move")
    found = closed(Calendar("move", "move", periods=[period]))

    reasons = [found.reason(moment) for moment in (period.start - MINUTE, period.start, period.end - MINUTE)]

    assert reasons == ["", "Closed: Move, calendar move.", "Closed: Move, calendar move."]
    assert found.reason(period.end) == ""
    assert found.reason(at("2026-12-02T00:00"))


@pytest.mark.parametrize(
    ("day", "start", "end"),
    [
        (date(2026, 3, 29), 2 * 60, 3 * 60),
        (date(2026, 3, 29), 60, 150),
        (date(2026, 10, 25), 2 * 60, 3 * 60),
        (date(2026, 10, 25), 60, 150),
        (date(2026, 10, 25), 150, 200),
    ],
    ids=["skipped hour", "into the gap", "repeated hour", "into the repeated hour", "out of it"],
)
def test_hours_close_exactly_the_wall_times_in_them_when_clocks_change(day, start, end):
    found = closed(Calendar("night", "night", hours=[Hours(day.weekday(), start, end)]))
    first = datetime.combine(day, datetime.min.time(), UTC) - 4 * HOUR

    for minute in range(30 * 60):
        moment = first + minute * MINUTE
        local = moment.astimezone(ZoneInfo(BERLIN))
        is_inside = local.date() == day and start <= 60 * local.hour + local.minute < end
        assert bool(found.reason(moment)) == is_inside, local


def test_last_moment_is_where_the_closed_part_of_the_day_ends():
    found = closed(HOLIDAYS, OFFICE)

    assert found.last_moment(at("2026-12-25T12:00")) == at("2026-12-26T00:00") - timedelta(microseconds=1)
    assert found.last_moment(at("2026-12-23T08:00")) == at("2026-12-23T09:00") - timedelta(microseconds=1)
    assert found.last_moment(at("2026-12-23T10:00")) == at("2026-12-23T10:00")
