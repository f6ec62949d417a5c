from datetime import UTC, datetime, time, timedelta

import pytest

from schedules.when.phrases import PhraseError
from schedules.when.spans import parse_clock_time, parse_longer_span, parse_span

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0", timedelta(0)),
        ("0.0s", timedelta(0)),
        ("1h30m", timedelta(minutes=90)),
        ("ten minutes", timedelta(minutes=10)),
    ],
)
def test_duration_is_read_in_figures_and_in_words(text: str, span: timedelta):
    assert parse_span(text, NOW) == span


@pytest.mark.parametrize("text", ["0", "a bit"])
def test_text_that_is_no_longer_duration_is_refused(text: str):
    with pytest.raises(PhraseError):
        parse_longer_span(text, NOW)


@pytest.mark.parametrize(
    ("text", "clock_time"),
    [
        ("8:30", time(8, 30)),
        ("15:00:05", time(15, 0, 5)),
        ("25:00", None),
        ("15", None),
        ("9:00+01:00", None),
    ],
)
def test_time_of_day_is_read_alone(text: str, clock_time: time | None):
    assert parse_clock_time(text) == clock_time
