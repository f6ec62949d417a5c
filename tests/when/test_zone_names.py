"""Time zones by the names that people write."""

import pytest

from schedules.when.zone_names import suggested_zones, unknown_zone, zone_named, zone_note


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (" Europe/Berlin ", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("EUROPE / BERLIN", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("  new_york ", "America/New_York"),
        ("america/new york", "America/New_York"),
        ("America/New York", "America/New_York"),
        ("Istanbul", "Europe/Istanbul"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("Calcutta", "Asia/Calcutta"),
        ("São Paulo", "America/Sao_Paulo"),
        ("Zürich", "Europe/Zurich"),
        ("Bogotá", "America/Bogota"),
        ("utc", "UTC"),
        ("Utc", "UTC"),
        ("gmt", "GMT"),
        ("EST", "EST"),
        ("etc/gmt-5", "Etc/GMT-5"),
        ("us/eastern", "US/Eastern"),
        ("France", "Europe/Paris"),
        ("japan", "Japan"),
        ("Germany", "Europe/Berlin"),
        ("UK", "Europe/London"),
        ("Munich", "Europe/Berlin"),
        ("San Francisco", "America/Los_Angeles"),
        ("Mumbai", "Asia/Kolkata"),
        ("Beijing", "Asia/Shanghai"),
        ("Washington DC", "America/New_York"),
        # Not one zone without doubt: as it was written.
        ("Eastern", "Eastern"),
        ("United States", "United States"),
        ("PST", "PST"),
        ("Berlni", "Berlni"),
        ("Mars", "Mars"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("", ""),
        ("x" * 2000, "x" * 2000),
    ],
)
def test_zone_named(text, zone):
    assert zone_named(text) == zone


@pytest.mark.parametrize(
    ("text", "zones"),
    [
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
    ],
)
def test_suggested_zones_start_with_the_most_likely(text, zones):
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
