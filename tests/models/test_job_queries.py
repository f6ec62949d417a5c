"""Queries of jobs."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.models import LATE_AFTER, Execution, Job
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


def test_jobs_are_found_by_status_and_moment():
    due = JobFactory(next_run_at=NOW)
    late = JobFactory(next_run_at=NOW - LATE_AFTER)
    ahead = JobFactory(next_run_at=NOW + timedelta(seconds=1))
    paused, ended = JobFactory(paused=True), JobFactory(ended=True)
    trashed = JobFactory(next_run_at=NOW, deleted_at=NOW)
    jobs = Job.objects

    assert set(jobs.kept()) == {due, late, ahead, paused, ended}
    assert set(jobs.trashed()) == {trashed}
    assert set(jobs.active()) == {due, late, ahead, paused}
    assert set(jobs.armed()) == {due, late, ahead}
    assert set(jobs.due(NOW)) == {due, late}
    assert set(jobs.late(NOW)) == {late}
    assert set(jobs.owned_by(due.owner)) == {due}
    assert set(jobs.called(due.public_id)) == {due}
    assert list(jobs.armed()) == [late, due, ahead]


RUNS = {
    "none": None,
    "queued": {"status": "queued"},
    "between attempts": {"status": "queued", "attempt": 1},
    "claimed": {"status": "claimed"},
    "running": {"status": "running", "attempt": 1},
    "prompt that no agent has claimed": {"status": "waiting", "attempt": 1},
    "prompt that an agent holds": {"status": "waiting", "attempt": 1, "lease_until": NOW},
    "ended": {"status": "succeeded", "attempt": 1, "finished_at": NOW},
}


def test_job_is_running_while_a_run_is_live_unless_it_was_stopped():
    expected = {}
    for status in Job.Status:
        for run in RUNS.values():
            job = JobFactory(status=status, next_run_at=NOW if status == "pending" else None)
            if run:
                ExecutionFactory(job=job, **run)
            has_run = Execution.objects.under_way().filter(job=job).exists()
            expected[job.pk] = "running" if status == "pending" and has_run else status

    assert {job.pk: job.state for job in Job.objects.with_activity()} == expected
    for state in Job.Status:
        found = {job.pk for job in Job.objects.in_state(state)}
        assert found == {pk for pk, shown in expected.items() if shown == state}
