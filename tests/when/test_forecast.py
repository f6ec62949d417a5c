"""The forecast counts runs by the day; it must equal walking `next_after` run by run."""

import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.when.forecast import Bucket, PendingJob, fill, per_day, runs_ahead
from schedules.when.skips import Skips
from schedules.when.slot_batches import Batch, count_slots, runs_per_minute, slots
from schedules.when.triggers import Cron, Interval, Once, Trigger, load_zone
from schedules.when.zones import Change, clock_changes

START = datetime(2026, 11, 15, 10, 7, 30, tzinfo=UTC)
LATER = START + timedelta(days=16)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
SCHEDULES = [
    "* * * * *",
    "*/15 * * * *",
    "*/7 3-9 * * *",
    "0 9 * * 1-5",
    "5,6,50 */2 * * *",
    "30 2 1,15 * *",
    "@hourly",
    "0 17 * * 5L",
]
FIXED = ["30 2 * * *", "0,15,30 0-3 * * *", "59 23 * * *", "5 0,1,2,3 * * 0,6", "0 1-23/2 28-31 * *"]
WILDCARD = ["*/20 * * * *", "*/15 2 * * *", "0 * * * *", "45 */3 * * *", "*/30 0-1,23 * * 0"]


def armed(trigger: Trigger, **limits) -> PendingJob:
    first = trigger.next_after(START)
    assert first is not None
    return PendingJob(trigger, first, **limits)


def walked(trigger: Trigger, start: datetime, end: datetime) -> list[datetime]:
    """List the slots from start until before end, by calling `next_after` repeatedly."""
    found, slot = [], trigger.next_after(start - TICK)
    while slot is not None and slot < end:
        found.append(slot)
        slot = trigger.next_after(slot)
    return found


def moments(batches) -> list[datetime]:
    return [moment for batch in batches for moment in batch.moments()]


def local(runs: list[datetime], zone: str) -> list[str]:
    return [f"{run.astimezone(ZoneInfo(zone)):%H:%M}" for run in runs]


def in_berlin(expression: str, day: str) -> list[str]:
    zone = "Europe/Berlin"
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    return local(moments(slots(Cron(expression, zone), start, start + DAY)), zone)


def test_skipped_local_time_is_forecast_at_the_end_of_the_gap():
    assert in_berlin("30 2 * * *", "2026-03-29") == ["03:00"]


def test_wildcard_schedule_within_a_skipped_hour_has_no_run():
    assert in_berlin("*/15 2 * * *", "2026-03-29") == []


def test_hourly_schedule_has_a_run_in_both_passes_of_a_repeated_hour():
    hours = in_berlin("0 * * * *", "2026-10-25")

    assert len(hours) == 25
    assert hours[:5] == ["00:00", "01:00", "02:00", "02:00", "03:00"]


@cache
def zones_by_changes() -> dict[tuple[Change, ...], list[str]]:
    """Group all zones that change their clocks in 2026 or 2027 by these changes."""
    first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
    found: dict[tuple[Change, ...], list[str]] = {}
    for name in sorted(available_timezones() - {"Factory", "localtime"}):
        zone = load_zone(name)
        # Most zones never change their clocks; none changes them twice within a week.
        if (
            len({(first + week * timedelta(weeks=1)).astimezone(zone).utcoffset() for week in range(106)})
            == 1
        ):
            continue
        if changes := tuple(clock_changes(zone, first, last)):
            found.setdefault(changes, []).append(name)
    return found


@pytest.mark.parametrize("expression", FIXED + WILDCARD)
def test_forecast_equals_next_after_at_every_clock_change_of_two_years(expression: str):
    differences = []
    for changes, names in zones_by_changes().items():
        trigger = Cron(expression, names[0])
        for change in changes:
            start, end = change.at - 4 * HOUR, change.at + 26 * HOUR
            if moments(slots(trigger, start, end)) != walked(trigger, start, end):
                differences.append((names[0], change))

    assert len(zones_by_changes()) > 10
    assert differences == []


@settings(max_examples=120)
@given(
    expression=st.sampled_from(SCHEDULES + FIXED + WILDCARD),
    changes=st.deferred(lambda: st.sampled_from(list(zones_by_changes()))),
    viewer=st.sampled_from(["UTC", "America/Havana", "Asia/Kathmandu", "Africa/Cairo", "America/Nuuk"]),
    data=st.data(),
)
def test_any_window_near_a_clock_change_equals_next_after(expression, changes, viewer, data):
    trigger = Cron(expression, data.draw(st.sampled_from(zones_by_changes()[changes])))
    near = data.draw(st.timedeltas(-3 * HOUR, 3 * HOUR))
    start = data.draw(st.sampled_from(changes)).at + near
    end = start + data.draw(st.timedeltas(timedelta(0), 6 * HOUR))
    expected = walked(trigger, start, end)

    assert moments(slots(trigger, start, end)) == expected
    assert_days_hold(
        per_day(
            PendingJob(trigger, expected[0]) if expected else PendingJob(trigger, end), start, end, viewer
        ),
        expected,
        viewer,
    )


