"""The limit per hour, in the memory of a process."""

import pytest

from schedules.services.people import hourly_limits
from schedules.services.people.hourly_limits import HourlyLimit


def test_limit_holds_within_any_hour(monkeypatch: pytest.MonkeyPatch):
    seconds = [0.0]
    monkeypatch.setattr("schedules.clock.steady", lambda: seconds[0])
    limit = HourlyLimit(2)

    asked = []
    for seconds[0] in (0, 1800, 3599, 3601, 3602, 5401):
        asked.append(limit.allows("a"))

    assert asked == [True, True, False, True, False, True]


def test_memory_is_bounded_and_keeps_those_that_were_counted_last(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hourly_limits, "MAX_KEYS", 3)
    limit = HourlyLimit(1)

    for key in ("a", "b", "c", "a", "d"):
        limit.allows(key)

    assert len(limit._times) == 3
    assert [limit.allows(key) for key in ("a", "c", "d")] == [False, False, False]
    assert limit.allows("b")
