"""The time after a restore from a backup: what was due or under way is skipped or caught up with, and recorded."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.models import Cluster, Event, Execution, Job
from tests.engine.conftest import LEASE, NOW, begin, ledger, new_cluster
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
LATER = timedelta(seconds=20)
REASON = "Restored from a backup of 2026-02-04 09:00:00 UTC."


def run_everything(now) -> list[int]:
    """Return the jobs that a new cluster would start now."""
    engine.sweep(now)
    claims = engine.claim_runs(new_cluster(last_seen_at=now).pk, now, 100)
    return list(
        Execution.objects.filter(pk__in=[claim.execution_id for claim in claims]).values_list(
            "job", flat=True
        )
    )


def test_skipped_one_time_jobs_do_not_run_again():
    jobs = [JobFactory(once=True, run_at=NOW + timedelta(seconds=number)) for number in range(21)]
    later = JobFactory(once=True, run_at=NOW + HOUR)

    done = engine.skip_since_backup(NOW, NOW + LATER)

    assert (done.jobs, done.runs) == (21, 0)
    assert run_everything(NOW + LATER) == []
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, ledger(job)) == ("completed", [("skipped", job.run_at)])
    assert set(Execution.objects.values_list("reason", flat=True)) == {REASON}
    assert Event.objects.filter(verb="restore backup", after__slots="skip").count() == 21
    later.refresh_from_db()
    assert later.next_run_at == NOW + HOUR


def test_skipped_slots_of_a_repeating_job_are_one_gap():
    job = JobFactory(cron="0 * * * *", next_run_at=NOW)

    engine.skip_since_backup(NOW, NOW + 3 * HOUR)

    row = Execution.objects.get()
    assert (row.status, row.reason, row.slots, row.last_slot) == ("skipped", REASON, 4, NOW + 3 * HOUR)
    job.refresh_from_db()
    assert (job.status, job.next_run_at) == ("pending", NOW + 4 * HOUR)


@pytest.mark.parametrize("at_most_once", [False, True])
@pytest.mark.parametrize(
    ("slots", "expected"), [("skip", ["lost", "missed", "missed", "lost", "queued"]), ("catch-up", None)]
)
def test_runs_of_the_backup_end_or_are_released(cluster, slots, expected, at_most_once):
    job = JobFactory(
        overlap="allow",
        next_run_at=NOW + HOUR,
        at_most_once=at_most_once,
        pause_after_failures=int(slots == "skip"),
    )
    begin(cluster, job)
    row = {"job": job, "scheduled_for": NOW - HOUR}
    ExecutionFactory(**row, status="claimed", cluster=cluster, lease_until=NOW + LEASE)
    ExecutionFactory(**row, status="queued", cause="manual", available_at=NOW)
    ExecutionFactory(**row, status="queued", cause="manual", attempt=1, error="no", available_at=NOW)
    ExecutionFactory(**row, status="queued", cause="manual", attempt=1, error="no", available_at=NOW + HOUR)

    if slots == "skip":
        engine.skip_since_backup(NOW, NOW + LATER)
    else:
        engine.catch_up_since_backup(NOW, NOW + LATER)

    rows = Execution.objects.order_by("pk")
    first = "lost" if at_most_once else "queued"
    assert [row.status for row in rows] == (expected or [first, "queued", "queued", "queued", "queued"])
    assert rows[0].reason.startswith(REASON)
    assert not Execution.objects.filter(lease_until__isnull=False).exists()
    job.refresh_from_db()
    assert job.status == "pending"
    assert Cluster.objects.get().note == REASON
    assert Event.objects.filter(job=job, verb="restore backup", after__slots=slots).count() == 1


def test_catch_up_runs_what_was_due(cluster):
    due = JobFactory(once=True, run_at=NOW + timedelta(seconds=5))
    in_flight = JobFactory(next_run_at=NOW + HOUR)
    begin(cluster, in_flight)

    engine.catch_up_since_backup(NOW, NOW + LATER)

    assert sorted(run_everything(NOW + LATER)) == [due.pk, in_flight.pk]


def test_waiting_prompt_is_lost_with_skip():
    row = ExecutionFactory(job=JobFactory(task="prompt"), status="waiting", attempt=1, scheduled_for=NOW)

    engine.skip_since_backup(NOW, NOW + LATER)

    row.refresh_from_db()
    assert (row.status, row.reason) == ("lost", REASON)


def test_job_whose_schedule_cannot_be_read_is_left_to_the_claim():
    job = JobFactory(cron="nonsense", next_run_at=NOW)

    engine.skip_since_backup(NOW, NOW + LATER)

    job.refresh_from_db()
    assert (job.status, job.next_run_at) == ("pending", NOW)
    assert Job.objects.count() == 1


def test_newest_trace_is_the_last_moment_of_any_table(cluster):
    assert engine.newest_trace() == NOW
    ExecutionFactory(finished_at=NOW + HOUR, job=JobFactory(created_at=NOW))

    assert engine.newest_trace() == NOW + HOUR


def test_run_that_a_restore_ended_is_no_failure(cluster):
    job = JobFactory(next_run_at=NOW + HOUR, failure_streak=2)
    begin(cluster, job)

    engine.skip_since_backup(NOW, NOW + LATER)

    job.refresh_from_db()
    assert (job.recent[-1], job.failure_streak) == ("L", 2)