def assert_days_hold(days, expected: list[datetime], zone: str) -> None:
    dates = [run.astimezone(ZoneInfo(zone)).date() for run in expected]
    assert {day: count for day, (_, count) in days.items()} == Counter(dates)
    firsts = dict(zip(reversed(dates), reversed(expected), strict=True))
    assert {day: first for day, (first, _) in days.items()} == firsts


@pytest.mark.parametrize("seconds", [7, 45 * 60, 5 * 3600, 2 * 86_400])
def test_forecast_of_an_interval_equals_next_after(seconds: int):
    trigger = Interval(seconds, START + timedelta(minutes=1, microseconds=7))

    assert moments(runs_ahead(armed(trigger), START, START + DAY)) == walked(trigger, START, START + DAY)


@pytest.mark.parametrize("trigger", [Cron("* * * * *", "Europe/Berlin"), Interval(1, START)])
def test_frequent_job_is_not_walked_run_by_run(trigger: Trigger, monkeypatch: pytest.MonkeyPatch):
    asked = []
    ask = type(trigger).next_after
    monkeypatch.setattr(
        type(trigger), "next_after", lambda self, moment: asked.append(moment) or ask(self, moment)
    )

    batches = list(slots(trigger, START, START + 400 * DAY))

    assert sum(map(len, batches)) >= 400 * 1440
    assert len(batches) <= 405
    assert len(asked) <= 1


def test_next_run_that_is_off_the_grid_is_kept():
    trigger = Interval(3600, START)
    odd = START + timedelta(minutes=5)

    assert moments(runs_ahead(PendingJob(trigger, odd), START, START + 3 * HOUR)) == [
        odd,
        START + HOUR,
        START + 2 * HOUR,
    ]


def test_run_at_the_end_of_the_job_counts_and_later_ones_do_not():
    trigger = Cron("0 * * * *")
    last = datetime(2026, 11, 15, 12, tzinfo=UTC)

    runs = moments(runs_ahead(armed(trigger, ends_at=last), START, START + DAY))

    assert runs == [last - HOUR, last]


def test_forecast_ends_with_the_runs_left():
    job = armed(Cron("*/10 * * * *"), runs_left=2)

    assert len(moments(runs_ahead(job, START, START + DAY))) == 2


def test_later_window_contains_only_its_own_runs():
    for trigger, limits in [
        (Cron("30 10 * * 3"), {}),
        (Cron("*/7 3-9 * * *"), {}),
        (Cron("0 9 * * *"), {"runs_left": 3}),
        (Cron("0 9 * * *"), {"runs_left": 19}),
        (Cron("*/10 * * * *"), {"runs_left": 2400}),
        (Cron("0 9 * * *"), {"ends_at": LATER + DAY}),
        (Interval(7 * 86_400, START + DAY), {}),
        (Interval(86_400, START), {"runs_left": 18}),
        (Once(START + DAY), {}),
        (Once(LATER + DAY), {}),
    ]:
        job = armed(trigger, **limits)
        end = LATER + 10 * DAY

        runs = moments(runs_ahead(job, START, end, start=LATER))

        every = walked(trigger, job.next_run_at, min(job.ends_at or end, end))[: job.runs_left]
        expected = [slot for slot in every if slot >= LATER]
        assert runs == expected
        assert_days_hold(per_day(job, START, end, "UTC", start=LATER), expected, "UTC")


def test_overdue_run_counts_as_one_of_the_runs_left():
    job = PendingJob(Cron("0 * * * *"), START - DAY, runs_left=3)

    assert len(moments(runs_ahead(job, START, START + DAY))) == 2


@pytest.mark.parametrize("overdue", [timedelta(0), DAY])
def test_skipped_runs_before_a_later_start_are_not_counted(overdue):
    trigger, start = Cron("0 12 * * *", "UTC"), START + 2 * DAY
    first = trigger.next_after(START - overdue)
    job = PendingJob(trigger, first, None, 3, Skips(frozenset({f"{first:%Y-%m-%d}"}), "UTC"))

    every = moments(runs_ahead(job, START, START + 30 * DAY))

    assert len(every) == 3
    assert moments(runs_ahead(job, START, START + 30 * DAY, start=start)) == [
        run for run in every if run >= start
    ]


def test_runs_left_are_counted_for_a_year_and_no_further():
    job = armed(Cron("* * * * *"), runs_left=2_000_000_000)

    assert per_day(job, START, START + 400 * DAY, "UTC", start=START + 398 * DAY)
    assert not per_day(job, START, START + 9000 * DAY, "UTC", start=START + 8998 * DAY)


def test_overdue_one_time_job_runs_now():
    job = PendingJob(Once(START - DAY), START - DAY)

    assert moments(runs_ahead(job, START, START + DAY)) == [START]
    assert moments(runs_ahead(job, START, START + DAY, start=START + HOUR)) == []


