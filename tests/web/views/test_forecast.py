"""Counting runs by the hour must come to what walking them one by one comes to."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from schedules.models import Job
from schedules.web.views.forecast import Ahead, Bucket, bursts, fill, per_day
from tests.factories import JobFactory

START = datetime(2026, 11, 15, 10, 7, 30, tzinfo=UTC)
DAY = timedelta(days=1)
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


def job_of(**columns: object) -> Job:
    job: Job = JobFactory.build(owner=None, **columns)
    if "next_run_at" not in columns:
        job.next_run_at = job.trigger.next_after(START)
    return job


def walked(job: Job, end: datetime) -> list[datetime]:
    slots, slot = [], job.next_run_at
    while slot and slot < end:
        slots.append(slot)
        slot = job.trigger.next_after(slot)
    return slots


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"])
@pytest.mark.parametrize("cron", SCHEDULES)
def test_bursts_are_the_runs_of_a_cron_job(cron: str, zone: str):
    job = job_of(cron=cron, timezone=zone)
    end = START + 3 * DAY

    counted = [moment for burst in bursts(job, START, end) for moment in burst.moments()]

    assert [moment for moment in counted if moment < end] == walked(job, end)


@pytest.mark.parametrize("cron", ["0 * * * *", "*/15 * * * *", "0 2,3 * * *"])
def test_hour_that_clocks_skip_is_not_counted_twice(cron: str):
    eve = datetime(2027, 3, 27, 12, 5, tzinfo=UTC)
    job = job_of(cron=cron, timezone="Europe/Berlin")
    job.next_run_at = job.trigger.next_after(eve)

    counted = [moment for burst in bursts(job, eve, eve + DAY) for moment in burst.moments()]

    assert counted == walked(job, eve + DAY)


@pytest.mark.parametrize(
    "every", [timedelta(seconds=7), timedelta(minutes=45), timedelta(hours=5), timedelta(days=2)]
)
def test_bursts_are_the_runs_of_an_interval(every: timedelta):
    first = START + timedelta(minutes=1)
    job = job_of(trigger_type="interval", cron="", every=every, anchor_at=first, next_run_at=first)
    end = START + DAY

    counted = [moment for burst in bursts(job, START, end) for moment in burst.moments()]

    assert counted == walked(job, end)


def test_bursts_end_with_the_job():
    ending = job_of(cron="0 * * * *", ends_at=START + timedelta(hours=2))
    few = job_of(cron="*/10 * * * *", max_runs=5, slot_count=3)

    assert sum(burst.count for burst in bursts(ending, START, START + DAY)) == 2
    assert sum(burst.count for burst in bursts(few, START, START + DAY)) == 2


LATER = START + 16 * DAY


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"cron": "30 10 * * 3"}, id="weekly"),
        pytest.param({"cron": "*/7 3-9 * * *"}, id="busy"),
        pytest.param({"cron": "0 9 * * *", "max_runs": 3}, id="few, all before"),
        pytest.param({"cron": "0 9 * * *", "max_runs": 20, "slot_count": 1}, id="few, some before"),
        pytest.param({"cron": "*/10 * * * *", "max_runs": 2400}, id="many, some before"),
        pytest.param({"cron": "0 9 * * *", "ends_at": LATER + DAY}, id="ending"),
        pytest.param(
            {"trigger_type": "interval", "cron": "", "every": 7 * DAY, "anchor_at": START + DAY},
            id="interval",
        ),
        pytest.param(
            {"trigger_type": "interval", "cron": "", "every": DAY, "anchor_at": START, "max_runs": 18},
            id="interval of few",
        ),
        pytest.param({"trigger_type": "once", "cron": "", "run_at": START + DAY}, id="once, before"),
        pytest.param({"trigger_type": "once", "cron": "", "run_at": LATER + DAY}, id="once, in it"),
    ],
)
def test_window_that_starts_later_holds_the_runs_that_fall_into_it(columns: dict[str, object]):
    job = job_of(**columns)
    end = LATER + 10 * DAY

    counted = [moment for burst in bursts(job, START, end, start=LATER) for moment in burst.moments()]
    days = per_day(job, START, end, "UTC", start=LATER)

    left = job.max_runs - job.slot_count if job.max_runs else None
    expected = [slot for slot in walked(job, job.ends_at or end)[:left] if slot >= LATER]
    assert counted == expected
    assert sum(count for _, count in days.values()) == len(expected)
    assert {day: first for day, (first, _) in days.items()} == {
        slot.date(): slot for slot in reversed(expected)
    }


def test_overdue_run_takes_one_of_those_left():
    job = job_of(cron="0 * * * *", max_runs=3, next_run_at=START - DAY)

    assert sum(burst.count for burst in bursts(job, START, START + DAY)) == 2


def test_runs_left_are_counted_for_a_year_and_no_further():
    job = job_of(cron="* * * * *", max_runs=2_000_000_000)

    assert per_day(job, START, START + 400 * DAY, "UTC", start=START + 398 * DAY)
    assert not per_day(job, START, START + 9000 * DAY, "UTC", start=START + 8998 * DAY)


def test_overdue_run_counts_from_now_on():
    job = job_of(trigger_type="once", cron="", run_at=START - DAY, next_run_at=START - DAY)

    assert [burst.first for burst in bursts(job, START, START + DAY)] == [START]


def test_broken_job_has_no_runs():
    job = job_of(cron="nonsense", next_run_at=START)

    assert list(bursts(job, START, START + DAY)) == []


def test_buckets_hold_every_run():
    job = job_of(cron="*/4 * * * *")
    buckets = [Bucket(START + place * Ahead.QUARTER) for place in range(96)]

    fill(buckets, job.name, list(bursts(job, START, START + DAY)), Ahead.QUARTER)

    slots = walked(job, START + DAY)
    expected = [
        sum(bucket.start <= slot < bucket.start + Ahead.QUARTER for slot in slots) for bucket in buckets
    ]
    assert [bucket.count for bucket in buckets] == expected


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("cron", SCHEDULES)
def test_days_hold_every_run(cron: str, zone: str):
    job = job_of(cron=cron, timezone="America/New_York")
    end = START + 20 * DAY

    days = per_day(job, START, end, zone)

    slots = walked(job, end)
    assert sum(count for _, count in days.values()) == len(slots)
    assert {day: first for day, (first, _) in days.items()} == {
        slot.astimezone(ZoneInfo(zone)).date(): slot for slot in reversed(slots)
    }


def test_drumming_job_is_told_apart(owner: object):
    JobFactory(owner=owner, name="Drum", cron="* * * * *", next_run_at=START)
    JobFactory(
        owner=owner, name="Rare", cron="0 12 * * *", next_run_at=START.replace(hour=12, minute=0, second=0)
    )

    ahead = Ahead.of(Job.objects.all(), START, "UTC")

    assert list(ahead.dense) == ["Drum"]
    assert sum(bucket.count for bucket in ahead.buckets) == 1
    assert ahead.words.startswith("1,44")
    assert ahead.words.endswith("of them by Drum")
