"""When a cron expression matches, where the search takes a short cut."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from schedules.when import cron

EXPRESSIONS = (
    "* * * * *",
    "*/7 3-5 * * *",
    "59 23 31 12 *",
    "0 0 1 1 *",
    "30 8 * * 1-5",
    "15,45 */6 L * *",
    "0 12 29 2 *",
    "5 4 13 * 5",
    "5 4 */2 * 5",
    "0 9 * * 1#2",
    "0 9 * 2,11 5L",
)
MOMENTS = (
    "2026-02-28T23:59:59.999999",
    "2026-11-13T04:05",
    "2026-12-31T23:59",
    "2027-01-01T00:00:00.000001",
    "2028-02-29T12:00",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_days_and_times_apart_find_what_croniter_finds_together(expression, moment):
    start = datetime.fromisoformat(moment)
    # The two spell "last Friday" differently.
    whole = croniter(expression.replace("5L", "L5"), start, implement_cron_bug=True)
    found = [start]
    for _ in range(5):
        found.append(cron.next_wall(expression, found[-1]))

    assert found[1:] == [whole.get_next(datetime) for _ in range(5)]
    assert all(earlier < later for earlier, later in pairwise(found))


def test_calendar_ends():
    assert cron.next_wall("0 0 * * *", datetime.fromisoformat("9999-12-31T12:00")) is None


def changes(zone: str, after: str, until: str) -> list[str]:
    bounds = (datetime.fromisoformat(moment).replace(tzinfo=UTC) for moment in (after, until))
    return [f"{old:%Y-%m-%d %H:%M} → {new:%H:%M}" for old, new in cron.clock_changes(ZoneInfo(zone), *bounds)]


def test_clock_changes_of_several_years_come_in_order():
    assert changes("Europe/Berlin", "2026-06-01", "2027-12-31") == [
        "2026-10-25 03:00 → 02:00",
        "2027-03-28 02:00 → 03:00",
        "2027-10-31 03:00 → 02:00",
    ]
    assert changes("UTC", "2026-06-01", "2027-12-31") == []


def test_clock_change_on_the_last_day_of_a_year_comes_once():
    assert changes("Asia/Singapore", "1981-12-01", "1982-02-01") == ["1981-12-31 23:30 → 00:00"]


@pytest.mark.parametrize(
    ("after", "until", "count"),
    [
        pytest.param("2026-10-25T01:00:00", "2026-10-26", 0, id="it has just been"),
        pytest.param("2026-10-25T00:59:59", "2026-10-26", 1, id="it is next"),
        pytest.param("2026-10-24", "2026-10-25T01:00:00", 1, id="it is last"),
        pytest.param("2026-10-24", "2026-10-25T00:59:59", 0, id="it is yet to come"),
    ],
)
def test_clock_changes_keep_to_their_bounds(after, until, count):
    assert len(changes("Europe/Berlin", after, until)) == count
