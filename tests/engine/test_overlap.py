"""The overlap policy: slots that fall due while a run is live, and runs that wait for their predecessor."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine.gaps import Slot
from schedules.engine.overlap import HELD_RUNS, apply_overlap
from schedules.models import Execution, Job
from tests.engine.conftest import NOW, begin, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

Status = Execution.Status


def decide(live: int, *, late: timedelta = timedelta(), **fields: str) -> Slot:
    """Apply the overlap policy of a job with these fields to one slot."""
    job = Job(**{"trigger_type": "cron"} | fields)
    [slot] = apply_overlap(job, [Slot(NOW, Status.CLAIMED)], live, NOW + late)
    return slot


@pytest.mark.parametrize(
    ("overlap", "live", "expected"),
    [
        ("skip", 0, "claimed"),
        ("skip", 1, "skipped"),
        ("queue", 0, "claimed"),
        ("queue", 1, "queued"),
        ("queue", HELD_RUNS, "queued"),
        ("queue", HELD_RUNS + 1, "skipped"),
        ("allow", 0, "claimed"),
        ("allow", 500, "claimed"),
    ],
)
def test_overlap_policy_decides_a_slot_while_runs_are_live(overlap, live, expected):
    slot = decide(live, overlap=overlap)

    assert (slot.status, slot.at) == (expected, NOW)
    assert bool(slot.reason) == (expected != "claimed")


def test_slots_of_one_plan_wait_in_line_up_to_the_limit():
    slots = [Slot(NOW + number * MINUTE, Status.CLAIMED) for number in range(HELD_RUNS + 3)]

    decided = apply_overlap(Job(trigger_type="cron", overlap="queue"), slots, 0, NOW)

    statuses = [slot.status for slot in decided]
    assert statuses == [Status.CLAIMED, *[Status.QUEUED] * HELD_RUNS, *[Status.SKIPPED] * 2]


def test_one_time_job_runs_while_a_manual_run_is_live():
    assert decide(1, trigger_type="once", overlap="skip").status == Status.CLAIMED


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        (timedelta(seconds=5), "The previous run was still running."),
        (timedelta(seconds=6), "The previous run had not been stored yet."),
    ],
)
def test_reason_of_a_skipped_slot_depends_on_how_late_it_is(late, reason):
    assert decide(1, overlap="skip", late=late).reason == reason


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("allow", ["claimed", "claimed", "claimed"]),
        ("queue", ["claimed", "queued", "queued"]),
        # Catch-up runs wait for the previous run; a slot on time is skipped.
        ("skip", ["claimed", "queued", "skipped"]),
    ],
)
def test_catch_up_runs_wait_for_each_other_unless_overlap_is_allowed(overlap, expected):
    job = Job(trigger_type="cron", overlap=overlap)
    causes = [Execution.Cause.CATCH_UP, Execution.Cause.CATCH_UP, Execution.Cause.SCHEDULE]

    slots = apply_overlap(job, [Slot(NOW, Status.CLAIMED, cause) for cause in causes], 0, NOW)

    assert [slot.status.value for slot in slots] == expected


def test_only_the_oldest_waiting_run_is_released(cluster):
    job = JobFactory(overlap="queue", next_run_at=NOW + HOUR)
    started = begin(cluster, job, scheduled_for=NOW - HOUR)
    held = [
        ExecutionFactory(job=job, status="queued", scheduled_for=NOW - minutes * MINUTE, reason="Waits")
        for minutes in (30, 20)
    ]

    engine.settle_runs(cluster.pk, [outcome_of(started)])

    for row in held:
        row.refresh_from_db()
    assert [row.available_at for row in held] == [NOW, None]
    assert [row.reason for row in held] == ["", "Waits"]


@pytest.mark.parametrize("busy", ["running", "claimed", "waiting"])
def test_waiting_run_waits_for_all_live_runs(cluster, busy):
    job = JobFactory(overlap="queue")
    ExecutionFactory(job=job, status=busy, cause="manual", attempt=1)
    held = ExecutionFactory(job=job, status="queued")

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job, scheduled_for=NOW - HOUR))])

    held.refresh_from_db()
    assert held.available_at is None


def test_waiting_run_waits_for_the_next_attempt_of_its_predecessor(cluster):
    job = JobFactory(overlap="queue", attempts=2)
    started = begin(cluster, job, scheduled_for=NOW - HOUR)
    held = ExecutionFactory(job=job, status="queued")

    engine.settle_runs(cluster.pk, [outcome_of(started, "failed", retry_at=NOW + MINUTE)])

    held.refresh_from_db()
    assert held.available_at is None
