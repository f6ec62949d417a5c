"""ICS files as calendar programs write them, and as nobody should."""

from datetime import UTC, date, datetime
from itertools import takewhile

import pytest

from schedules.when import ics
from schedules.when.ics import IcsError, IcsEvent, read_ics

BERLIN = "Europe/Berlin"
START = datetime(2024, 1, 1, 9, tzinfo=UTC)
FIRST, LAST = date(2026, 1, 1), date(2028, 12, 31)
ZONE_OF_OUTLOOK = """BEGIN:VTIMEZONE
TZID:W. Europe Standard Time
BEGIN:STANDARD
DTSTART:16010101T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=10
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:16010101T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=3
END:DAYLIGHT
END:VTIMEZONE"""


def file_of(*events, head=""):
    """Return an ICS file; an event is its lines, with a UID of its own unless they have one."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", *head.splitlines()]
    for number, event in enumerate(events):
        own = [] if "UID:" in event else [f"UID:{number}@test"]
        lines += ["BEGIN:VEVENT", *own, *event.strip().splitlines(), "END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


def read(*events, head="", timezone=BERLIN):
    return read_ics(file_of(*events, head=head), FIRST, LAST, timezone)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def test_weekly_meeting_keeps_its_wall_time_over_clock_changes():
    found = read(
        "SUMMARY:Standup\nDTSTART;TZID=Europe/Berlin:20260326T090000\nDURATION:PT15M\nRRULE:FREQ=WEEKLY;COUNT=2"
    )

    assert found.events == [
        IcsEvent(utc(2026, 3, 26, 8), utc(2026, 3, 26, 8, 15), "Standup"),
        IcsEvent(utc(2026, 4, 2, 7), utc(2026, 4, 2, 7, 15), "Standup"),
    ]


def test_zone_of_outlook_is_understood():
    found = read(
        "SUMMARY:Sync\nDTSTART;TZID=W. Europe Standard Time:20260701T100000\n"
        "DTEND;TZID=W. Europe Standard Time:20260701T110000",
        head=ZONE_OF_OUTLOOK,
    )

    assert found.events == [IcsEvent(utc(2026, 7, 1, 8), utc(2026, 7, 1, 9), "Sync")]


def test_moved_cancelled_and_added_occurrences_are_followed():
    found = read(
        "UID:a\nSUMMARY:Review\nDTSTART:20260501T080000Z\nDTEND:20260501T090000Z\nRRULE:FREQ=DAILY;COUNT=4\n"
        "EXDATE:20260502T080000Z\nRDATE:20260510T080000Z",
        "UID:a\nRECURRENCE-ID:20260503T080000Z\nSUMMARY:Review (moved)\nDTSTART:20260503T120000Z\n"
        "DTEND:20260503T130000Z",
        "UID:a\nRECURRENCE-ID:20260504T080000Z\nSTATUS:CANCELLED\nDTSTART:20260504T080000Z",
    )

    assert [(event.start.day, event.start.hour, event.title) for event in found.events] == [
        (1, 8, "Review"),
        (3, 12, "Review (moved)"),
        (10, 8, "Review"),
    ]


def test_all_day_events_are_days_and_their_end_is_not_included():
    found = read(
        "SUMMARY:Fair\nDTSTART;VALUE=DATE:20260601\nDTEND;VALUE=DATE:20260603",
        "SUMMARY:Birthday\nDTSTART;VALUE=DATE:16040803\nRRULE:FREQ=YEARLY",
    )

    assert found.events[0] == IcsEvent(date(2026, 6, 1), date(2026, 6, 3), "Fair")
    assert [event.start for event in found.events[1:]] == [date(year, 8, 3) for year in (2026, 2027, 2028)]


@pytest.mark.parametrize(
    ("head", "hour"),
    [("", 8), ("X-WR-TIMEZONE:America/New_York", 14)],
    ids=["given zone", "zone of the file"],
)
def test_time_without_a_zone_is_in_that_of_the_file_or_the_given_one(head, hour):
    assert read("DTSTART:20260701T100000", head=head).events[0].start == utc(2026, 7, 1, hour)


def test_rule_ends_with_its_last_moment_in_utc():
    found = read("DTSTART;TZID=Europe/Berlin:20260701T090000\nRRULE:FREQ=DAILY;UNTIL=20260703T070000Z")

    assert [event.start.day for event in found.events] == [1, 2, 3]


def test_event_that_cannot_be_read_is_counted_and_the_others_stay():
    found = read(
        "DTSTART:banana",
        "SUMMARY:Good\nDTSTART:20260401T100000Z",
        "SUMMARY:no start",
        "DTSTART:20260101\nRRULE:X",
    )

    assert [event.title for event in found.events] == ["Good"]
    assert found.unread == 3


@pytest.mark.parametrize("rule", ["FREQ=SECONDLY", "FREQ=MINUTELY;INTERVAL=5", "FREQ=HOURLY"])
def test_rule_more_often_than_daily_is_left_out(rule):
    found = read(f"DTSTART:20260101T000000Z\nRRULE:{rule}", "SUMMARY:Good\nDTSTART:20260401T100000Z")

    assert (len(found.events), found.unread) == (1, 1)


def test_rule_without_an_end_stops_with_the_period():
    found = read("DTSTART:20200101T080000Z\nRRULE:FREQ=DAILY")

    assert len(found.events) == (LAST - FIRST).days + 1


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYYEARDAY=366;BYMONTH=1",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
    ],
)
def test_rule_that_never_matches_ends(rule, monkeypatch):
    monkeypatch.setattr(ics, "MAX_STEPS_PER_EVENT", 10**9)
    monkeypatch.setattr(ics, "MAX_STEPS", 400 * 366 + 10_000)

    # Its start is an occurrence, whatever the rule says.
    assert len(read(f"DTSTART:20260101T000000Z\nRRULE:{rule}").events) == 1


def test_repetitions_of_all_events_together_are_limited(monkeypatch):
    monkeypatch.setattr(ics, "MAX_STEPS", 5000)

    with pytest.raises(IcsError, match="repeat too often"):
        read(*["DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY"] * 5)


def test_only_so_many_occurrences_are_kept_and_the_rest_is_not_claimed_to_be_known(monkeypatch):
    monkeypatch.setattr(ics, "MAX_EVENTS", 10)

    found = read("DTSTART:20260301T080000Z\nRRULE:FREQ=DAILY")

    assert found.until == date(2026, 3, 10)
    assert found.events[-1].start.date() == found.until


def test_old_events_do_not_count_and_a_hundred_thousand_current_ones_are_refused():
    old = file_of(*["DTSTART:20100101T000000Z"] * 6000, "SUMMARY:Good\nDTSTART:20260401T100000Z")
    assert [event.title for event in read_ics(old, FIRST, LAST, BERLIN).events] == ["Good"]

    many = "BEGIN:VCALENDAR\n" + "BEGIN:VEVENT\nDTSTART:20260401\nEND:VEVENT\n" * 100_000
    with pytest.raises(IcsError, match="more than 5,000 current events"):
        read_ics(many, FIRST, LAST, BERLIN)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not an ICS calendar"),
        ("<html>Please log in", "not an ICS calendar"),
        ("BEGIN:VCALENDAR\r\nnonsense", "broken"),
        ("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR", "broken"),
        ("BEGIN:VCALENDAR\r\n" + "X:" + "x" * ics.MAX_CHARACTERS, "larger than 5 MB"),
    ],
    ids=["empty", "login page", "nonsense", "wrong end", "large"],
)
def test_text_that_is_no_calendar_is_refused_with_a_reason(text, words):
    with pytest.raises(IcsError, match=words):
        read_ics(text, FIRST, LAST, BERLIN)


def test_title_is_one_short_line():
    (event,) = read(f"SUMMARY:Line\\none \u202e{'x' * 300}\nDTSTART:20260401T100000Z").events

    assert event.title.startswith("Line one x")
    assert len(event.title) == ics.LONGEST_TITLE


@pytest.mark.parametrize(
    "rule",
    ["FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29"],
)
def test_rule_has_the_same_days_as_without_the_shift_of_years(rule):
    found = read(f"DTSTART:20240101T090000Z\nRRULE:{rule}")

    plain = ics.import_module("dateutil.rrule").rrulestr(rule, dtstart=START.replace(tzinfo=None))
    days = [
        wall.date() for wall in takewhile(lambda wall: wall.date() <= LAST, plain) if wall.date() >= FIRST
    ]
    assert [event.start.date() for event in found.events] == days
    assert days
