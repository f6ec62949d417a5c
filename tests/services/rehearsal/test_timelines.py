"""What a rehearsal says about a week is what the engine then does, with the clocks going back in it."""

import heapq
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from schedules import engine, services
from schedules.engine import Outcome
from schedules.models import Execution, Job
from schedules.result import Ok
from schedules.services import Actor
from schedules.services.people.calendars import CalendarSpec, set_calendar
from schedules.services.rehearsal.rehearsal import Rehearsal, read_due_jobs, rehearse
from schedules.services.rehearsal.timelines import (
    NO_WORKER_THEN,
    Budget,
    Past,
    Period,
    timeline_after,
    timeline_of,
)
from tests.engine.conftest import new_cluster
from tests.factories import JobFactory, UserFactory

pytestmark = pytest.mark.django_db

Status = Execution.Status
BERLIN = "Europe/Berlin"
# On the 25th, clocks go back; on the 1st of November the calendar closes the day.
START = datetime(2026, 10, 24, 20, 30, tzinfo=UTC)
END = START + timedelta(days=8)
HOUR = timedelta(hours=1)
# How long the runs of each job take, by name; the others are over at once.
TOOK = {"long": 2 * HOUR, "in line": 95 * timedelta(minutes=1), "limited": 5 * HOUR, "first": 0.5 * HOUR}
JOBS = {
    "every night": {"cron": "30 2 * * *"},
    "every hour": {"cron": "0 * * * *"},
    "workdays": {"cron": "15 8,17 * * 1-5"},
    "long": {"cron": "", "trigger_type": "interval", "every": 1.5 * HOUR},
    "in line": {"cron": "", "trigger_type": "interval", "every": HOUR, "overlap": "queue"},
    "limited": {"cron": "30 */2 * * *", "max_runs": 7},
    "ends": {"cron": "0 12 * * *", "ends_at": START + timedelta(days=4)},
    "three times": {"cron": "0 6 * * *", "max_runs": 3},
    "spread out": {"cron": "0 4 * * *", "spread": HOUR},
    "closed": {"cron": "0 9,13 * * *", "calendars": ["holidays"]},
    "moved": {"cron": "0 2,10 * * *", "calendars": ["night", "holidays"], "on_closed": "next"},
    "first": {"cron": "45 5 * * *"},
    "once": {"cron": "", "trigger_type": "once", "run_at": START + timedelta(days=2)},
}


@pytest.fixture
def actor(db):
    return Actor(UserFactory())


@pytest.fixture
def jobs(actor) -> dict[str, Job]:
    with time_machine.travel(START, tick=False):
        for spec in (
            CalendarSpec("holidays", "holidays", "DE-BY"),
            CalendarSpec("night", "hours", lines=["daily 22:00-02:30"]),
        ):
            assert isinstance(set_calendar(actor, spec), Ok)
        made = {
            name: services.schedule(
                actor,
                **{"name": name, "task": "tests.ping", "trigger_type": "cron", "timezone": BERLIN} | columns,
            ).value.job
            for name, columns in JOBS.items()
        }
        after = f"@after {made['first'].public_id} succeeded 600"
        made["follower"] = services.schedule(
            actor, name="follower", task="tests.ping", trigger_type="cron", cron=after, timezone=BERLIN
        ).value.job
    Job.objects.filter(name="every hour").update(next_run_at=START - 3 * HOUR)
    Job.objects.filter(name="every night").update(skips="2026-10-27 2026-10-29T01:30:00Z")
    for name, took in TOOK.items():
        Job.objects.filter(name=name).update(last_duration=took)
    return made


def run_engine(cluster, end: datetime) -> None:
    """Step the clock from one moment to the next at which anything is due or ends, until the end."""
    now, under_way = START, []
    while True:
        due = [engine.wake_up_at(now), under_way[0][0] if under_way else None]
        now = max(now, min(moment for moment in due if moment))
        if now >= end:
            return
        while under_way and under_way[0][0] <= now:
            ended_at, _, run = heapq.heappop(under_way)
            outcome = Outcome(run.execution_id, run.attempt, run.job_id, Status.SUCCEEDED, ended_at)
            engine.settle_runs(cluster.pk, [outcome])
        claims = engine.claim_runs(cluster.pk, now, 100)
        if not claims:
            continue
        for run in engine.start_runs(cluster.pk, 0, [claim.execution_id for claim in claims], now):
            ends_at = now + TOOK.get(run.job_name, timedelta(0))
            heapq.heappush(under_way, (ends_at, run.execution_id, run))


