"""Time zones by the names that people write."""

import pytest

from schedules.when.zone_names import suggested_zones, unknown_zone, zone_named, zone_note
from tests.when.tables import rows


def test_zones_are_those_of_the_table():
    assert [row for row in rows("zone", "zones.txt") if zone_named(row[0]) != row[1]] == []
    for text in (" Europe/Berlin ", "  new_york "):
        assert zone_named(text) == zone_named(text.strip())
    # Not one zone without doubt: as it was written.
    for text in ("", "x" * 2000):
        assert zone_named(text) == text


def test_suggested_zones_start_with_the_most_likely():
    for text, zones in [
        ("Eastern", ["Canada/Eastern", "US/Eastern"]),
        ("PST", ["America/Los_Angeles"]),
        ("CEST", ["Europe/Berlin", "Europe/Paris", "Europe/Madrid"]),
        ("USA", ["America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles"]),
        ("Berlni", ["Europe/Berlin"]),
        ("Europe/Berln", ["Europe/Berlin"]),
        ("Eurpe/Paris", ["Europe/Paris"]),
        ("Amsterdm", ["Europe/Amsterdam"]),
        ("Singapor", ["Singapore"]),
        ("Gotham", []),
        ("", []),
        ("x" * 2000, []),
    ]:
        assert suggested_zones(text)[: max(len(zones), 1)] == zones


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Berlni", "unknown time zone 'Berlni'. Did you mean Europe/Berlin?"),
        ("Eastern", "unknown time zone 'Eastern'. Did you mean Canada/Eastern or US/Eastern?"),
        ("Gotham", "unknown time zone 'Gotham'. Enter a city or a name like Europe/Berlin"),
        (None, "unknown time zone None. Enter a city or a name like Europe/Berlin"),
    ],
)
def test_error_suggests_what_was_meant(text, error):
    assert unknown_zone(text) == error


def test_note_says_how_a_city_was_read():
    assert zone_note("Berlin", "Europe/Berlin") == "“Berlin” is read as Europe/Berlin."
    assert zone_note(" Europe/Berlin", "Europe/Berlin") == ""
