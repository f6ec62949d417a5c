"""The catch-up limit of runs that are already in the ledger, after an outage or a restore from a backup."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.models import Cluster, Execution, Job
from tests.engine.conftest import LEASE, NOW, begin, ledger, new_cluster, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def sweep_and_claim(now) -> list[str]:
    """Let a cluster that starts now recover and claim; return the status of every row, oldest first."""
    engine.sweep(now)
    engine.claim_runs(new_cluster(last_seen_at=now).pk, now, 100)
    return list(Execution.objects.order_by("pk").values_list("status", flat=True))


def hourly(**fields) -> Job:
    return JobFactory(**{"cron": "0 * * * *", "next_run_at": NOW + 30 * DAY} | fields)


@pytest.mark.parametrize(
    ("catch_up", "later", "expected"),
    [
        ("once", 23 * HOUR, "claimed"),
        ("once", 25 * HOUR, "missed"),
        ("all", 25 * HOUR, "missed"),
        ("none", LEASE + SECOND, "claimed"),
        ("none", 5 * MINUTE, "missed"),
    ],
)
def test_claim_of_a_dead_cluster_starts_only_within_the_catch_up_limit(cluster, catch_up, later, expected):
    job = hourly(catch_up=catch_up, slot_count=5, run_count=7)
    ExecutionFactory(
        job=job, status="claimed", cluster=cluster, scheduled_for=NOW, claimed_at=NOW, lease_until=NOW + LEASE
    )

    assert sweep_and_claim(NOW + later) == [expected]

    row = Execution.objects.get()
    job.refresh_from_db()
    assert job.recent == ""
    # A slot that was missed is not one that ran.
    assert (job.slot_count, job.run_count) == ((5, 7) if expected == "claimed" else (4, 6))
    if expected == "missed":
        limit = "1 minute" if catch_up == "none" else "1 day"
        assert row.reason == f"No worker could start it within its catch-up limit of {limit}."
        assert (row.finished_at, row.available_at, row.lease_until) == (NOW + later, None, None)


@pytest.mark.parametrize(
    ("catch_up", "later", "expected"),
    [
        ("once", 23 * HOUR, "claimed"),
        ("once", 3 * DAY, "lost"),
        ("none", LEASE + SECOND, "claimed"),
        ("none", 5 * MINUTE, "lost"),
    ],
)
def test_run_of_a_dead_cluster_is_repeated_only_within_the_catch_up_limit(cluster, catch_up, later, expected):
    job = hourly(catch_up=catch_up)
    # Its slot is long past: it has been retried for two days.
    begin(cluster, job, scheduled_for=NOW - 2 * DAY)

    assert sweep_and_claim(NOW + later) == [expected]

    job.refresh_from_db()
    if expected == "lost":
        limit = "1 minute" if catch_up == "none" else "1 day"
        row = Execution.objects.get()
        assert row.reason == row.error == job.last_error
        assert f"the catch-up limit of {limit} passed" in row.reason
        assert job.recent == "L"


@pytest.mark.parametrize(
    ("fields", "later", "expected"),
    [
        pytest.param({"attempt": 1, "error": "no route"}, HOUR, "claimed", id="retry"),
        pytest.param({"attempt": 1, "error": "no route"}, 25 * HOUR, "failed", id="late retry"),
        pytest.param(
            {"attempt": 3, "error": "no route", "scheduled_for": NOW - 9 * DAY}, HOUR, "claimed", id="backoff"
        ),
        pytest.param({"attempt": 1}, 25 * HOUR, "lost", id="rescued"),
        pytest.param({"cause": "manual"}, 23 * HOUR, "claimed", id="manual"),
        pytest.param({"cause": "manual"}, 25 * HOUR, "missed", id="late manual"),
        pytest.param({"scheduled_for": NOW - 25 * HOUR}, SECOND, "missed", id="waited in line"),
    ],
)
def test_queued_run_starts_only_within_the_catch_up_limit(fields, later, expected):
    ExecutionFactory(job=hourly(), **{"status": "queued", "scheduled_for": NOW, "available_at": NOW} | fields)

    assert sweep_and_claim(NOW + later) == [expected]

    row = Execution.objects.get()
    assert bool(row.reason) == (expected != "claimed")
    assert row.error == (row.reason if expected == "lost" else fields.get("error", ""))


def test_manual_run_of_a_job_that_leaves_missed_slots_out_starts_after_an_hour():
    ExecutionFactory(job=hourly(catch_up="none"), status="queued", cause="manual", available_at=NOW)

    assert sweep_and_claim(NOW + HOUR) == ["claimed"]


def test_run_that_waited_in_line_for_an_hour_starts_when_its_turn_comes(cluster):
    job = hourly(overlap="queue", catch_up="none")
    started = begin(cluster, job)
    ExecutionFactory(job=job, status="queued", scheduled_for=NOW + MINUTE)

    engine.settle_runs(cluster.pk, [outcome_of(started, at=NOW + HOUR)])

    assert sweep_and_claim(NOW + HOUR) == ["succeeded", "claimed"]


def test_runs_in_line_behind_a_late_run_are_missed_with_it(cluster):
    job = hourly(overlap="queue", catch_up="none", slot_count=3, run_count=3)
    begin(cluster, job)
    for minutes in (1, 2):
        ExecutionFactory(job=job, status="queued", scheduled_for=NOW + minutes * MINUTE)

    assert sweep_and_claim(NOW + HOUR) == ["lost", "missed", "missed"]

    job.refresh_from_db()
    assert (job.slot_count, job.run_count) == (1, 1)


def test_backup_restored_three_days_later_delivers_nothing_that_was_in_flight(cluster):
    Cluster.objects.update(last_seen_at=NOW)
    held = {"cluster": cluster, "lease_until": NOW + LEASE, "claimed_at": NOW}
    for _ in range(3):
        once = {"once": True, "run_at": NOW, "next_run_at": None, "status": "running"}
        begin(cluster, JobFactory(**once))
        ExecutionFactory(job=JobFactory(**once), status="claimed", scheduled_for=NOW, **held)
        ExecutionFactory(
            job=JobFactory(**once), status="claimed", scheduled_for=NOW, attempt=1, error="no", **held
        )
        ExecutionFactory(
            job=JobFactory(**once), status="queued", cause="manual", scheduled_for=NOW, available_at=NOW
        )

    assert sweep_and_claim(NOW + 3 * DAY) == ["lost", "missed", "failed", "missed"] * 3
    assert set(Job.objects.values_list("status", flat=True)) == {"failed"}


def test_late_runs_that_fail_pause_their_job_once(cluster):
    job = hourly(overlap="allow", pause_after_failures=1)
    begin(cluster, job, scheduled_for=NOW)
    begin(cluster, job, scheduled_for=NOW + SECOND)

    assert sweep_and_claim(NOW + 3 * DAY) == ["lost", "lost"]

    job.refresh_from_db()
    assert (job.status, job.failure_streak, job.recent) == ("paused", 2, "LL")
    assert ledger(job)[0] == ("lost", NOW)


def test_missed_run_is_not_one_of_max_runs(cluster):
    job = hourly(max_runs=3, slot_count=3, run_count=3, status="running", next_run_at=None)
    ExecutionFactory(
        job=job, status="claimed", cluster=cluster, scheduled_for=NOW, claimed_at=NOW, lease_until=NOW + LEASE
    )

    # The slots of the day in between are missed; the latest is caught up on, as the third run.
    assert sweep_and_claim(NOW + 25 * HOUR + MINUTE) == ["missed", "missed", "claimed"]

    job.refresh_from_db()
    assert (job.status, job.slot_count, job.run_count) == ("running", 3, 3)
    assert ledger(job)[-1] == ("claimed", NOW + 25 * HOUR)


def test_job_whose_last_run_is_missed_waits_for_its_next_slot(cluster):
    job = hourly(max_runs=1, slot_count=1, run_count=1, catch_up="none", status="running", next_run_at=None)
    ExecutionFactory(
        job=job, status="claimed", cluster=cluster, scheduled_for=NOW, claimed_at=NOW, lease_until=NOW + LEASE
    )

    assert sweep_and_claim(NOW + 5 * MINUTE) == ["missed"]

    job.refresh_from_db()
    assert (job.status, job.slot_count, job.next_run_at) == ("pending", 0, NOW + HOUR)


def test_job_without_another_slot_ends_with_its_missed_run(cluster):
    job = hourly(max_runs=1, slot_count=1, ends_at=NOW + MINUTE, status="running", next_run_at=None)
    ExecutionFactory(
        job=job, status="claimed", cluster=cluster, scheduled_for=NOW, claimed_at=NOW, lease_until=NOW + LEASE
    )

    assert sweep_and_claim(NOW + 25 * HOUR) == ["missed"]

    job.refresh_from_db()
    assert (job.status, job.slot_count, job.next_run_at) == ("completed", 0, None)
