"""Moments in words."""

from datetime import UTC, datetime

import pytest

from schedules.when.moments import in_the_past, local_words

NOON = datetime(2026, 2, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("timezone", "words"),
    [
        ("UTC", "2026-02-04 12:00:00 UTC"),
        ("Asia/Tokyo", "2026-02-04 21:00:00 Asia/Tokyo"),
        ("Mars/Base", "2026-02-04 12:00:00 UTC"),
    ],
)
def test_moment_is_written_on_the_clock_of_its_zone(timezone, words):
    assert local_words(NOON, timezone) == words


def test_past_moment_is_refused_with_the_time_of_its_zone():
    assert in_the_past(NOON, "Asia/Tokyo") == "That time is in the past (now 2026-02-04 21:00:00 Asia/Tokyo)."
