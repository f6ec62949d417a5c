from datetime import UTC, datetime, timedelta

import pytest

from schedules.templatetags import cronty_times

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
EVIL = "<script>\"&'</script>"


def test_distance_is_rounded_to_one_unit():
    for seconds, words in [
        (0, "now"),
        (49, "in 49 s"),
        (-59, "59 s ago"),
        (59.6, "in 1 min"),
        (60, "in 1 min"),
        (-89, "1 min ago"),
        (90, "in 2 min"),
        (-7169, "119 min ago"),
        (7170, "in 2 h"),
        (42_960, "in 12 h"),
        (142_620, "in 40 h"),
        (170_999, "in 47 h"),
        (-171_000, "2 d ago"),
        (86_400 * 400, "in 400 d"),
    ]:
        assert cronty_times.relative(NOW + timedelta(seconds=seconds), NOW) == words


def test_duration_has_two_units_at_most():
    for span, words in [
        (None, "—"),
        (timedelta(0), "0 ms"),
        (timedelta(milliseconds=258), "258 ms"),
        (timedelta(seconds=2.84), "2.8 s"),
        (timedelta(seconds=2), "2 s"),
        (timedelta(seconds=150), "2 min 30 s"),
        (timedelta(hours=1, minutes=5, seconds=3), "1 h 5 min"),
        (timedelta(days=2), "2 d"),
        (-timedelta(seconds=1), "0 ms"),
    ]:
        assert cronty_times.duration(span) == words


def test_moment_shows_local_time_and_utc():
    shown = cronty_times.at(NOW, "Europe/Berlin")

    assert 'datetime="2026-11-15T10:00:00+00:00"' in shown
    assert "Sun 15 Nov 2026 11:00:00 CET · Sun 10:00:00 UTC" in shown


@pytest.mark.parametrize("zone", ["Nowhere/Land", "", EVIL, "../../etc/passwd"])
def test_unknown_zone_falls_back_to_utc(zone: str):
    assert "UTC" in cronty_times.ago(NOW, zone)
    assert "<script" not in cronty_times.at(NOW, zone)


def test_offset_of_a_zone_is_no_time_of_day():
    cronty_times.use_clock(12)
    try:
        words = cronty_times.on_readers_clock("Every day at 17:30 (UTC+05:30)")
    finally:
        cronty_times.use_clock(24)

    assert words == "Every day at 5:30 PM (UTC+05:30)"
