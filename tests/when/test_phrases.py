"""Phrases, ISO times and delays that mean a moment."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from schedules.when.phrases import PhraseError, parse_delay, parse_end, parse_moment

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def moment(text, now=NOW):
    return parse_moment(text, now=now, timezone=ZONE)


def past_moment(text, now=NOW):
    return parse_moment(text, now=now, timezone=ZONE, past=True)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("tomorrow at 9am", "2026-11-16 09:00"),
        ("in 20 minutes", "2026-11-15 10:20"),
        ("next friday 17:30", "2026-11-20 17:30"),
        ("friday at noon", "2026-11-20 12:00"),
        ("2026-12-24 18:00", "2026-12-24 18:00"),
        ("dec 24 6pm", "2026-12-24 18:00"),
        ("in 2 hours", "2026-11-15 12:00"),
        ("tonight at 8", "2026-11-15 20:00"),
        ("monday 9:00", "2026-11-16 09:00"),
        ("in 3 days at 14:00", "2026-11-18 14:00"),
        ("the day after tomorrow at noon", "2026-11-17 12:00"),
        ("at 15:45", "2026-11-15 15:45"),
        ("at 8am", "2026-11-16 08:00"),
        ("24.12.2026 18:00", "2026-12-24 18:00"),
        ("in an hour and a half", "2026-11-15 11:30"),
        ("2026-02-04 3:00 PM", "2026-02-04 15:00"),
        ("2h30m", "2026-11-15 12:30"),
        ("1d2h30m10s", "2026-11-16 12:30:10"),
        ("2026-12-24T18:00:00Z", "2026-12-24 19:00"),
        ("2026-12-24t18:00+02:00", "2026-12-24 17:00"),
        ("2026-12-24 18:00:30.5", "2026-12-24 18:00:30.500000"),
        ("noon", "2026-11-15 12:00"),
        ("midnight", "2026-11-16 00:00"),
        ("12am", "2026-11-16 00:00"),
        ("9 a.m. tomorrow", "2026-11-16 09:00"),
        ("6pm on dec 24", "2026-12-24 18:00"),
        ("december 24, 2027 at 6pm", "2027-12-24 18:00"),
        ("the 24th of december at 6pm", "2026-12-24 18:00"),
        ("jan 2 at noon", "2027-01-02 12:00"),
        ("sunday at 9:00", "2026-11-22 09:00"),
        ("sunday at 11:00", "2026-11-15 11:00"),
        ("next sunday at 11:00", "2026-11-22 11:00"),
        ("this friday at 11:00", "2026-11-20 11:00"),
        ("today at 08:00", "2026-11-15 08:00"),
        ("tonight at 8:30", "2026-11-15 20:30"),
        ("tonight at 23:15", "2026-11-15 23:15"),
        ("at 08", "2026-11-16 08:00"),
        ("at 15", "2026-11-15 15:00"),
        ("in half an hour", "2026-11-15 10:30"),
        ("in two weeks", "2026-11-29 10:00"),
        ("in 1 day and 2 hours", "2026-11-16 12:00"),
        ("in 1 hour, 30 minutes.", "2026-11-15 11:30"),
        ("tomorrow at nine", "2026-11-16 09:00"),
        ("in forty-five minutes", "2026-11-15 10:45"),
        ("in twenty five minutes", "2026-11-15 10:25"),
        ("in eleven minutes", "2026-11-15 10:11"),
        ("5.12.", "2026-12-05 09:00"),
        ("18:00 on 5.12.", "2026-12-05 18:00"),
        ("at 8.30.", "2026-11-16 08:30"),
        ("9.30.", "2026-11-16 09:30"),
        ("friday 4.12.", "2026-12-04 09:00"),
        ("Thu 3 Dec 2026 at 08:30", "2026-12-03 08:30"),
        ("friday, 4 december at 9:00", "2026-12-04 09:00"),
        ("friday, december 4 at 9:00", "2026-12-04 09:00"),
        ("at 3 at night", "2026-11-16 03:00"),
        ("tomorrow night", "2026-11-16 21:00"),
        ("tomorrow night at 11", "2026-11-16 23:00"),
        ("tomorrow at 2 in the morning", "2026-11-16 02:00"),
        ("tomorrow at half past 9", "2026-11-16 09:30"),
        ("friday half past nine", "2026-11-20 09:30"),
        ("tomorrow at quarter past 3 in the afternoon", "2026-11-16 15:15"),
        ("quarter to 1 tomorrow", "2026-11-16 12:45"),
        ("tonight at a quarter to 9", "2026-11-15 20:45"),
        ("half past 6pm", "2026-11-15 18:30"),
        ("a week from monday at 9", "2026-11-23 09:00"),
        ("2 weeks from tomorrow at 10:00", "2026-11-30 10:00"),
        ("friday week at 10", "2026-11-27 10:00"),
        ("next month on the 3rd", "2026-12-03 09:00"),
        ("next month on the 3rd at 14:30", "2026-12-03 14:30"),
        ("9:00 on the 3rd of next month", "2026-12-03 09:00"),
        ("in a fortnight", "2026-11-29 10:00"),
    ],
)
def test_moment(phrase, expected):
    assert moment(phrase) == datetime.fromisoformat(expected).replace(tzinfo=ZoneInfo(ZONE))


@pytest.mark.parametrize(
    ("phrase", "reason"),
    [
        ("half past 3 tomorrow", "3:30am or 3:30pm"),
        ("a week from sunday at 9", "2026-11-22 or 2026-11-29"),
        ("2 hours from tomorrow", "couldn't read that date and time"),
        ("this month on the 31st", "2026-11-31 doesn't exist"),
        ("", "this is empty"),
        ("today", "at what time"),
        ("12/24/2026 18:00", "Write 2026-12-24$"),
        ("03/04/2027 9:00", "Write 2027-03-04 or 2027-04-03$"),
        ("monday and tuesday at 9am", "couldn't read that date and time"),
        ("at 8", "morning or evening"),
        ("tomorrow at 3", "3am or 3pm"),
        ("tomorrow 5", "5am or 5pm"),
        ("today at 9", "9am or 9pm"),
        ("tomorrow at midnight", "00:00 or 23:59"),
        ("tonight at 8am", "17:00 to 23:59"),
        ("tonight at 1", "17:00 to 23:59"),
        ("at 25:00", "not a time"),
        ("at 13pm", "not a time"),
        ("at 9:75", "not a time"),
        ("friday at 9am and 5pm", "one time"),
        ("31.02.2027 10:00", "2027-02-31 doesn't exist"),
        ("feb 29 at noon", "2026-02-29 doesn't exist"),
        ("2026-13-01 10:00", "doesn't exist"),
        ("in 0 minutes", "1 second"),
        ("in 30 minutes 2 hours", "YYYY-MM-DD HH:MM"),
        ("in 99999999999 days", "five years"),
        ("in 9999 days at 9am", "five years"),
        ("9999-12-31 23:59", "five years"),
        ("0001-01-01 00:00", "five years"),
        ("tomorrow at 9am\0", "English letters"),
        ("\u202etomorrow at 9am", "English letters"),
        ("in \u0662 hours", "English letters"),
        ("9" * 201, "200 characters"),
        (None, "200 characters"),
        ("2027-03-28 02:30", "skip 02:30 on 2027-03-28. Write 03:30"),
        ("friday, 3 december 2026 at 9:00", "2026-12-03 is a Thursday"),
        ("monday 1 january at 9", "2027-01-01 is a Friday"),
        ("friday night at 5", "on which day"),
        ("tomorrow evening at 12", "on which day"),
        ("tomorrow night at 12", "on which day"),
        ("friday night at 1am", "on which day"),
        ("saturday night at 00:30", "on which day"),
        ("tomorrow at 3 at night", "on which day"),
    ],
)
def test_unclear_moment_is_refused_with_its_reason(phrase, reason):
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


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("now", "2026-11-15 10:00"),
        ("yesterday", "2026-11-14 00:00"),
        ("yesterday at 9:00", "2026-11-14 09:00"),
        ("yesterday 18:00", "2026-11-14 18:00"),
        ("2026-11-14", "2026-11-14 00:00"),
        ("14.11.2026", "2026-11-14 00:00"),
        ("2026-11-14 18:00", "2026-11-14 18:00"),
        ("today", "2026-11-15 00:00"),
        ("9:00", "2026-11-15 09:00"),
        ("at 18:00", "2026-11-14 18:00"),
        ("sunday 9:00", "2026-11-15 09:00"),
        ("sunday 18:00", "2026-11-08 18:00"),
        ("last sunday at 9:00", "2026-11-08 09:00"),
        ("last friday at noon", "2026-11-13 12:00"),
        ("monday", "2026-11-09 00:00"),
        ("dec 24 at 6pm", "2025-12-24 18:00"),
        ("nov 14", "2026-11-14 00:00"),
        ("20 minutes ago", "2026-11-15 09:40"),
        ("an hour ago", "2026-11-15 09:00"),
        ("2 days and 3 hours ago", "2026-11-13 07:00"),
        ("2h30m", "2026-11-15 07:30"),
        ("tomorrow at 9am", "2026-11-16 09:00"),
        ("in 20 minutes", "2026-11-15 10:20"),
        ("next sunday at 11:00", "2026-11-22 11:00"),
    ],
)
def test_past_moment(phrase, expected):
    assert past_moment(phrase) == datetime.fromisoformat(expected).replace(tzinfo=ZoneInfo(ZONE))


@pytest.mark.parametrize(
    ("phrase", "reason"),
    [
        ("", 'this is empty. Try "yesterday'),
        ("back then", "couldn't read that date and time"),
        ("ago", "YYYY-MM-DD HH:MM"),
        ("soon ago", "couldn't read that date and time"),
        ("99999 days ago", "five years"),
        ("yesterday at 3", "morning or evening"),
        ("yesterday at midnight", "00:00 or 23:59"),
        ("2026-02-30", "2026-02-30 doesn't exist"),
    ],
)
def test_unclear_past_moment_is_refused_with_its_reason(phrase, reason):
    with pytest.raises(PhraseError, match=reason):
        past_moment(phrase)


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


@pytest.mark.parametrize("text", ["", "soon", "in 20 minutes", "30m2h", "0s", "9" * 99 + "d", "1.5h", "-1h"])
def test_bad_delay_is_refused(text):
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
        ("tomorrow", "2026-11-16 09:00"),
        ("monday", "2026-11-16 09:00"),
        ("sunday", "2026-11-22 09:00"),
        ("next monday", "2026-11-16 09:00"),
        ("24 december", "2026-12-24 09:00"),
        ("in 3 days at 9", "2026-11-18 09:00"),
        ("tonight", "2026-11-15 20:00"),
        ("tomorrow morning", "2026-11-16 09:00"),
        ("tomorrow afternoon", "2026-11-16 15:00"),
        ("this evening", "2026-11-15 18:00"),
        ("tomorrow evening at 8", "2026-11-16 20:00"),
        ("monday morning at 8:30", "2026-11-16 08:30"),
        ("friday evening 19:30", "2026-11-20 19:30"),
        ("in the morning", "2026-11-16 09:00"),
        ("tmrw 9", "2026-11-16 09:00"),
        ("next monday 9", "2026-11-16 09:00"),
        ("thurs 9am", "2026-11-19 09:00"),
        ("tomorrow 8.30", "2026-11-16 08:30"),
        ("8.30 tomorrow", "2026-11-16 08:30"),
        ("18:00h tomorrow", "2026-11-16 18:00"),
        ("tomorrow at 9 o'clock", "2026-11-16 09:00"),
        ("24.12. 18:00", "2026-12-24 18:00"),
        ("14.11. 18.30", "2027-11-14 18:30"),
        ("20 minutes", "2026-11-15 10:20"),
        ("2 hours from now", "2026-11-15 12:00"),
        ("in 1.5 hours", "2026-11-15 11:30"),
        ("tomorrow\u00a0at 9am", "2026-11-16 09:00"),
        ("tomorrow 9", "2026-11-16 09:00"),
        ("tomorrow at 9", "2026-11-16 09:00"),
        ("friday 12", "2026-11-20 12:00"),
        ("2026-12-24 7", "2026-12-24 07:00"),
        ("2026-12-24", "2026-12-24 00:00"),
        ("24.12.2026", "2026-12-24 00:00"),
    ],
)
def test_what_people_type_is_read_as_they_mean_it(phrase, expected):
    assert moment(phrase) == datetime.fromisoformat(expected).replace(tzinfo=ZoneInfo(ZONE))


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


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("2026-12-24", "2026-12-24 23:59:59.999999"),
        ("2026-12-24 18:00", "2026-12-24 18:00"),
        ("tomorrow at 9am", "2026-11-16 09:00"),
        ("2020-01-01", "2020-01-01 23:59:59.999999"),
        ("24.12.2026", "2026-12-24 23:59:59.999999"),
        ("24 december", "2026-12-24 23:59:59.999999"),
        ("friday", "2026-11-20 23:59:59.999999"),
        ("today", "2026-11-15 23:59:59.999999"),
        ("in 30 days", "2026-12-15 10:00"),
    ],
)
def test_date_as_end_includes_its_whole_day(phrase, expected):
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
