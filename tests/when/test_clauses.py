"""A whole schedule in words: what repeats, until when, and without which days."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from schedules.when.clauses import Plan, named_calendars, parse_plan
from schedules.when.phrases import PhraseError
from schedules.when.repeats import parse_trigger

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 10, tzinfo=ZoneInfo(ZONE))


def plan(text):
    return parse_plan(text, now=NOW, timezone=ZONE)


@pytest.mark.parametrize(
    ("text", "repeat", "last_day", "skipped"),
    [
        ("every weekday at 8 until 24 december", "every weekday at 8", date(2026, 12, 24), []),
        ("every day at 9, until 2027-01-31", "every day at 9", date(2027, 1, 31), []),
        ("every day at 9 except 24 december", "every day at 9", None, [date(2026, 12, 24)]),
        (
            "every day at 9 except on 25 december and 1 january until 31 january",
            "every day at 9",
            date(2027, 1, 31),
            [date(2026, 12, 25), date(2027, 1, 1)],
        ),
        (
            "every second tuesday at 18:00 until 1 march starting 1 december",
            "every second tuesday at 18:00 starting 1 december",
            date(2027, 3, 1),
            [],
        ),
        ("every day at 9 except sunday until friday", "every day except sunday at 9", date(2026, 11, 20), []),
        # Here, "until" belongs to the hours.
        ("every 20 minutes from 8:00 until 18:00", "every 20 minutes from 8:00 to 18:00", None, []),
        ("tomorrow at 9", "tomorrow at 9", None, []),
    ],
)
def test_end_and_exceptions_are_read_apart_from_what_repeats(text, repeat, last_day, skipped):
    found = plan(text)

    assert found.trigger == parse_trigger(repeat, now=NOW, timezone=ZONE)
    assert (found.ends_at and found.ends_at.date()) == last_day
    assert list(found.skipped_days) == skipped


@pytest.mark.parametrize(
    ("text", "repeat", "spread"),
    [
        ("every day at 9 within 20 minutes", "every day at 9", timedelta(minutes=20)),
        ("every day at 9, within 1h30m", "every day at 9", timedelta(minutes=90)),
        ("every weekday at 8 within half an hour", "every weekday at 8", timedelta(minutes=30)),
        ("every 2 hours within an hour", "every 2 hours", timedelta(hours=1)),
        ("30 8 * * 1-5 within 5 minutes", "30 8 * * 1-5", timedelta(minutes=5)),
    ],
)
def test_random_delay_is_read_apart_from_what_repeats(text, repeat, spread):
    assert plan(text) == Plan(parse_trigger(repeat, now=NOW, timezone=ZONE), spread=spread)


def test_random_delay_goes_with_other_clauses_and_calendars():
    found = plan(
        "every day at 9 within 20 minutes until 24 december except 1 december except public holidays in bavaria"
    )

    assert found.trigger == parse_trigger("every day at 9", now=NOW, timezone=ZONE)
    assert (found.spread, found.ends_at.date(), found.skipped_days, found.calendars) == (
        timedelta(minutes=20),
        date(2026, 12, 24),
        (date(2026, 12, 1),),
        ("public holidays in bavaria",),
    )


def test_end_with_a_time_is_that_moment():
    assert plan("every 30 minutes until 18:00") == Plan(
        parse_trigger("every 30 minutes", now=NOW, timezone=ZONE), NOW.replace(hour=18)
    )


def test_unclear_clause_is_refused_with_its_reason():
    for text, reason in [
        ("tomorrow at 9 until friday", "runs once"),
        ("every day at 9 until monday until friday", "one end"),
        ("tomorrow at 9 within 20 minutes", "runs once has no random delay"),
        ("every day at 9 within 5m within 10m", "one random delay"),
        ("every day at 9 within reason", "couldn't read 'reason' as a random delay"),
        ("every day at 9 until the cows come home", "couldn't read"),
        ("every day at 9 except 31 february", "doesn't exist"),
        ("xyzzy", "couldn't read that schedule"),
    ]:
        with pytest.raises(PhraseError, match=reason):
            plan(text)


@pytest.mark.parametrize(
    ("text", "rest", "names"),
    [
        (
            "every weekday at 9:00 except public holidays in Bavaria",
            "every weekday at 9:00",
            ("public holidays in bavaria",),
        ),
        ("every day at 9:00, except the holidays and weekends", "", None),
        ("every day at 9:00 except calendar office days", "every day at 9:00", ("office days",)),
        (
            "every day at 9:00 except 24 december but not holidays until 2027-01-31",
            "every day at 9:00 except 24 december until 2027-01-31",
            ("holidays",),
        ),
    ],
)
def test_clauses_name_calendars(text, rest, names):
    if names is None:
        with pytest.raises(PhraseError):
            parse_plan(text, now=NOW, timezone="UTC")
        return
    plan = parse_plan(text, now=NOW, timezone="UTC")

    assert plan.calendars == names
    assert replace(plan, calendars=()) == parse_plan(rest, now=NOW, timezone="UTC")


def test_names_of_calendars_are_found_by_name_and_words():
    known = {"DE-BY": "public holidays in Bavaria", "FR": "public holidays in France", "office": "office"}

    assert named_calendars(["de-by", "public holidays in france"], known) == ["DE-BY", "FR"]
    assert named_calendars(["Bayern", "bank holidays in Sweden", "the Netherlands"], known) == [
        "DE-BY",
        "SE",
        "NL",
    ]
    with pytest.raises(PhraseError, match="more than one calendar is called 'holidays'"):
        named_calendars(["holidays"], known)
    with pytest.raises(PhraseError, match="no calendar is called 'moon'"):
        named_calendars(["moon"], known)
