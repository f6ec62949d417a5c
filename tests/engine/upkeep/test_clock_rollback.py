"""Recovery after the clock was ahead and was set back."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine.upkeep import clock_rollback
from schedules.engine.upkeep.clock_rollback import delete_future_rows
from schedules.models import FRESH_FOR, Execution, Job
from tests.engine.conftest import LEASE, NOW, ledger, new_cluster, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def fresh_recovery(monkeypatch):
    """Reset the recovery state, as in a cluster that has just started."""
    monkeypatch.setattr(clock_rollback, "_recovery", clock_rollback._Recovery())


def hourly(**fields):
    return JobFactory(**{"cron": "0 * * * *", "next_run_at": NOW, "created_at": NOW} | fields)


@pytest.mark.parametrize("catch_up", ["once", "all", "none"])
def test_job_moved_ahead_by_a_wrong_clock_is_rearmed(fresh_recovery, catch_up):
    job, cluster = hourly(catch_up=catch_up, overlap="allow"), new_cluster()
    engine.claim_runs(cluster.pk, NOW + DAY, 100)
    engine.recover_from_clock_rollback(NOW + DAY)
    set_back = NOW + 90 * MINUTE

    engine.recover_from_clock_rollback(set_back)

    job.refresh_from_db()
    assert job.next_run_at == NOW + 2 * HOUR
    gaps = job.executions.filter(status="missed").values_list("scheduled_for", "last_slot", "slots")
    assert list(gaps) == ([] if catch_up == "all" else [(NOW, NOW + HOUR, 2)])
    for hour in range(2, 27):
        engine.claim_runs(cluster.pk, NOW + hour * HOUR, 10)
    rows = job.executions.values_list("scheduled_for", "slots")
    assert sorted(NOW + number * HOUR for number in range(27)) == sorted(
        slot + number * HOUR for slot, count in rows for number in range(count)
    )


def test_gap_is_cut_to_its_first_slot_if_all_others_are_in_the_future(fresh_recovery):
    job, cluster = hourly(), new_cluster()
    engine.claim_runs(cluster.pk, NOW + DAY, 100)

    assert delete_future_rows(Job.objects.get(), NOW + MINUTE)

    gaps = job.executions.filter(status="missed").values_list("scheduled_for", "last_slot", "slots")
    assert list(gaps) == [(NOW, None, 1)]
    assert not delete_future_rows(hourly(), NOW + MINUTE)


@pytest.mark.parametrize("cron", ["15 3 1 * *", "nonsense"])
def test_gap_keeps_its_past_slots_if_the_schedule_was_changed_meanwhile(fresh_recovery, cron):
    job, cluster = hourly(), new_cluster()
    engine.claim_runs(cluster.pk, NOW + DAY, 100)
    Job.objects.filter(pk=job.pk).update(cron=cron)

    delete_future_rows(Job.objects.get(), NOW + 150 * MINUTE)

    gaps = job.executions.filter(status="missed").values_list("scheduled_for", "last_slot", "slots")
    assert list(gaps) == [(NOW, NOW + 2 * HOUR, 3)]


def test_run_of_a_future_slot_is_removed_from_the_queue(fresh_recovery):
    """It was queued while the clock was ahead, and released when the previous run ended."""
    job, cluster = hourly(overlap="queue", max_runs=5), new_cluster()
    engine.claim_runs(cluster.pk, NOW, 10)
    [running] = engine.start_runs(cluster.pk, 0, [job.executions.get().pk], NOW)
    engine.claim_runs(cluster.pk, NOW + DAY, 10)
    engine.settle_runs(cluster.pk, [outcome_of(running, at=NOW + DAY)])
    engine.recover_from_clock_rollback(NOW + DAY)

    engine.recover_from_clock_rollback(NOW + 90 * MINUTE)

    job.refresh_from_db()
    assert (job.next_run_at, job.slot_count, job.run_count) == (NOW + 2 * HOUR, 1, 1)
    assert ledger(job) == [("succeeded", NOW), ("missed", NOW + HOUR)]
    [claim] = engine.claim_runs(cluster.pk, NOW + 2 * HOUR, 10)
    assert job.executions.get(pk=claim.execution_id).scheduled_for == NOW + 2 * HOUR


def test_run_waiting_behind_a_future_slot_is_released(fresh_recovery, cluster):
    job = hourly(overlap="queue", next_run_at=NOW + 2 * DAY)
    ahead = ExecutionFactory(job=job, status="queued", scheduled_for=NOW + DAY, available_at=NOW + DAY)
    behind = ExecutionFactory(job=job, status="queued", scheduled_for=NOW - HOUR, available_at=None)

    engine.recover_from_clock_rollback(NOW)

    assert not Execution.objects.filter(pk=ahead.pk).exists()
    assert [claim.execution_id for claim in engine.claim_runs(cluster.pk, NOW, 10)] == [behind.pk]


def test_run_released_with_a_future_time_becomes_available_now(fresh_recovery, cluster):
    job = JobFactory(paused=True)
    released = ExecutionFactory(
        job=job, status="queued", cause="manual", available_at=NOW + DAY, scheduled_for=NOW
    )
    retry = ExecutionFactory(
        job=job, status="queued", attempt=1, available_at=NOW + DAY, scheduled_for=NOW - HOUR
    )

    engine.recover_from_clock_rollback(NOW)

    assert [claim.execution_id for claim in engine.claim_runs(cluster.pk, NOW, 10)] == [released.pk]
    retry.refresh_from_db()
    assert retry.available_at == NOW + DAY


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"status": "queued", "available_at": NOW + 50 * MINUTE}, id="waits for its ping"),
        pytest.param({"status": "running", "attempt": 1, "lease_until": NOW + 50 * MINUTE}, id="started"),
    ],
)
def test_start_leaves_heartbeats_their_grace_and_a_rollback_bounds_it(fresh_recovery, fields):
    job = hourly(task="heartbeat", kwargs={"grace": "1h"}, next_run_at=NOW + HOUR)
    row = ExecutionFactory(job=job, scheduled_for=NOW - 10 * MINUTE, **fields)

    def deadline():
        row.refresh_from_db()
        return row.available_at or row.lease_until

    engine.recover_from_clock_rollback(NOW)
    assert deadline() == NOW + 50 * MINUTE

    Execution.objects.filter(pk=row.pk).update(
        **{name: NOW + DAY for name in ("available_at", "lease_until") if fields.get(name)}
    )
    engine.recover_from_clock_rollback(NOW - 2 * MINUTE)
    assert deadline() == NOW + 58 * MINUTE


def test_start_leaves_a_planned_run_that_waits(fresh_recovery):
    waiting = ExecutionFactory(
        job=hourly(next_run_at=NOW + HOUR), status="queued", available_at=NOW + 8 * HOUR, scheduled_for=NOW
    )

    engine.recover_from_clock_rollback(NOW)

    waiting.refresh_from_db()
    assert waiting.available_at == NOW + 8 * HOUR


@pytest.mark.parametrize(
    ("ended", "available", "expected"),
    [
        pytest.param(DAY, DAY + 30 * SECOND, 30 * SECOND, id="failed while the clock was ahead"),
        pytest.param(-SECOND, 29 * SECOND, 29 * SECOND, id="failed before"),
    ],
)
def test_later_attempt_keeps_its_backoff(fresh_recovery, ended, available, expected):
    retry = ExecutionFactory(job=hourly(), status="queued", attempt=1, scheduled_for=NOW - MINUTE)
    retry.earlier_attempts = retry.attempt_ended(NOW + ended, "refused")
    retry.available_at = NOW + available
    retry.save()
    engine.recover_from_clock_rollback(NOW + DAY)

    engine.recover_from_clock_rollback(NOW)

    retry.refresh_from_db()
    assert retry.available_at == NOW + expected


def test_cluster_that_died_while_the_clock_was_ahead_is_retired_on_time(fresh_recovery):
    dead = new_cluster(last_seen_at=NOW + DAY)
    row = ExecutionFactory(status="claimed", cluster=dead, lease_until=NOW + DAY + LEASE)

    engine.recover_from_clock_rollback(NOW)
    engine.sweep(NOW + FRESH_FOR + SECOND)

    dead.refresh_from_db()
    row.refresh_from_db()
    assert dead.stopped_at == NOW
    assert (row.status, row.available_at) == ("queued", NOW + LEASE)


def test_lease_granted_while_the_clock_was_ahead_expires_on_time(fresh_recovery, cluster):
    row = ExecutionFactory(status="claimed", cluster=cluster, lease_until=NOW + DAY + LEASE)

    engine.recover_from_clock_rollback(NOW)
    engine.sweep(NOW + LEASE + SECOND)

    row.refresh_from_db()
    assert (row.status, row.available_at) == ("queued", NOW + LEASE)


def test_job_is_rearmed_if_the_clock_was_set_back_before_the_cluster_started(fresh_recovery):
    job = hourly(next_run_at=NOW + DAY)

    engine.recover_from_clock_rollback(NOW)

    job.refresh_from_db()
    assert job.next_run_at == NOW + HOUR


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"next_run_at": NOW + HOUR}, id="its next slot"),
        pytest.param({"cron": "* * * * *", "next_run_at": NOW + 2 * MINUTE}, id="a little ahead"),
        pytest.param({"cron": "nonsense", "next_run_at": NOW + DAY}, id="invalid schedule"),
        pytest.param({"next_run_at": NOW + DAY, "deleted_at": NOW}, id="trash"),
        pytest.param({"next_run_at": NOW + DAY, "max_runs": 3, "slot_count": 3}, id="nothing left"),
    ],
)
def test_other_jobs_are_not_rearmed(fresh_recovery, fields):
    job = hourly(**fields)

    engine.recover_from_clock_rollback(NOW)

    job.refresh_from_db()
    assert job.next_run_at == fields["next_run_at"]


def test_jobs_are_checked_again_only_after_the_clock_was_set_back(fresh_recovery):
    engine.recover_from_clock_rollback(NOW)
    job = hourly(next_run_at=NOW + 3 * DAY)

    engine.recover_from_clock_rollback(NOW + MINUTE)
    job.refresh_from_db()
    assert job.next_run_at == NOW + 3 * DAY

    engine.recover_from_clock_rollback(NOW - 5 * MINUTE)
    job.refresh_from_db()
    assert job.next_run_at == NOW


def test_many_jobs_are_checked_in_batches(fresh_recovery, monkeypatch):
    jobs = [hourly(next_run_at=NOW + DAY) for _ in range(7)]
    monkeypatch.setattr(clock_rollback, "BATCH", 3)
    monkeypatch.setattr(clock_rollback, "CHECKING_SECONDS", 0)
    monkeypatch.setattr(clock_rollback._recovery, "_last_checked", 0)

    for _ in range(3):
        clock_rollback._recovery._check_batch(NOW)

    assert set(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("next_run_at", flat=True)) == {
        NOW + HOUR
    }
    assert clock_rollback._recovery._last_checked is None
