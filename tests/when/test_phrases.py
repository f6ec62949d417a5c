"""Phrases, ISO times and delays that mean a moment."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from schedules.when.phrases import (
    PhraseError,
    parse_amount,
    parse_clock_time,
    parse_delay,
    parse_end,
    parse_moment,
    parse_span,
)
from tests.when.tables import rows

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def moment(text, now=NOW):
    return parse_moment(text, now=now, timezone=ZONE)


def past_moment(text, now=NOW):
    return parse_moment(text, now=now, timezone=ZONE, past=True)


def differences(parse, kind):
    """Return the rows of a table whose phrases mean something else."""
    return [
        (phrase, expected)
        for phrase, expected in rows(kind)
        if parse(phrase) != datetime.fromisoformat(expected).replace(tzinfo=ZoneInfo(ZONE))
    ]


def test_moments_are_those_of_the_table():
    assert differences(moment, "moment") == []
    assert differences(past_moment, "past") == []
    assert moment("tomorrow\u00a0at 9am") == moment("tomorrow at 9am")


@pytest.mark.parametrize(("kind", "parse"), [("no moment", moment), ("no past", past_moment)])
def test_unclear_moments_are_refused_with_the_reasons_of_the_table(kind, parse):
    for phrase, reason in rows(kind):
        with pytest.raises(PhraseError, match=reason):
            parse(phrase)


def test_text_that_cannot_be_a_phrase_is_refused():
    for phrase, reason in [
        ("", "this is empty"),
        ("tomorrow at 9am\0", "English letters"),
        ("\u202etomorrow at 9am", "English letters"),
        ("9" * 201, "200 characters"),
        (None, "200 characters"),
    ]:
        with pytest.raises(PhraseError, match=reason):
            moment(phrase)


def test_next_friday_is_refused_when_it_could_be_two():
    wednesday = NOW + timedelta(days=3)

    with pytest.raises(PhraseError, match="2026-11-20 or 2026-11-27"):
        moment("next friday 17:30", wednesday)


def test_repeated_time_means_the_first_one():
    assert moment("2027-10-31 02:30").astimezone(UTC) == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "phrase", "expected"),
    [
        ("2027-10-31T02:15+02:00", "at 2:30", "2027-10-31T02:30+02:00"),
        ("2027-10-31T02:30+02:00", "at 2:15", "2027-10-31T02:15+01:00"),
        ("2027-10-31T02:30+01:00", "at 2:45", "2027-10-31T02:45+01:00"),
        ("2027-10-31T02:30+01:00", "2027-10-31 02:45", "2027-10-31T02:45+01:00"),
        ("2027-10-31T02:30+01:00", "2027-10-31 02:15", "2027-10-31T02:15+02:00"),
        ("2027-10-31T02:30+01:00", "at 2:15", "2027-11-01T02:15+01:00"),
        ("2027-03-28T12:00+02:00", "at 2:30", "2027-03-29T02:30+02:00"),
    ],
)
def test_repeated_time_means_the_one_still_ahead(now, phrase, expected):
    now, expected = datetime.fromisoformat(now), datetime.fromisoformat(expected)

    assert moment(phrase, now).astimezone(UTC) == expected


def test_days_ago_keep_the_clock_time_and_hours_ago_are_elapsed():
    after_change = datetime(2027, 3, 28, 12, tzinfo=ZoneInfo(ZONE))

    assert past_moment("1 day ago", after_change).isoformat() == "2027-03-27T12:00:00+01:00"
    assert past_moment("24 hours ago", after_change).isoformat() == "2027-03-27T11:00:00+01:00"


def test_days_keep_the_clock_time_and_hours_are_elapsed():
    before_change = datetime(2027, 3, 27, 12, tzinfo=ZoneInfo(ZONE))

    assert moment("in 1 day", before_change).isoformat() == "2027-03-28T12:00:00+02:00"
    assert moment("in 24 hours", before_change).isoformat() == "2027-03-28T13:00:00+02:00"


def test_leap_day_is_found_in_a_leap_year():
    assert (
        moment("feb 29 at noon", datetime(2028, 1, 1, tzinfo=ZoneInfo(ZONE))).date().isoformat()
        == "2028-02-29"
    )


def test_unknown_zone_is_refused():
    with pytest.raises(PhraseError, match="Europe/Berlin"):
        parse_moment("tomorrow at 9am", now=NOW, timezone="Mars/Base")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1d2h30m10s", 95410), ("2h30m", 9000), ("90m", 5400), (" 45S ", 45)],
)
def test_delay(text, seconds):
    assert parse_delay(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("parse", "example"),
    [(moment, "tomorrow at 9am"), (past_moment, "yesterday at 9:00"), (parse_delay, "2h30m")],
)
def test_example_shown_for_an_empty_text_is_understood(parse, example):
    with pytest.raises(PhraseError, match=f'this is empty. Try "{example}"'):
        parse(" ")
    parse(example)


def test_bad_delay_is_refused():
    for text in [
        "",
        "soon",
        "in 20 minutes",
        "30m2h",
        "0s",
        "9" * 99 + "d",
        "1.5h",
        "-1h",
    ]:
        with pytest.raises(PhraseError):
            parse_delay(text)


@pytest.mark.parametrize("text", ["2026-04-24", "24 apr 2026", "friday"])
def test_day_alone_means_its_first_moment(text):
    now = datetime(2026, 4, 25, 9, tzinfo=UTC)

    # Clocks in Cairo skip the first hour of that day.
    moment = parse_moment(text, now=now, timezone="Africa/Cairo", past=True)

    assert moment == datetime(2026, 4, 23, 22, tzinfo=UTC)
    assert f"{moment:%H:%M}" == "01:00"


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("monday", "2026-11-16 00:00"),
        ("sunday", "2026-11-22 00:00"),
        ("tomorrow", "2026-11-16 00:00"),
        ("24 december", "2026-12-24 00:00"),
        ("monday at 9am", "2026-11-16 09:00"),
    ],
)
def test_end_of_a_pause_may_be_a_day(phrase, expected):
    read = parse_moment(phrase, now=NOW, timezone=ZONE, may_be_day=True)

    assert read == datetime.fromisoformat(expected).replace(tzinfo=ZoneInfo(ZONE))


def test_date_as_end_includes_its_whole_day():
    for phrase, expected in [
        ("2026-12-24", "2026-12-24 23:59:59.999999"),
        ("2026-12-24 18:00", "2026-12-24 18:00"),
        ("tomorrow at 9am", "2026-11-16 09:00"),
        ("2020-01-01", "2020-01-01 23:59:59.999999"),
        ("24.12.2026", "2026-12-24 23:59:59.999999"),
        ("24 december", "2026-12-24 23:59:59.999999"),
        ("friday", "2026-11-20 23:59:59.999999"),
        ("today", "2026-11-15 23:59:59.999999"),
        ("in 30 days", "2026-12-15 10:00"),
    ]:
        read = parse_end(phrase, now=NOW, timezone=ZONE)

        assert read == datetime.fromisoformat(expected).replace(tzinfo=ZoneInfo(ZONE))


def test_day_as_end_includes_an_hour_that_clocks_repeat():
    read = parse_end("2027-04-03", now=NOW, timezone="America/Santiago")

    assert read.astimezone(UTC) == datetime(2027, 4, 4, 4, tzinfo=UTC) - timedelta(microseconds=1)


@pytest.mark.parametrize(("day", "zone"), [("9999-12-31", ZONE), ("2011-12-29", "Pacific/Apia")])
def test_day_without_a_following_one_has_an_end(day, zone):
    read = parse_end(day, now=NOW, timezone=zone)

    assert read.isoformat().startswith(f"{day}T23:59:59.999999")


def test_date_that_does_not_exist_is_no_end():
    with pytest.raises(PhraseError):
        parse_end("2026-02-30", now=NOW, timezone=ZONE)


def test_day_alone_starts_where_clocks_skip_midnight():
    read = parse_moment("2026-09-06", now=datetime(2026, 9, 1, tzinfo=UTC), timezone="America/Santiago")

    assert read.isoformat() == "2026-09-06T01:00:00-03:00"


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
    assert parse_span(text) == span


@pytest.mark.parametrize("text", ["0", "a bit"])
def test_text_that_is_no_longer_duration_is_refused(text: str):
    with pytest.raises(PhraseError):
        parse_amount(text)


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
