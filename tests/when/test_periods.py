"""Periods as people name them, read on Wednesday, 4 February 2026, 12:00 in Berlin."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from schedules.when.periods import ends_of, parse_period
from schedules.when.phrases import PhraseError

NOW = datetime(2026, 2, 4, 11, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def read(text, *, past=False):
    start, end = parse_period(text, now=NOW, timezone="Europe/Berlin", past=past)
    # A period ends a tick before the moment that people would name.
    whole = end if end.second == 0 and end.microsecond == 0 else end + timedelta(microseconds=1)
    return tuple(f"{moment.astimezone(BERLIN):%Y-%m-%d %H:%M}" for moment in (start, whole))


def test_past_period_is_read():
    for text, start, end in [
        ("yesterday", "2026-02-03 00:00", "2026-02-04 00:00"),
        ("today", "2026-02-04 00:00", "2026-02-05 00:00"),
        ("monday", "2026-02-02 00:00", "2026-02-03 00:00"),
        ("2026-01-15", "2026-01-15 00:00", "2026-01-16 00:00"),
        ("24 december", "2025-12-24 00:00", "2025-12-25 00:00"),
        ("this week", "2026-02-02 00:00", "2026-02-09 00:00"),
        ("last week", "2026-01-26 00:00", "2026-02-02 00:00"),
        ("last weekend", "2026-01-31 00:00", "2026-02-02 00:00"),
        ("last month", "2026-01-01 00:00", "2026-02-01 00:00"),
        ("The previous month", "2026-01-01 00:00", "2026-02-01 00:00"),
        ("last year", "2025-01-01 00:00", "2026-01-01 00:00"),
        ("november", "2025-11-01 00:00", "2025-12-01 00:00"),
        ("february", "2026-02-01 00:00", "2026-03-01 00:00"),
        ("october 2024", "2024-10-01 00:00", "2024-11-01 00:00"),
        ("last 7 days", "2026-01-28 12:00", "2026-02-04 12:00"),
        ("past week", "2026-01-28 12:00", "2026-02-04 12:00"),
        ("the past 24 hours", "2026-02-03 12:00", "2026-02-04 12:00"),
        ("this morning", "2026-02-04 00:00", "2026-02-04 12:00"),
        ("yesterday evening", "2026-02-03 18:00", "2026-02-04 00:00"),
        ("last night", "2026-02-03 18:00", "2026-02-04 06:00"),
        ("3 days ago", "2026-02-01 12:00", "2026-02-01 12:00"),
        ("yesterday at 9:00", "2026-02-03 09:00", "2026-02-03 09:00"),
        ("now", "2026-02-04 12:00", "2026-02-04 12:00"),
    ]:
        assert read(text, past=True) == (start, end)


def test_period_ahead_is_read():
    for text, start, end in [
        ("today", "2026-02-04 00:00", "2026-02-05 00:00"),
        ("tomorrow", "2026-02-05 00:00", "2026-02-06 00:00"),
        ("tomorrow morning", "2026-02-05 00:00", "2026-02-05 12:00"),
        ("monday afternoon", "2026-02-09 12:00", "2026-02-09 18:00"),
        ("tonight", "2026-02-04 18:00", "2026-02-05 06:00"),
        ("this weekend", "2026-02-07 00:00", "2026-02-09 00:00"),
        ("next week", "2026-02-09 00:00", "2026-02-16 00:00"),
        ("next month", "2026-03-01 00:00", "2026-04-01 00:00"),
        ("january", "2027-01-01 00:00", "2027-02-01 00:00"),
        ("march", "2026-03-01 00:00", "2026-04-01 00:00"),
        ("next 3 days", "2026-02-04 12:00", "2026-02-07 12:00"),
        ("friday", "2026-02-06 00:00", "2026-02-07 00:00"),
        ("in 2 days", "2026-02-06 12:00", "2026-02-06 12:00"),
        ("tomorrow at noon", "2026-02-05 12:00", "2026-02-05 12:00"),
        ("2026-02-06T08:00", "2026-02-06 08:00", "2026-02-06 08:00"),
    ]:
        assert read(text) == (start, end)


def test_day_on_which_clocks_change_is_whole():
    start, end = parse_period("2026-03-29", now=NOW, timezone="Europe/Berlin")

    assert end - start + timedelta(microseconds=1) == timedelta(hours=23)


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "last", "last nonsense", "13 december 99", "x" * 500, "9999-12-31", "december 9999"],
)
@pytest.mark.parametrize("past", [True, False])
def test_what_names_no_period_is_refused(text, past):
    with pytest.raises(PhraseError):
        parse_period(text, now=NOW, timezone="Europe/Berlin", past=past)


@pytest.mark.parametrize(
    ("first", "last", "ends"),
    [
        (None, None, (None, None)),
        ("today", None, ("2026-02-04 00:00", "2026-02-04 23:59")),
        ("in 1 hour", None, ("2026-02-04 13:00", None)),
        (None, "tomorrow", (None, "2026-02-05 23:59")),
        ("today", "tomorrow", ("2026-02-04 00:00", "2026-02-05 23:59")),
    ],
)
def test_period_between_two_names_ends_with_the_last_and_one_name_alone_is_whole(first, last, ends):
    named = [
        parse_period(text, now=NOW, timezone="Europe/Berlin") if text else None for text in (first, last)
    ]

    assert tuple(end and f"{end.astimezone(BERLIN):%Y-%m-%d %H:%M}" for end in ends_of(*named)) == ends
