"""Offsets of a zone and the moments at which they change."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from schedules.when.zones import clock_changes


def changes(zone: str, after: str, until: str) -> list[str]:
    bounds = (datetime.fromisoformat(moment).replace(tzinfo=UTC) for moment in (after, until))
    return [f"{old:%Y-%m-%d %H:%M} → {new:%H:%M}" for _, old, new in clock_changes(ZoneInfo(zone), *bounds)]


def test_clock_changes_of_several_years_are_in_order():
    assert changes("Europe/Berlin", "2026-06-01", "2027-12-31") == [
        "2026-10-25 03:00 → 02:00",
        "2027-03-28 02:00 → 03:00",
        "2027-10-31 03:00 → 02:00",
    ]
    assert changes("UTC", "2026-06-01", "2027-12-31") == []


def test_clock_change_on_the_last_day_of_a_year_is_listed_once():
    assert changes("Asia/Singapore", "1981-12-01", "1982-02-01") == ["1981-12-31 23:30 → 00:00"]


@pytest.mark.parametrize(
    ("after", "until", "count"),
    [
        pytest.param("2026-10-25T01:00:00", "2026-10-26", 0, id="at the lower bound"),
        pytest.param("2026-10-25T00:59:59", "2026-10-26", 1, id="just after the lower bound"),
        pytest.param("2026-10-24", "2026-10-25T01:00:00", 1, id="at the upper bound"),
        pytest.param("2026-10-24", "2026-10-25T00:59:59", 0, id="after the upper bound"),
    ],
)
def test_clock_changes_lie_within_the_bounds(after, until, count):
    assert len(changes("Europe/Berlin", after, until)) == count
