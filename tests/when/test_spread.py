"""Spread: the same random delay for every run of a job, in every question about its slots."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.when.forecast import PendingJob, per_day, runs_ahead
from schedules.when.slot_batches import count_slots, runs_per_minute, slots
from schedules.when.spread import Spread, delay_of, spread_out, spread_problem
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once

START = datetime(2026, 3, 20, 10, 7, 30, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TICK = timedelta(microseconds=1)
BERLIN = "Europe/Berlin"
# Each period has the night of a clock change.
CHANGES = [datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC)]
BASES = [
    Cron("30 2 * * *", BERLIN),
    Cron("*/15 * * * *", BERLIN),
    Cron("0 9 * * 1-5", BERLIN),
    Interval(5400, START),
    CalendarInterval(2, "days", START, BERLIN),
]


def walked(trigger, start, end):
    found, slot = [], trigger.next_after(start - TICK)
    while slot is not None and slot < end:
        found.append(slot)
        slot = trigger.next_after(slot)
    return found


def test_delay_is_the_same_each_time_and_below_the_spread():
    keys = [f"job_{number}_1770000000" for number in range(500)]
    chosen = [delay_of(key, 20 * MINUTE) for key in keys]

    assert chosen == [delay_of(key, 20 * MINUTE) for key in keys]
    assert all(timedelta(0) <= delay < 20 * MINUTE and not delay.microseconds for delay in chosen)
    assert min(chosen) < MINUTE
    assert max(chosen) > 19 * MINUTE
    assert delay_of("job_1_1770000000", timedelta(seconds=1)) == timedelta(0)


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.words())
def test_every_slot_is_later_by_the_same_delay_and_no_slot_is_lost(base):
    for start in CHANGES:
        delay = timedelta(minutes=7, seconds=12)
        spread, end = Spread(base, 15 * MINUTE, delay), start + 5 * DAY

        expected = [slot + delay for slot in walked(base, start - delay, end - delay)]

        assert walked(spread, start, end) == expected
        assert spread.upcoming(start - TICK, len(expected)) == expected
        assert spread.count_between(start - TICK, end - TICK, 10**6) == len(expected)
        assert spread.latest_at_or_before(end - TICK, start) == expected[-1]


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.words())
def test_forecast_equals_the_slots(base):
    for start in CHANGES:
        spread, end = Spread(base, 15 * MINUTE, timedelta(minutes=7, seconds=12)), start + 5 * DAY
        expected = walked(spread, start, end)
        job = PendingJob(spread, expected[0])

        assert [moment for batch in slots(spread, start, end) for moment in batch.moments()] == expected
        assert [moment for batch in runs_ahead(job, start, end) for moment in batch.moments()] == expected
        assert count_slots(spread, start, end) == len(expected)
        assert sum(count for _, count in per_day(job, start, end, BERLIN).values()) == len(expected)
        assert runs_per_minute(spread) == runs_per_minute(base)


@pytest.mark.parametrize(
    ("base", "spread", "words"),
    [
        (Cron("0 3 * * *"), 20 * MINUTE, "Every day at 03:00, up to 20 minutes later (at 03:07)"),
        (
            Cron("*/15 * * * *"),
            10 * MINUTE,
            "Every 15 minutes, up to 10 minutes later (by 7 minutes 12 seconds)",
        ),
        (
            Interval(5400, START),
            HOUR,
            "Every 90 minutes, up to 1 hour later (by 7 minutes 12 seconds)",
        ),
        (
            CalendarInterval(14, "days", datetime(2027, 3, 2, 8, tzinfo=UTC), BERLIN),
            HOUR,
            "Every 2 weeks on Tuesday at 09:00, starting 2 Mar 2027, up to 1 hour later (at 09:07)",
        ),
    ],
)
def test_words_say_how_much_later_it_runs(base, spread, words):
    assert Spread(base, spread, timedelta(minutes=7, seconds=12)).words() == words
    assert Spread(base, spread, None).words() == words.partition(" (")[0]


def test_job_without_an_id_is_shown_without_a_delay():
    trigger = spread_out(Cron("0 3 * * *"), HOUR, "")

    assert isinstance(trigger, Spread)
    assert trigger.next_after(START) == datetime(2026, 3, 21, 3, tzinfo=UTC)


def test_nothing_is_wrapped_without_a_spread():
    trigger = Cron("0 3 * * *")

    assert spread_out(trigger, timedelta(0), "job_1_1") is trigger


def test_slots_end_with_the_calendar():
    trigger = Spread(Cron("59 23 31 12 *"), DAY, timedelta(hours=12))

    assert trigger.next_after(datetime(9999, 12, 31, 1, tzinfo=UTC)) is None


def test_spread_that_does_not_fit_is_refused():
    for base, spread, reason in [
        (Once(START), MINUTE, "a one-time job runs at its time"),
        (Cron("0 3 * * *"), -MINUTE, "whole seconds"),
        (Cron("0 3 * * *"), timedelta(seconds=1.5), "whole seconds"),
        (Cron("0 3 * * *"), DAY + MINUTE, "Choose at most 1d."),
        (
            Cron("*/15 * * * *"),
            16 * MINUTE,
            "Choose at most 15m, which is the shortest time between two runs.",
        ),
        (Cron("0 9-17 * * *"), 2 * HOUR, "Choose at most 1h,"),
        (Cron("50 23,0 * * *"), 2 * HOUR, "Choose at most 1h,"),
        (Interval(600, START), 11 * MINUTE, "Choose at most 10m,"),
        (CalendarInterval(1, "months", START, BERLIN), 2 * DAY, "Choose at most 1d."),
    ]:
        assert reason in spread_problem(base, spread)


@pytest.mark.parametrize(
    ("base", "spread"),
    [
        (Once(START), timedelta(0)),
        (Cron("0 3 * * *"), DAY),
        (Cron("*/15 * * * *"), 15 * MINUTE),
        (Interval(600, START), 10 * MINUTE),
    ],
)
def test_spread_that_fits_is_accepted(base, spread):
    assert spread_problem(base, spread) == ""
