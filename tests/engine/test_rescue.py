"""What is tidied in passing."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine import pauses
from schedules.models import FRESH_FOR, Cluster, Event, Execution, Job
from tests.engine.conftest import LEASE, NOW, begin, ledger, new_cluster
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


# Waking up


def test_wakes_for_the_earliest_of_jobs_and_queued_runs():
    assert engine.wake_up_at(NOW) is None
    JobFactory(next_run_at=NOW + HOUR)
    assert engine.wake_up_at(NOW) == NOW + HOUR
    job = JobFactory(paused=True)
    ExecutionFactory(job=job, status="queued", available_at=NOW)
    ExecutionFactory(job=job, status="queued", scheduled_for=NOW)
    assert engine.wake_up_at(NOW) == NOW
    assert engine.wake_up_at(NOW, exclude_tasks=["tests.ping"]) is None


def test_trash_wakes_nobody():
    JobFactory(next_run_at=NOW, deleted_at=NOW)

    assert engine.wake_up_at(NOW) is None


# Dead workers and leases


def test_silent_cluster_is_given_up_and_its_claims_are_free():
    dead = new_cluster(last_seen_at=NOW - FRESH_FOR - SECOND)
    alive = new_cluster(last_seen_at=NOW)
    rows = [
        ExecutionFactory(status="claimed", cluster=cluster, lease_until=NOW + LEASE)
        for cluster in (dead, alive)
    ]

    engine.sweep(NOW)

    for row in rows:
        row.refresh_from_db()
    assert [row.status for row in rows] == ["queued", "claimed"]
    assert Cluster.objects.get(stopped_at=dead.last_seen_at).pk == dead.pk
    assert Cluster.objects.get(stopped_at=None) == alive


def test_many_dead_clusters_are_all_given_up_in_time(django_assert_max_num_queries):
    for _ in range(25):
        new_cluster(last_seen_at=NOW - HOUR)

    for _ in range(3):
        engine.sweep(NOW)

    assert not Cluster.objects.filter(stopped_at=None).exists()
    with django_assert_max_num_queries(20):
        engine.sweep(NOW)


@pytest.mark.parametrize(
    ("status", "lease_until", "expected"),
    [
        ("claimed", NOW - SECOND, "queued"),
        ("claimed", NOW, "claimed"),
        ("running", NOW - SECOND, "queued"),
        ("running", NOW, "running"),
        ("waiting", NOW - SECOND, "waiting"),
    ],
)
def test_lease_that_ran_out_frees_the_run(cluster, status, lease_until, expected):
    row = ExecutionFactory(
        status=status,
        cluster=cluster,
        lease_until=lease_until,
        scheduled_for=NOW,
        attempt=int(status != "claimed"),
    )

    engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == expected
    if expected == "queued":
        assert (row.cluster, row.lease_until, row.available_at) == (None, None, NOW)
        assert bool(row.reason) == (status == "running")


def test_run_whose_worker_died_again_and_again_is_lost(cluster):
    job = JobFactory(once=True, run_at=NOW, cron="", next_run_at=None, status="running")
    begin(cluster, job)
    now = NOW
    for attempt in (2, 3):
        now += LEASE + SECOND
        engine.sweep(now)
        (claim,) = engine.claim_runs(cluster.pk, now, 10)
        (started,) = engine.start_runs(cluster.pk, claim.attempt, [claim.execution_id], now)
        assert started.attempt == attempt
    engine.sweep(now + LEASE + SECOND)

    assert ledger(job) == [("lost", NOW)]
    job.refresh_from_db()
    assert job.status == "failed"


# Prompts


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"started_at": NOW - DAY - SECOND}, "failed", id="waited a day"),
        pytest.param({"started_at": NOW - DAY}, "waiting", id="not quite"),
        pytest.param(
            {"started_at": NOW - HOUR, "scheduled_for": NOW - DAY - HOUR}, "waiting", id="caught up late"
        ),
        pytest.param(
            {"started_at": NOW - 2 * DAY, "lease_until": NOW + HOUR}, "waiting", id="an agent is at it"
        ),
        pytest.param({"started_at": NOW - 2 * DAY, "lease_until": NOW - HOUR}, "failed", id="agent gone"),
    ],
)
def test_prompt_that_waited_too_long_has_failed(fields, expected):
    job = JobFactory(task="prompt", cron="0 * * * *", next_run_at=NOW + HOUR)
    row = ExecutionFactory(
        job=job, **{"status": "waiting", "attempt": 1, "scheduled_for": NOW - 2 * DAY} | fields
    )

    engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == expected
    job.refresh_from_db()
    assert job.recent == ("F" if expected == "failed" else "")
    if expected == "failed":
        assert (row.reason, row.finished_at, row.lease_until) == ("", NOW, None)
        assert job.last_error == row.error == "No agent completed this prompt within 24 hours."


def test_prompt_of_a_job_that_is_gone_is_taken_back():
    ExecutionFactory(status="waiting", started_at=NOW)
    Execution.objects.update(job=None)

    engine.sweep(NOW)

    assert Execution.objects.get().status == "cancelled"


@pytest.mark.parametrize(
    "stopped",
    [
        pytest.param({"status": "cancelled", "next_run_at": None}, id="cancelled"),
        pytest.param({"status": "paused", "next_run_at": None}, id="paused"),
        pytest.param({"deleted_at": NOW}, id="deleted"),
    ],
)
@pytest.mark.parametrize(("lease", "expected"), [(HOUR, "waiting"), (-HOUR, "cancelled")])
def test_prompt_of_a_stopped_job_is_taken_back_when_its_agent_lets_it_go(stopped, lease, expected):
    job = JobFactory(task="prompt", cron="0 * * * *", **stopped)
    row = ExecutionFactory(job=job, status="waiting", attempt=1, leased_to="laptop", lease_until=NOW + lease)

    engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == expected
    job.refresh_from_db()
    assert job.recent == ("C" if expected == "cancelled" else "")
    if expected == "cancelled":
        assert row.reason == "The job was stopped before an agent finished this prompt."


def test_prompt_that_was_asked_for_by_hand_outlives_a_pause():
    job = JobFactory(task="prompt", cron="0 * * * *", status="paused", next_run_at=None)
    row = ExecutionFactory(job=job, status="waiting", attempt=1, cause="manual")

    engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == "waiting"


# Pauses


def paused(**fields):
    return JobFactory(
        **{
            "cron": "0 * * * *",
            "status": "paused",
            "next_run_at": None,
            "paused_at": NOW - 150 * timedelta(minutes=1),
            "paused_until": NOW,
            "pause_reason": "holiday",
        }
        | fields
    )


def test_pause_that_is_over_ends_with_an_account_of_its_slots():
    job = paused(failure_streak=4)

    engine.sweep(NOW - SECOND)
    job.refresh_from_db()
    assert job.status == "paused"

    engine.sweep(NOW)
    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.revision) == ("pending", NOW + HOUR, 2)
    assert (job.paused_at, job.paused_until, job.pause_reason, job.failure_streak) == (None, None, "", 0)
    row = Execution.objects.get()
    assert (row.status, row.slots, row.reason) == ("skipped", 3, "Paused: holiday")
    assert (row.scheduled_for, row.last_slot) == (NOW - 2 * HOUR, NOW)
    assert Event.objects.get().verb == "resume"


def test_pause_begun_at_the_moment_of_a_slot_tells_of_it_once():
    job = paused(paused_at=NOW - 2 * HOUR)
    ExecutionFactory(job=job, scheduled_for=NOW - 2 * HOUR, status="skipped")

    engine.sweep(NOW)

    assert ledger(job) == [("skipped", NOW - 2 * HOUR), ("skipped", NOW - HOUR)]
    assert Execution.objects.get(scheduled_for=NOW - HOUR).slots == 2


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"once": True, "cron": "", "run_at": NOW - HOUR}, id="one-off"),
        pytest.param({"ends_at": NOW - HOUR}, id="ended"),
        pytest.param({"max_runs": 1, "slot_count": 1}, id="runs spent"),
    ],
)
def test_job_with_nothing_left_after_its_pause_is_completed(fields):
    job = paused(**fields)

    engine.sweep(NOW)

    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.paused_until) == ("completed", None, None)
    assert Event.objects.get().verb == "finish"


def test_broken_job_stays_paused_and_harms_nobody_else():
    bad, good = paused(timezone="Mars/Olympus"), paused()

    engine.sweep(NOW)

    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.status, bad.paused_until, good.status) == ("paused", None, "pending")
    assert "cannot be read" in bad.pause_reason
    assert Event.objects.get(job=bad).verb == "pause"


def test_trash_is_not_resumed():
    job = paused(deleted_at=NOW)

    engine.sweep(NOW)

    job.refresh_from_db()
    assert job.status == "paused"


def test_many_pauses_end_over_several_sweeps(monkeypatch):
    monkeypatch.setattr(pauses, "RESUMING", -1)
    for _ in range(3):
        paused()

    engine.sweep(NOW)
    assert Job.objects.filter(status="pending").count() == 1
    engine.sweep(NOW)
    assert Job.objects.filter(status="pending").count() == 2


def test_rearming_a_job_that_somebody_changed_meanwhile_does_nothing():
    job = paused()
    Job.objects.update(revision=5)

    assert engine.rearm(job, NOW) is False
