"""What a clock that was ahead, and was set back, leaves behind."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine import clock_rollback
from schedules.models import FRESH_FOR, Execution, Job
from tests.engine.conftest import LEASE, NOW, ledger, new_cluster, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def after_setback(monkeypatch):
    """As in a cluster that has just been started."""
    monkeypatch.setattr(clock_rollback, "_recovery", clock_rollback._Recovery())


def hourly(**fields):
    return JobFactory(**{"cron": "0 * * * *", "next_run_at": NOW, "created_at": NOW} | fields)


@pytest.mark.parametrize("catch_up", ["once", "all", "none"])
def test_job_that_a_clock_far_ahead_moved_on_is_armed_for_now(after_setback, catch_up):
    job, cluster = hourly(catch_up=catch_up, overlap="allow"), new_cluster()
    engine.claim_runs(cluster.pk, NOW + DAY, 100)
    engine.recover_from_clock_rollback(NOW + DAY)
    set_back = NOW + 90 * MINUTE

    engine.recover_from_clock_rollback(set_back)

    job.refresh_from_db()
    assert job.next_run_at == NOW + 2 * HOUR
    gap = job.executions.filter(status="missed").first()
    assert gap is None or (gap.scheduled_for, gap.last_slot, gap.slots) == (NOW, NOW + HOUR, 2)
    for hour in range(2, 27):
        engine.claim_runs(cluster.pk, NOW + hour * HOUR, 10)
    rows = job.executions.values_list("scheduled_for", "slots")
    assert sorted(NOW + number * HOUR for number in range(27)) == sorted(
        slot + number * HOUR for slot, count in rows for number in range(count)
    )


def test_run_of_a_slot_to_come_leaves_the_line_it_would_hold_up(after_setback):
    """It was put into the line while the clock was ahead, and was let go when the run before it ended."""
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


def test_run_that_waited_behind_a_slot_to_come_is_let_go(after_setback, cluster):
    job = hourly(overlap="queue", next_run_at=NOW + 2 * DAY)
    ahead = ExecutionFactory(job=job, status="queued", scheduled_for=NOW + DAY, available_at=NOW + DAY)
    behind = ExecutionFactory(job=job, status="queued", scheduled_for=NOW - HOUR, available_at=None)

    engine.recover_from_clock_rollback(NOW)

    assert not Execution.objects.filter(pk=ahead.pk).exists()
    assert [claim.execution_id for claim in engine.claim_runs(cluster.pk, NOW, 10)] == [behind.pk]


def test_what_a_clock_that_was_ahead_let_go_waits_no_longer(after_setback, cluster):
    job = JobFactory(paused=True)
    let_go = ExecutionFactory(
        job=job, status="queued", cause="manual", available_at=NOW + DAY, scheduled_for=NOW
    )
    retry = ExecutionFactory(
        job=job, status="queued", attempt=1, available_at=NOW + DAY, scheduled_for=NOW - HOUR
    )

    engine.recover_from_clock_rollback(NOW)

    assert [claim.execution_id for claim in engine.claim_runs(cluster.pk, NOW, 10)] == [let_go.pk]
    retry.refresh_from_db()
    assert retry.available_at == NOW + DAY


def test_cluster_that_died_while_the_clock_was_ahead_is_given_up_in_time(after_setback):
    dead = new_cluster(last_seen_at=NOW + DAY)
    row = ExecutionFactory(status="claimed", cluster=dead, lease_until=NOW + DAY + LEASE)

    engine.recover_from_clock_rollback(NOW)
    engine.sweep(NOW + FRESH_FOR + SECOND)

    dead.refresh_from_db()
    row.refresh_from_db()
    assert dead.stopped_at == NOW
    assert (row.status, row.available_at) == ("queued", NOW + FRESH_FOR + SECOND)


def test_lease_from_a_clock_that_was_ahead_runs_out_in_time(after_setback, cluster):
    row = ExecutionFactory(status="claimed", cluster=cluster, lease_until=NOW + DAY + LEASE)

    engine.recover_from_clock_rollback(NOW)
    engine.sweep(NOW + LEASE + SECOND)

    row.refresh_from_db()
    assert (row.status, row.available_at) == ("queued", NOW + LEASE + SECOND)


def test_job_is_armed_for_now_also_where_the_clock_was_set_back_in_the_night(after_setback):
    job = hourly(next_run_at=NOW + DAY)

    engine.recover_from_clock_rollback(NOW)

    job.refresh_from_db()
    assert job.next_run_at == NOW + HOUR


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"next_run_at": NOW + HOUR}, id="its next slot"),
        pytest.param({"cron": "* * * * *", "next_run_at": NOW + 2 * MINUTE}, id="a little ahead"),
        pytest.param({"cron": "nonsense", "next_run_at": NOW + DAY}, id="cannot be read"),
        pytest.param({"next_run_at": NOW + DAY, "deleted_at": NOW}, id="trash"),
        pytest.param({"next_run_at": NOW + DAY, "max_runs": 3, "slot_count": 3}, id="nothing left"),
    ],
)
def test_other_jobs_stay_as_they_are(after_setback, fields):
    job = hourly(**fields)

    engine.recover_from_clock_rollback(NOW)

    job.refresh_from_db()
    assert job.next_run_at == fields["next_run_at"]


def test_jobs_are_looked_at_again_only_when_the_clock_was_set_back(after_setback):
    engine.recover_from_clock_rollback(NOW)
    job = hourly(next_run_at=NOW + 3 * DAY)

    engine.recover_from_clock_rollback(NOW + MINUTE)
    job.refresh_from_db()
    assert job.next_run_at == NOW + 3 * DAY

    engine.recover_from_clock_rollback(NOW - 5 * MINUTE)
    job.refresh_from_db()
    assert job.next_run_at == NOW


def test_many_jobs_are_looked_at_by_and_by(after_setback, monkeypatch):
    jobs = [hourly(next_run_at=NOW + DAY) for _ in range(7)]
    monkeypatch.setattr(clock_rollback, "BATCH", 3)
    monkeypatch.setattr(clock_rollback, "CHECKING", 0)
    monkeypatch.setattr(clock_rollback._recovery, "_last_checked", 0)

    for _ in range(3):
        clock_rollback._recovery._check_batch(NOW)

    assert set(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("next_run_at", flat=True)) == {
        NOW + HOUR
    }
    assert clock_rollback._recovery._last_checked is None
