"""Offsets of a zone and the moments at which they change."""

import zoneinfo
from datetime import UTC, datetime
from importlib import resources
from zoneinfo import ZoneInfo

import pytest
import tzdata

from schedules.when.zones import clock_changes, data_version, in_the_past, local_words, release

NOON = datetime(2026, 2, 4, 12, 0, tzinfo=UTC)


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


@pytest.fixture
def zone_files(tmp_path):
    """Zone files of a system, with a copy of UTC alone; the search path is restored afterwards."""
    before = zoneinfo.TZPATH
    (tmp_path / "UTC").write_bytes(resources.files("tzdata.zoneinfo").joinpath("UTC").read_bytes())
    zoneinfo.reset_tzpath(to=[tmp_path])
    yield tmp_path
    zoneinfo.reset_tzpath(to=before)


@pytest.mark.parametrize(
    ("files", "version", "plain"),
    [
        ({"tzdata.zi": "# version 2026b\n# redo posix_only\n"}, "2026b (system)", "2026b"),
        ({"tzdata.zi": "# version 2026b-rearguard\n"}, "2026b-rearguard (system)", "2026b"),
        ({"+VERSION": "2026c\n"}, "2026c (system)", "2026c"),
        ({"tzdata.zi": "something else", "+VERSION": "2026c"}, "2026c (system)", "2026c"),
        ({"tzdata.zi": "# version unknown\n"}, "unknown (system)", ""),
        ({}, "system", ""),
    ],
)
def test_version_of_system_zone_data(zone_files, files, version, plain):
    for name, text in files.items():
        (zone_files / name).write_text(text)

    assert data_version() == version
    assert release() == plain


def test_version_is_that_of_the_package_where_the_system_has_no_zones(zone_files):
    (zone_files / "UTC").unlink()

    assert data_version() == f"{tzdata.IANA_VERSION} (tzdata package)"
    assert release() == tzdata.IANA_VERSION


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