def as_told(told: Rehearsal, names) -> dict[str, tuple[int, dict[str, int]]]:
    lines = {line.name: line for line in told.lines}
    return {
        name: (lines[name].count, {each.reason: each.count for each in lines[name].left_out})
        for name in names
        if name in lines
    }


def as_done() -> dict[str, tuple[int, dict[str, int]]]:
    started: dict[str, int] = defaultdict(int)
    left_out: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in Execution.objects.filter(scheduled_for__lt=END):
        if row.status in (Status.SKIPPED, Status.MISSED):
            left_out[row.job_name][row.reason] += row.slots
        else:
            started[row.job_name] += 1
    return {name: (started[name], dict(left_out[name])) for name in {*started, *left_out}}


def slots_done(name: str) -> list[datetime]:
    rows = Execution.objects.filter(job_name=name, scheduled_for__lt=END)
    rows = rows.exclude(status__in=(Status.SKIPPED, Status.MISSED))
    return list(rows.order_by("scheduled_for").values_list("scheduled_for", flat=True))


def test_rehearsal_of_a_week_is_what_the_engine_then_does(actor, jobs):
    told = rehearse(actor, START, end=END).value
    period = Period(START, START, END)
    timelines = {
        name: timeline_of(row, period, Past(TOOK.get(name)), Budget())
        for name, row in rows_by_name(actor).items()
        if name != "follower"
    }

    run_engine(new_cluster(started_at=START, last_seen_at=START, probe_returned_at=START), END)

    done = as_done()
    # Why no worker claimed a slot in time is what the cluster finds out then.
    assert sum(done["every hour"][1].values()) == 3
    assert as_told(told, ["every hour"])["every hour"] == (done["every hour"][0], {NO_WORKER_THEN: 3})
    done["every hour"] = as_told(told, ["every hour"])["every hour"]
    assert as_told(told, done) == done
    for name, timeline in timelines.items():
        assert list(timeline.moments()) == slots_done(name), name


def rows_by_name(actor):
    return {row.name: row for row in read_due_jobs(actor.jobs().armed())}


def test_jobs_that_run_too_often_are_counted_without_overlaps(actor):
    job = JobFactory(owner=actor.user, interval=True, every=timedelta(minutes=1), next_run_at=START + HOUR)
    row = rows_by_name(actor)[job.name]
    period = Period(START, START, START + 7 * 24 * HOUR)

    timeline = timeline_of(row, period, Past(HOUR), Budget(100))

    assert timeline.is_unchecked
    assert timeline.count == 7 * 24 * 60 - 60
    assert not timeline.left_out


def test_followers_of_jobs_that_run_too_often_are_counted_and_not_decided(actor):
    often = JobFactory(owner=actor.user, interval=True, every=timedelta(minutes=1), next_run_at=START + HOUR)
    services.schedule(
        actor,
        name="next",
        task="tests.ping",
        trigger_type="cron",
        cron=f"@after {often.public_id} succeeded 60",
    )
    period = Period(START, START, START + 7 * 24 * HOUR)
    rows = rows_by_name(actor)
    first = timeline_of(rows[often.name], period, Past(), Budget())

    timeline = timeline_after(rows["next"], first, HOUR, period, Past(HOUR), Budget(100))

    assert timeline.is_unchecked
    assert (timeline.count, len(timeline.starts)) == (7 * 24 * 60 - 2 * 60, len(first.starts))
    assert timeline.first == START + 2 * HOUR
    assert max(timeline.moments()) < period.end


def test_chains_after_a_job_of_every_second_are_bounded(actor):
    above = JobFactory(owner=actor.user, interval=True, every=timedelta(seconds=1), next_run_at=START)
    for number in range(5):
        after = f"@after {above.public_id} succeeded 0"
        made = services.schedule(
            actor, name=f"next {number}", task="tests.ping", trigger_type="cron", cron=after
        )
        above = made.value.job
    with time_machine.travel(START, tick=False):
        told = rehearse(actor, START, end=START + timedelta(days=31)).value

    assert [line.count for line in told.lines] == [31 * 86_400] * 6
    assert told.unchecked == 5
