"""Durations as text for people."""

from datetime import timedelta

import pytest

from schedules.when import durations
from schedules.when.phrases import parse_delay


@pytest.mark.parametrize(
    ("span", "in_words", "short", "typed"),
    [
        (timedelta(0), "0 seconds", "0 ms", "0s"),
        (timedelta(seconds=1), "1 second", "1 s", "1s"),
        (timedelta(seconds=90), "1 minute 30 seconds", "1 min 30 s", "1m30s"),
        (timedelta(hours=1), "1 hour", "1 h", "1h"),
        (timedelta(hours=2, minutes=30), "2 hours 30 minutes", "2 h 30 min", "2h30m"),
        (
            timedelta(days=1, hours=2, minutes=3, seconds=4),
            "1 day 2 hours 3 minutes 4 seconds",
            "1 d 2 h",
            "1d2h3m4s",
        ),
    ],
)
def test_duration_is_written_in_three_ways(span: timedelta, in_words: str, short: str, typed: str):
    assert (durations.in_words(span), durations.short(span), durations.typed(span)) == (
        in_words,
        short,
        typed,
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2584, "258 ms"), (2.84, "2.8 s"), (59.94, "59.9 s"), (59.96, "60 s"), (60.4, "1 min"), (-3, "0 ms")],
)
def test_short_duration_is_rounded(seconds: float, words: str):
    assert durations.short(timedelta(seconds=seconds)) == words


def test_typed_duration_is_read_back():
    span = timedelta(days=3, hours=1, seconds=5)

    assert parse_delay(durations.typed(span)) == span
