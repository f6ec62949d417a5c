"""Calendars in the claim: what fires is what a forecast says, and each closed slot has its row."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from schedules import engine, services
from schedules.models import Execution, Job
from schedules.models.jobs import skips_of
from schedules.services import Actor
from schedules.services.people.calendars import CalendarSpec, set_calendar
from schedules.when.forecast import PendingJob, runs_ahead
from schedules.when.triggers import Interval
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

BERLIN = "Europe/Berlin"
STARTS = [
    datetime(2026, 12, 22, 5, tzinfo=UTC),
    datetime(2026, 3, 27, 5, tzinfo=UTC),
    datetime(2026, 10, 23, tzinfo=UTC),
]
SPECS = [
    CalendarSpec("holidays", "holidays", "DE-BY"),
    CalendarSpec("night", "hours", lines=["daily 22:00-02:30"]),
    CalendarSpec("office", "hours", lines=["mon-fri 08:00-18:00"], closes=False),
]
MOVES = ["skip", "next", "previous"]
SCHEDULES = ["30 2 * * *", "0 */6 * * *", "0 9,23 * * *"]


@pytest.fixture
def user(db):
    return UserFactory()


def claimed(cluster, moment):
    engine.claim_runs(cluster.pk, moment, 10)
    Execution.objects.live().update(status="succeeded", finished_at=moment, lease_until=None)


# Each move with each start and with each calendar, but not every one of their combinations.
COMBINATIONS = [
    (start, calendars, MOVES[(place + number) % len(MOVES)])
    for place, start in enumerate(STARTS)
    for number, calendars in enumerate(
        [["holidays"], ["night"], ["holidays", "office"], ["night", "holidays"]]
    )
]


@pytest.mark.parametrize(("start", "calendars", "move"), COMBINATIONS)
def test_what_fires_is_what_the_forecast_says(user, cluster, start, calendars, move):
    actor, days = Actor(user), timedelta(days=6)
    with time_machine.travel(start, tick=False):
        for spec in SPECS:
            set_calendar(actor, spec)
        jobs = [
            services.schedule(
                actor,
                name=cron,
                task="prompt",
                kwargs={"prompt": "x"},
                trigger_type="cron",
                cron=cron,
                timezone=BERLIN,
                calendars=calendars,
                on_closed=move,
            ).value.job
            for cron in SCHEDULES
        ]
    expected = {
        job.pk: [
            moment
            for batch in runs_ahead(
                PendingJob(job.trigger, job.next_run_at, skips=skips_of(job)), start, start + days
            )
            for moment in batch.moments()
        ]
        for job in jobs
    }

    while (due := engine.wake_up_at(start)) and due < start + days:
        claimed(cluster, due)

    for job in jobs:
        rows = Execution.objects.filter(job=job).order_by("scheduled_for")
        fired = [row.scheduled_for for row in rows if row.status == "succeeded"]
        assert fired == expected[job.pk]
        closed = [row for row in rows if row.status == "skipped"]
        assert all(row.reason.startswith(("Closed", "Outside")) for row in closed)
        assert bool(closed) <= (move == "skip")
        job.refresh_from_db()
        assert job.run_count == len(fired)


def test_closed_slot_is_a_row_with_the_holiday_and_its_calendar(user, cluster):
    with time_machine.travel(datetime(2026, 8, 14, 12, tzinfo=UTC), tick=False):
        set_calendar(Actor(user), CalendarSpec("DE-BY catholic", "holidays", "DE-BY", ["public", "catholic"]))
        services.schedule(
            Actor(user),
            name="x",
            task="prompt",
            kwargs={"prompt": "x"},
            trigger_type="cron",
            cron="0 9 * * *",
            timezone=BERLIN,
            calendars=["DE-BY catholic"],
        )

    claimed(cluster, datetime(2026, 8, 15, 7, tzinfo=UTC))
    claimed(cluster, datetime(2026, 8, 16, 7, tzinfo=UTC))

    rows = Execution.objects.order_by("scheduled_for").values_list("status", "reason")
    assert list(rows) == [("skipped", "Closed: Assumption Day, calendar DE-BY catholic."), ("succeeded", "")]


def test_jobs_without_calendars_cost_no_further_query(user, cluster, django_assert_num_queries):
    now = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    with time_machine.travel(now, tick=False):
        set_calendar(Actor(user), SPECS[1])
        common = {
            "task": "prompt",
            "kwargs": {"prompt": "x"},
            "trigger_type": "interval",
            "every": timedelta(hours=1),
        }
        plain = services.schedule(Actor(user), name="plain", **common).value.job
    assert isinstance(plain.trigger, Interval)
    with time_machine.travel(now, tick=False), django_assert_num_queries(0):
        assert skips_of(plain) is None
        assert plain.next_slot(now)


def test_calendars_are_read_once_for_all_their_jobs(user, cluster, django_assert_num_queries):
    now = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    with time_machine.travel(now, tick=False):
        set_calendar(Actor(user), SPECS[1])
        common = {
            "task": "prompt",
            "kwargs": {"prompt": "x"},
            "trigger_type": "interval",
            "every": timedelta(hours=1),
        }
        for number in range(3):
            services.schedule(Actor(user), name=f"{number}", calendars=["night"], **common)
    jobs = list(Job.objects.all())
    skips_of(jobs[0])

    with django_assert_num_queries(0):
        assert all(skips_of(job).closed is skips_of(jobs[0]).closed for job in jobs)