def test_job_whose_next_run_is_later_than_the_window_has_no_runs():
    assert list(runs_ahead(PendingJob(Cron("* * * * *"), START + DAY), START, START + DAY)) == []


def test_buckets_hold_every_run():
    job, width = armed(Cron("*/4 * * * *")), timedelta(minutes=15)
    buckets = [Bucket(START + place * width) for place in range(96)]

    fill(buckets, "Job", runs_ahead(job, START, START + 2 * DAY), width)

    runs = walked(job.trigger, START, START + DAY)
    expected = [sum(bucket.start <= run < bucket.start + width for run in runs) for bucket in buckets]
    assert [bucket.count for bucket in buckets] == expected
    assert sum(bucket.jobs["Job"] for bucket in buckets) == len(runs)


@pytest.mark.parametrize("expression", SCHEDULES)
def test_days_hold_every_run(expression: str):
    for viewer in ["UTC", "Asia/Kathmandu", "America/Havana"]:
        trigger = Cron(expression, "America/New_York")
        end = START + (3 if expression == "* * * * *" else 20) * DAY

        assert_days_hold(per_day(armed(trigger), START, end, viewer), walked(trigger, START, end), viewer)


@pytest.mark.parametrize(("day", "count"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)])
def test_day_of_a_clock_change_has_its_own_number_of_hours(day: str, count: int):
    zone = "Europe/Berlin"
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))

    days = per_day(PendingJob(Cron("0 * * * *"), start), start, start + DAY, zone)

    assert days == {start.date(): (start, count)}


def test_batch_splits_at_a_fraction_of_a_second():
    batch = Batch(START, range(0, 10, 2))

    before, after = batch.split(START + timedelta(seconds=4, microseconds=1))

    assert (list(before.seconds), list(after.seconds)) == ([0, 2, 4], [6, 8])
    assert list(batch.between(before.last, after.last).seconds) == [4, 6]


@pytest.mark.parametrize("expression", [*SCHEDULES, *FIXED, *WILDCARD])
def test_counted_slots_are_those_that_are_listed(expression: str):
    for zone in ["UTC", "Europe/Berlin", "Australia/Lord_Howe"]:
        trigger = Cron(expression, zone)
        for start, length in [
            (START, 170 * DAY),
            (START, HOUR),
            (START, 30 * HOUR),
            (START + 130 * DAY, 2 * DAY),
        ]:
            assert count_slots(trigger, start, start + length) == sum(
                map(len, slots(trigger, start, start + length))
            )


@pytest.mark.parametrize("expression", ["*/30 * * * *", "30 2 * * 1-5", "0 */5 1-20 * *"])
def test_runs_left_are_counted_up_to_a_later_start(expression: str):
    for left in [1, 5, 40, 400, 10_000]:
        job = armed(Cron(expression, "Europe/Berlin"), runs_left=left)
        start, end = START + 100 * DAY, START + 140 * DAY
        allowed = walked(job.trigger, START, end)[:left]

        assert moments(runs_ahead(job, START, end, start=start)) == [run for run in allowed if run >= start]


def test_runs_left_of_a_frequent_job_are_counted_without_going_through_its_days():
    job = armed(Cron("* * * * *", "Europe/Berlin"), runs_left=10**9)
    per_day(job, START, START + 395 * DAY, "UTC", start=START + 390 * DAY)
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(count)
    try:
        per_day(job, START, START + 396 * DAY, "UTC", start=START + 390 * DAY)
    finally:
        sys.setprofile(None)

    # A step for each of the 390 days would be thousands.
    assert steps < 500


@pytest.mark.parametrize(
    ("trigger", "rate"),
    [
        (Interval(1, START), 60),
        (Interval(90, START), 60 / 90),
        (Cron("* * * * *"), 1),
        (Cron("*/15 9-16 * * 1-5"), 32 / 1440),
        (Cron("@daily"), 1 / 1440),
        (Once(START), 0),
    ],
)
def test_runs_per_minute_are_those_of_a_day_with_runs(trigger: Trigger, rate: float):
    assert runs_per_minute(trigger) == pytest.approx(rate)


def test_days_that_are_left_out_have_no_runs():
    now, end = datetime(2026, 12, 23, tzinfo=UTC), datetime(2026, 12, 27, tzinfo=UTC)
    trigger = Cron("0 9,18 * * *", "UTC")
    job = PendingJob(
        trigger,
        datetime(2026, 12, 23, 9, tzinfo=UTC),
        skips=Skips(frozenset({"2026-12-24", "2026-12-25T09:00:00Z"}), "UTC"),
    )

    runs = [moment for batch in runs_ahead(job, now, end) for moment in batch.moments()]

    assert [f"{moment:%d %H}" for moment in runs] == ["23 09", "23 18", "25 18", "26 09", "26 18"]
    assert {day.day: count for day, (_, count) in per_day(job, now, end, "UTC").items()} == {
        23: 2,
        25: 1,
        26: 2,
    }
