"""Times before and after events: what people write, what is stored, and the moments that they give."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from schedules.when.event_times import AtEvents, EventTimes, read_event_times
from schedules.when.ics import IcsEvent
from schedules.when.phrase_writer import phrase_of
from schedules.when.repeats import parse_trigger
from schedules.when.slot_batches import count_slots, slots
from schedules.when.triggers import Cron, TriggerError, cron_trigger
from schedules.when.unplanned import UNKNOWN_START

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BERLIN = ZoneInfo("Europe/Berlin")


def test_text_is_read_and_read_back_as_the_same_times():
    for text, times in [
        ("30 minutes before every event in calendar Work", EventTimes("Work", -30 * MINUTE)),
        (
            '10 min after each event "Standup" in work',
            EventTimes("work", 10 * MINUTE, "Standup", at_end=True),
        ),
        ("1h30m before 'Müllabfuhr' in the calendar home", EventTimes("home", -90 * MINUTE, "Müllabfuhr")),
        ("1 day and 2 hours before any in DE-BY", EventTimes("DE-BY", -26 * 60 * MINUTE)),
        ("at every event in team calendar", EventTimes("team calendar")),
        ("at the end of every event in work", EventTimes("work", at_end=True)),
        ("after every event “Sprint review” in work", EventTimes("work", title="Sprint review", at_end=True)),
        ("@event 30m before any in work", EventTimes("work", -30 * MINUTE)),
        ('@EVENT at "gym" in work', EventTimes("work", title="gym")),
    ]:
        assert read_event_times(text) == times
        assert read_event_times(times.expression) == times
        assert read_event_times(times.phrase) == times


@pytest.mark.parametrize(
    "text",
    ["at 9 in Berlin", "every day at 9:00", "30 minutes before noon", "before christmas in 2027", "tomorrow"],
)
def test_other_schedules_are_left_alone(text):
    assert read_event_times(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@event", "Write how long before"),
        ("@event 5m at any in work", "Write how long before"),
        ("@event before any", "Write how long before"),
        ("@event 29d before any in work", "at most 28 days"),
    ],
)
def test_stored_text_that_is_wrong_says_what_to_write(text, words):
    with pytest.raises(TriggerError, match=words):
        read_event_times(text)
    with pytest.raises(TriggerError, match=words):
        cron_trigger(text, "UTC")


EVENTS = [
    IcsEvent(datetime(2026, 3, 3, 8, tzinfo=UTC), datetime(2026, 3, 3, 9, tzinfo=UTC), "Standup"),
    IcsEvent(datetime(2026, 3, 3, 8, tzinfo=UTC), datetime(2026, 3, 3, 10, tzinfo=UTC), "Other"),
    IcsEvent(date(2026, 3, 5), date(2026, 3, 6), "Company standup day"),
]


@pytest.mark.parametrize(
    ("times", "moments"),
    [
        (EventTimes("w", -30 * MINUTE), ["03-03 07:30", "03-04 22:30"]),
        (EventTimes("w", 10 * MINUTE, at_end=True), ["03-03 09:10", "03-03 10:10", "03-05 23:10"]),
        (EventTimes("w", title="STANDUP"), ["03-03 08:00", "03-04 23:00"]),
        (EventTimes("w", title="gym"), []),
    ],
)
def test_events_that_match_give_one_slot_for_each_moment(times, moments):
    assert [f"{slot:%m-%d %H:%M}" for slot in times.slots_of(EVENTS, BERLIN)] == moments


def test_trigger_waits_for_the_next_event_after_the_last_one_that_is_known():
    times = EventTimes("w", -30 * MINUTE)
    trigger = AtEvents(times, times.slots_of(EVENTS, BERLIN))
    first, last = trigger.slots

    assert [trigger.next_after(moment) for moment in (NOW, first, last)] == [first, last, UNKNOWN_START]
    assert trigger.upcoming(NOW, 5) == [first, last]
    assert trigger.latest_at_or_before(last, NOW) == last
    assert trigger.latest_at_or_before(first - MINUTE, NOW) is None
    week = (NOW, NOW + timedelta(days=7))
    assert [batch.first for batch in slots(trigger, *week)] == [first, last]
    assert count_slots(trigger, *week) == 2
    assert trigger.warnings(NOW) == []
    assert "No event that is known yet matches" in trigger.warnings(last)[0]


def test_phrase_is_read_with_its_capitals_and_shown_again():
    trigger = parse_trigger(
        '30 minutes before every event "Müll" in calendar Zuhause', now=NOW, timezone="Europe/Berlin"
    )

    assert isinstance(trigger, AtEvents)
    assert (trigger.times.title, trigger.times.calendar) == ("Müll", "Zuhause")
    assert parse_trigger(phrase_of(trigger), now=NOW, timezone="Europe/Berlin") == trigger
    assert isinstance(parse_trigger("every day at 9:00", now=NOW, timezone="UTC"), Cron)
