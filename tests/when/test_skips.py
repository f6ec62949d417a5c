"""Days and slots that a schedule leaves out."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.when.skips import Skips, day_of, slot_entry, still_ahead


def moment(text):
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("slot", "is_left_out"),
    [
        ("2026-12-23T23:59:59+01:00", False),
        ("2026-12-24T00:00:00+01:00", True),
        ("2026-12-24T23:59:59+01:00", True),
        ("2026-12-25T00:00:00+01:00", False),
        ("2026-12-31T09:00:00+01:00", True),
        ("2026-12-31T09:00:01+01:00", False),
    ],
)
def test_days_and_single_slots_are_left_out_in_the_zone(slot, is_left_out):
    skips = Skips(frozenset({"2026-12-24", "2026-12-31T08:00:00Z"}), "Europe/Berlin")

    assert bool(skips.reason(moment(slot))) is is_left_out


@pytest.mark.parametrize(
    ("day", "hours"),
    [("2026-03-29", 23), ("2026-10-25", 25), ("2026-12-24", 24)],
    ids=["spring", "autumn", "plain"],
)
def test_left_out_day_lasts_until_the_next_one_also_when_clocks_change(day, hours):
    skips = Skips(frozenset({day}), "Europe/Berlin")
    start = moment(f"{day}T00:00:00{'+02:00' if day == '2026-10-25' else '+01:00'}")

    last = skips.last_moment(start)

    assert last + timedelta(microseconds=1) - start == timedelta(hours=hours)
    assert skips.reason(last)
    assert not skips.reason(last + timedelta(microseconds=1))


def test_entries_name_their_day_and_are_dropped_after_it():
    entry = slot_entry(moment("2026-12-24T00:30:00+01:00"))

    assert entry == "2026-12-23T23:30:00Z"
    assert day_of(entry, "Europe/Berlin") == day_of("2026-12-24", "Europe/Berlin") == "2026-12-24"
    assert still_ahead(["2026-12-24", entry, "2026-01-01"], moment("2026-12-01T00:00:00Z")) == [
        entry,
        "2026-12-24",
    ]
