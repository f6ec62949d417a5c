"""Claiming due jobs and queued runs, on whichever database the tests use."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from schedules import engine, services
from schedules.engine import claim as claim_module
from schedules.engine.interruptions import BUSY, Interruption
from schedules.models import Event, Execution, Job
from tests.engine.conftest import LEASE, NOW, begin, ledger, new_cluster, outcome_of
from tests.factories import ExecutionFactory, JobFactory, UserFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def due_job(**fields):
    kind = {} if {"once", "interval"} & fields.keys() else {"cron": "0 * * * *"}
    return JobFactory(**kind | {"next_run_at": NOW, "created_at": NOW} | fields)


def queued(job, **fields):
    return ExecutionFactory(
        job=job, **{"status": "queued", "scheduled_for": NOW, "available_at": NOW} | fields
    )


def test_due_job_is_claimed_and_moved_to_its_next_slot(cluster):
    job = due_job(name="Tidy", timeout=timedelta(seconds=7))

    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)

    row = Execution.objects.get()
    assert (claim.execution_id, claim.attempt, claim.task) == (row.pk, 0, "tests.ping")
    assert claim.timeout == timedelta(seconds=7)
    assert (row.job, row.owner, row.job_name) == (job, job.owner, "Tidy")
    assert (row.scheduled_for, row.status, row.cause) == (NOW, "claimed", "schedule")
    assert (row.cluster, row.claimed_at, row.lease_until) == (cluster, NOW, NOW + LEASE)
    job.refresh_from_db()
    assert (job.status, job.next_run_at) == ("pending", NOW + HOUR)
    assert (job.run_count, job.slot_count) == (1, 1)


def test_nothing_fires_early(cluster):
    due_job(next_run_at=NOW + timedelta(microseconds=1))
    queued(due_job(status="paused", next_run_at=None), available_at=NOW + timedelta(microseconds=1))

    assert engine.claim_runs(cluster.pk, NOW, 10) == []
    assert Execution.objects.get().status == "queued"


def test_second_claim_finds_nothing(cluster):
    due_job()
    engine.claim_runs(cluster.pk, NOW, 10)

    assert engine.claim_runs(cluster.pk, NOW, 10) == []
    assert Execution.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"once": True, "run_at": NOW}, "running", id="one-off"),
        pytest.param({"max_runs": 3, "slot_count": 2}, "running", id="last of max_runs"),
        pytest.param({"ends_at": NOW + MINUTE}, "running", id="last before ends_at"),
        pytest.param({"max_runs": 3, "slot_count": 1}, "pending", id="one run left"),
    ],
)
def test_job_with_its_last_slot_claimed_is_running(cluster, fields, status):
    job = due_job(**fields)

    assert len(engine.claim_runs(cluster.pk, NOW, 10)) == 1

    job.refresh_from_db()
    assert (job.status, job.next_run_at is None) == (status, status == "running")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"once": True, "run_at": NOW, "catch_up": "none"}, "failed", id="missed one-off"),
        pytest.param({"catch_up": "none", "ends_at": NOW + MINUTE}, "completed", id="missed last slot"),
        pytest.param({"max_runs": 1, "slot_count": 1}, "completed", id="all runs used"),
    ],
)
def test_job_without_runs_and_slots_left_has_ended(cluster, fields, status):
    job = due_job(**fields)

    assert engine.claim_runs(cluster.pk, NOW + 30 * MINUTE, 10) == []

    job.refresh_from_db()
    assert (job.status, job.next_run_at) == (status, None)


def test_job_whose_last_slot_is_skipped_runs_until_its_live_run_ends(cluster):
    job = due_job(ends_at=NOW + MINUTE)
    started = begin(cluster, job, now=NOW - HOUR)

    engine.claim_runs(cluster.pk, NOW, 10)
    job.refresh_from_db()
    assert job.status == "running"

    engine.settle_runs(cluster.pk, [outcome_of(started)])
    job.refresh_from_db()
    assert job.status == "completed"
    assert ledger(job) == [("succeeded", NOW - HOUR), ("skipped", NOW)]


def test_slot_waits_for_the_outcome_of_a_run_that_ended_before_it(cluster):
    job = due_job(next_run_at=NOW)
    started = begin(cluster, job, now=NOW - HOUR)
    ended_at = NOW - timedelta(milliseconds=1)

    assert engine.claim_runs(cluster.pk, NOW, 10, unwritten_since=ended_at) == []
    assert ledger(job) == [("running", NOW - HOUR)]

    engine.settle_runs(cluster.pk, [outcome_of(started, at=ended_at)])

    assert len(engine.claim_runs(cluster.pk, NOW, 10, unwritten_since=NOW)) == 1
    assert ledger(job) == [("succeeded", NOW - HOUR), ("claimed", NOW)]


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_unwritten_outcomes_delay_no_other_slot(cluster, overlap):
    job = due_job(overlap=overlap)
    begin(cluster, job, now=NOW - HOUR)
    other = due_job()
    expected = {"skip": "skipped", "queue": "queued", "allow": "claimed"}[overlap]
    # Whatever ended after the slot was still going at its time; only `skip` depends on that.
    ended_at = NOW + timedelta(milliseconds=1) if overlap == "skip" else NOW - MINUTE

    engine.claim_runs(cluster.pk, NOW, 10, unwritten_since=ended_at)

    assert ledger(job) == [("running", NOW - HOUR), (expected, NOW)]
    assert ledger(other) == [("claimed", NOW)]


def test_gap_and_catch_up_run_are_written_together(cluster):
    job = due_job(next_run_at=NOW - 5 * HOUR)

    busy = Interruption(NOW - 6 * HOUR, NOW, BUSY)
    (claim,) = engine.claim_runs(cluster.pk, NOW + 2 * MINUTE, 10, interruptions=[busy])

    missed, run = Execution.objects.order_by("scheduled_for")
    assert (missed.status, missed.slots, missed.last_slot) == ("missed", 5, NOW - HOUR)
    assert missed.reason == BUSY
    assert missed.finished_at == NOW + 2 * MINUTE
    assert (run.pk, run.cause, run.status) == (claim.execution_id, "catch_up", "claimed")
    job.refresh_from_db()
    assert (job.run_count, job.slot_count, job.next_run_at) == (1, 1, NOW + HOUR)


def test_gap_without_a_running_cluster_says_so():
    cluster = new_cluster(started_at=NOW)
    due_job(next_run_at=NOW - 5 * HOUR)

    engine.claim_runs(cluster.pk, NOW, 10)

    assert Execution.objects.get(status="missed").reason == "No worker was running."


def test_queued_slots_run_one_after_the_other(cluster):
    job = due_job(next_run_at=NOW - 2 * HOUR, overlap="queue", catch_up="all")

    claimed = engine.claim_runs(cluster.pk, NOW, 10)

    assert ledger(job) == [("claimed", NOW - 2 * HOUR), ("queued", NOW - HOUR), ("queued", NOW)]
    assert engine.claim_runs(cluster.pk, NOW, 10) == []
    for hours in (1, 0):
        (started,) = engine.start_runs(cluster.pk, 0, [claimed[0].execution_id], NOW)
        engine.settle_runs(cluster.pk, [outcome_of(started)])
        claimed = engine.claim_runs(cluster.pk, NOW, 10)
        assert Execution.objects.get(pk=claimed[0].execution_id).scheduled_for == NOW - hours * HOUR
    job.refresh_from_db()
    assert (job.run_count, job.slot_count) == (3, 3)


def test_excluded_tasks_are_not_claimed(cluster):
    plain, coroutine = due_job(overlap="allow"), due_job(task="tests.aping")
    queued(plain, cause="manual")

    (claim,) = engine.claim_runs(cluster.pk, NOW, 10, exclude_tasks=["tests.ping"])

    assert Execution.objects.get(pk=claim.execution_id).job == coroutine
    assert len(engine.claim_runs(cluster.pk, NOW, 10)) == 2


def test_limit_bounds_jobs_and_queued_runs_together(cluster):
    for _ in range(5):
        queued(due_job(overlap="allow"), cause="manual")

    assert len(engine.claim_runs(cluster.pk, NOW, 7)) == 7
    assert len(engine.claim_runs(cluster.pk, NOW, 7)) == 3


def test_jobs_with_many_slots_to_catch_up_share_a_claim_only_within_the_limit(cluster):
    jobs = [due_job(next_run_at=NOW - 9 * HOUR, catch_up="all", overlap="allow") for _ in range(3)]

    assert len(engine.claim_runs(cluster.pk, NOW, 15)) == 20
    assert len(engine.claim_runs(cluster.pk, NOW, 15)) == 10
    assert all(len(ledger(job)) == 10 for job in jobs)


def test_claim_that_takes_too_long_leaves_the_rest_for_the_next_claim(cluster, monkeypatch):
    monkeypatch.setattr(claim_module, "PLANNING_SECONDS", -1)
    due_job()
    assert engine.claim_runs(cluster.pk, NOW, 10) == []

    monkeypatch.undo()
    assert len(engine.claim_runs(cluster.pk, NOW, 10)) == 1


@pytest.mark.parametrize("late", [timedelta(0), 3 * HOUR])
def test_query_count_of_a_claim_does_not_grow_with_the_jobs(cluster, late):
    owner = UserFactory()
    counts = []
    for jobs in (10, 60):
        Execution.objects.all().delete()
        Job.objects.all().delete()
        for _ in range(jobs):
            queued(due_job(owner=owner, overlap="allow"), scheduled_for=NOW - HOUR)
        with CaptureQueriesContext(connection) as queries:
            assert len(engine.claim_runs(cluster.pk, NOW + late, 1000)) >= jobs
        counts.append(len(queries))

    # On SQLite, bulk inserts of such rows are split into batches of a few dozen.
    assert counts[1] - counts[0] <= (13 if late else 0)
    assert counts[0] < 15


def test_claim_without_work_makes_few_queries(cluster, django_assert_max_num_queries):
    due_job(next_run_at=NOW + HOUR)

    with django_assert_max_num_queries(4):
        assert engine.claim_runs(cluster.pk, NOW, 10) == []


# Jobs that cannot be planned


def test_error_of_the_database_is_not_taken_for_an_unreadable_schedule(cluster, monkeypatch):
    def fail(*arguments, **options):
        raise OperationalError("away")

    monkeypatch.setattr(claim_module, "plan", fail)
    job = JobFactory(next_run_at=NOW)

    with pytest.raises(OperationalError), transaction.atomic():
        engine.claim_runs(cluster.pk, NOW, 10)

    job.refresh_from_db()
    assert job.status == "pending"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"timezone": "Mars/Olympus"}, id="zone"),
        pytest.param({"cron": "every now and then"}, id="cron"),
        pytest.param({"cron": "61 * * * *"}, id="minute 61"),
        pytest.param({"interval": True, "every": timedelta(seconds=1.5)}, id="interval"),
        pytest.param({"once": True, "run_at": NOW, "timezone": "x" * 64}, id="one-off"),
    ],
)
def test_job_that_cannot_be_planned_fails_alone_and_is_paused(cluster, broken):
    bad, good = due_job(**broken), due_job()

    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)

    assert Execution.objects.get(pk=claim.execution_id).job == good
    row = Execution.objects.get(job=bad)
    assert (row.status, row.scheduled_for, row.finished_at) == ("failed", NOW, NOW)
    assert "cannot be read" in row.error
    bad.refresh_from_db()
    assert (bad.status, bad.next_run_at, bad.revision) == ("paused", None, 2)
    assert "cannot be read" in bad.pause_reason
    event = Event.objects.get(job=bad)
    assert (event.verb, event.door, event.actor) == ("pause", "engine", "engine")


def test_unplannable_job_whose_slot_has_a_row_does_not_affect_other_jobs(cluster):
    bad, good = due_job(cron="no"), due_job()
    ExecutionFactory(job=bad, scheduled_for=NOW, status="succeeded")

    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)

    assert Execution.objects.get(pk=claim.execution_id).job == good
    assert Execution.objects.get(job=bad).status == "succeeded"
    bad.refresh_from_db()
    assert bad.status == "paused"


def test_slot_that_already_has_a_row_does_not_count_towards_max_runs(cluster):
    job = due_job(catch_up="all", max_runs=2, slot_count=1, next_run_at=NOW - HOUR)
    ExecutionFactory(job=job, scheduled_for=NOW - HOUR, status="succeeded")

    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)

    assert Execution.objects.get(pk=claim.execution_id).scheduled_for == NOW
    job.refresh_from_db()
    assert (job.slot_count, job.next_run_at) == (2, None)


def test_unknown_task_is_claimed_like_any_other_task(cluster):
    due_job(task="tests.gone")

    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)

    assert claim.task == "tests.gone"


# Clock changes, and slots that already have a row


def test_no_slot_is_repeated_after_the_clock_is_set_back(cluster):
    job = due_job()
    engine.claim_runs(cluster.pk, NOW, 10)

    assert engine.claim_runs(cluster.pk, NOW - HOUR, 10) == []
    assert ledger(job) == [("claimed", NOW)]


def test_no_slot_is_repeated_when_a_job_is_rearmed_for_a_past_slot(cluster):
    job = due_job(overlap="allow", catch_up="all")
    ExecutionFactory(job=job, scheduled_for=NOW)
    ExecutionFactory(job=job, scheduled_for=NOW + 2 * HOUR, cause="catch_up")

    assert len(engine.claim_runs(cluster.pk, NOW + 3 * HOUR, 10)) == 2
    assert [status for status, _ in ledger(job)] == ["succeeded", "claimed", "succeeded", "claimed"]


def test_gap_whose_first_slot_already_has_a_row_contains_the_rest(cluster):
    job, other = due_job(), due_job()
    ExecutionFactory(job=job, scheduled_for=NOW)

    assert len(engine.claim_runs(cluster.pk, NOW + 3 * HOUR, 10)) == 2

    assert ledger(job) == [("succeeded", NOW), ("missed", NOW + HOUR), ("claimed", NOW + 3 * HOUR)]
    assert Execution.objects.get(job=job, status="missed").slots == 2
    assert ledger(other) == [("missed", NOW), ("claimed", NOW + 3 * HOUR)]


def test_slot_is_claimed_when_the_previous_slot_already_has_a_row(cluster):
    job = due_job()
    ExecutionFactory(job=job, scheduled_for=NOW)

    assert len(engine.claim_runs(cluster.pk, NOW + HOUR, 10)) == 1
    assert ledger(job) == [("succeeded", NOW), ("claimed", NOW + HOUR)]


def test_manual_run_at_the_time_of_a_slot_does_not_replace_it(cluster):
    job = due_job()
    ExecutionFactory(job=job, scheduled_for=NOW, cause="manual")

    assert len(engine.claim_runs(cluster.pk, NOW, 10)) == 1


def test_one_time_job_whose_slot_already_has_a_row_is_completed(cluster):
    job = due_job(once=True, run_at=NOW)
    ExecutionFactory(job=job, scheduled_for=NOW)

    assert engine.claim_runs(cluster.pk, NOW, 10) == []
    job.refresh_from_db()
    assert job.status == "completed"


# Queued runs


def test_queued_run_is_claimed_with_its_attempt_number(cluster):
    job = due_job(next_run_at=NOW + HOUR)
    row = queued(job, attempt=2)

    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)

    row.refresh_from_db()
    assert (claim.execution_id, claim.attempt) == (row.pk, 2)
    assert (row.status, row.cluster, row.available_at) == ("claimed", cluster, None)
    job.refresh_from_db()
    assert (job.run_count, job.slot_count) == (0, 0)


@pytest.mark.parametrize("status", ["pending", "paused", "cancelled", "completed", "failed", "running"])
def test_manual_run_is_claimed_and_counted_whatever_the_job_status(cluster, status):
    job = due_job(status=status, next_run_at=NOW + HOUR if status == "pending" else None)
    for _ in range(2):
        queued(job, cause="manual")
    other = due_job(next_run_at=NOW + HOUR)
    queued(other, cause="manual")

    assert len(engine.claim_runs(cluster.pk, NOW, 10)) == 3
    assert dict(Job.objects.values_list("pk", "run_count")) == {job.pk: 2, other.pk: 1}
    assert not Job.objects.exclude(slot_count=0).exists()


def test_manual_run_that_was_handed_back_counts_once(cluster):
    job = due_job(next_run_at=NOW + HOUR)
    queued(job, cause="manual")
    engine.claim_runs(cluster.pk, NOW, 10)
    engine.hand_back(cluster.pk, NOW)

    assert len(engine.claim_runs(cluster.pk, NOW, 10)) == 1
    job.refresh_from_db()
    assert job.run_count == 1


@pytest.mark.parametrize(
    ("job_fields", "row_fields", "expected"),
    [
        pytest.param({"status": "cancelled", "next_run_at": None}, {"attempt": 1}, "failed", id="cancel"),
        pytest.param({"status": "paused", "next_run_at": None}, {"attempt": 1}, "failed", id="pause"),
        pytest.param({"status": "paused", "next_run_at": None}, {}, "cancelled", id="pause, not started"),
        pytest.param(
            {"status": "cancelled", "next_run_at": None},
            {"attempt": 1, "cause": "manual"},
            "failed",
            id="cancel, retry of a manual run",
        ),
        pytest.param({"deleted_at": NOW}, {"cause": "manual"}, "cancelled", id="delete, manual run"),
    ],
)
def test_queued_run_of_a_stopped_job_is_not_claimed_but_ended(cluster, job_fields, row_fields, expected):
    """A concurrent settle and stop can leave a queued run behind: neither sees the other's change."""
    job = due_job(**{"next_run_at": NOW + HOUR} | job_fields)
    row = queued(job, error="it failed", **row_fields)

    assert engine.claim_runs(cluster.pk, NOW, 10) == []

    row.refresh_from_db()
    assert (row.status, row.finished_at, row.available_at) == (expected, NOW, None)
    assert row.reason == "The job was stopped before this run."
    assert row.error == "it failed"


def test_retry_of_a_manual_run_is_claimed_while_the_job_is_paused(cluster):
    queued(due_job(status="paused", next_run_at=None), cause="manual", attempt=1)

    assert len(engine.claim_runs(cluster.pk, NOW, 10)) == 1


@pytest.mark.parametrize(("attempt", "status"), [(0, "cancelled"), (1, "failed")])
def test_queued_run_of_an_inactive_owner_ends_together_with_its_one_time_job(cluster, attempt, status):
    job = due_job(once=True, run_at=NOW, status="running", next_run_at=None, owner__is_active=False)
    row = queued(job, attempt=attempt)

    assert engine.claim_runs(cluster.pk, NOW, 10) == []

    row.refresh_from_db()
    assert (row.status, row.reason) == (status, "The owner's account is not active.")
    job.refresh_from_db()
    assert job.status == "failed"
    assert job.last_run_at == (NOW if attempt else None)
    assert engine.wake_up_at(NOW) is None


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"attempt": 1, "error": "no route"}, "failed"), ({"cause": "manual"}, "cancelled")],
)
def test_queued_run_ends_if_its_job_has_another_task_now(cluster, fields, status):
    job = due_job(next_run_at=NOW + HOUR, task="notify", last_error="before")
    row = queued(job, task="webhook", **fields)

    assert engine.claim_runs(cluster.pk, NOW, 10) == []

    row.refresh_from_db()
    assert (row.status, row.reason) == (status, "The job's action was changed before this run.")
    job.refresh_from_db()
    assert job.last_error == fields.get("error", "before")


def test_ended_queued_run_releases_the_next_waiting_run(cluster):
    job = due_job(next_run_at=NOW + HOUR, overlap="queue")
    queued(job, attempt=1, scheduled_for=NOW - HOUR)
    held = queued(job, available_at=None)
    job.owner.is_active = False
    job.owner.save()

    engine.claim_runs(cluster.pk, NOW, 10)

    held.refresh_from_db()
    assert held.available_at == NOW


def test_queued_run_of_a_deleted_job_ends(cluster):
    row = queued(due_job())
    Execution.objects.update(job=None)
    Job.objects.all().delete()

    assert engine.claim_runs(cluster.pk, NOW, 10) == []
    row.refresh_from_db()
    assert (row.status, row.reason) == ("cancelled", "The job no longer exists.")


def test_slots_of_an_inactive_owner_are_skipped_and_the_schedule_continues(cluster):
    job = due_job(owner__is_active=False)
    once = due_job(owner=job.owner, once=True, run_at=NOW)

    assert engine.claim_runs(cluster.pk, NOW, 10) == []

    assert ledger(job) == ledger(once) == [("skipped", NOW)]
    job.refresh_from_db()
    once.refresh_from_db()
    assert (job.status, job.next_run_at) == ("pending", NOW + HOUR)
    assert once.status == "failed"


# Changes committed before the claim


@pytest.mark.parametrize("verb", [services.pause, services.cancel, services.delete])
def test_next_claim_respects_a_committed_stop(cluster, actor, verb, time_machine):
    time_machine.move_to(NOW, tick=False)
    job = due_job(owner=actor.user)

    verb(actor, job.public_id)

    assert engine.claim_runs(cluster.pk, NOW + 5 * HOUR, 10) == []
    assert ledger(job) == [("skipped", NOW)]


def test_next_claim_respects_a_committed_edit(cluster, actor, time_machine):
    time_machine.move_to(NOW - MINUTE, tick=False)
    job = due_job(owner=actor.user)

    services.edit(actor, job.public_id, cron="30 * * * *", task="tests.aping")

    assert engine.claim_runs(cluster.pk, NOW, 10) == []
    (claim,) = engine.claim_runs(cluster.pk, NOW + 30 * MINUTE, 10)
    assert claim.task == "tests.aping"
    assert ledger(job) == [("claimed", NOW + 30 * MINUTE)]


@pytest.mark.parametrize("verb", [services.pause, services.cancel, services.delete])
def test_stop_withdraws_runs_that_were_claimed_but_not_started(cluster, actor, verb, time_machine):
    time_machine.move_to(NOW, tick=False)
    job = due_job(owner=actor.user)
    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)

    verb(actor, job.public_id)

    assert engine.start_runs(cluster.pk, 0, [claim.execution_id], NOW) == []
    assert ledger(job) == [("cancelled", NOW)]


# Concurrency


def _call_concurrently(*calls):
    barrier = Barrier(len(calls))

    def call(function):
        barrier.wait()
        try:
            return function()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call, function) for function in calls]]


@pytest.mark.django_db(transaction=True)
def test_concurrent_claims_never_take_a_slot_twice():
    owner = UserFactory()
    jobs = [due_job(owner=owner, overlap="allow") for _ in range(60)]
    for job in jobs[:20]:
        queued(job, cause="manual")
    workers = [new_cluster(), new_cluster()]

    def claim_all(cluster):
        taken = []
        for _ in range(40):
            taken += engine.claim_runs(cluster.pk, NOW, 5)
        return taken

    results = _call_concurrently(*[lambda cluster=cluster: claim_all(cluster) for cluster in workers])

    ids = [claim.execution_id for taken in results for claim in taken]
    assert len(ids) == len(set(ids)) == 80
    assert Execution.objects.count() == 80
    rows = Execution.objects.exclude(cause="manual").values_list("job_id", "scheduled_for")
    assert Counter(rows) == {(job.pk, NOW): 1 for job in jobs}
    assert set(Job.objects.values_list("next_run_at", flat=True)) == {NOW + HOUR}


@pytest.mark.django_db(transaction=True)
def test_concurrent_cancels_and_claims_leave_every_job_consistent(actor, time_machine):
    time_machine.move_to(NOW, tick=False)
    cluster = new_cluster()
    jobs = [due_job(owner=actor.user) for _ in range(30)]
    for job in jobs:
        queued(job, cause="manual")

    def cancel_all():
        return [services.cancel(actor, job.public_id) for job in jobs]

    def claim_all():
        return [engine.claim_runs(cluster.pk, NOW, 3) for _ in range(40)]

    _call_concurrently(cancel_all, claim_all)
    engine.claim_runs(cluster.pk, NOW, 100)

    assert set(Job.objects.values_list("status", flat=True)) == {"cancelled"}
    scheduled = Execution.objects.exclude(cause="manual")
    assert Counter(scheduled.values_list("job", flat=True)) == {job.pk: 1 for job in jobs}
    assert set(Execution.objects.values_list("status", flat=True)) <= {"cancelled", "skipped"}


@pytest.mark.django_db(transaction=True)
def test_locked_job_is_left_for_the_next_claim(cluster):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    held, free = due_job(overlap="allow"), due_job()
    queued(held, cause="manual")

    def claim():
        return engine.claim_runs(cluster.pk, NOW, 10)

    with transaction.atomic():
        Job.objects.select_for_update().get(pk=held.pk)
        (taken,) = _call_concurrently(claim)

    assert [Execution.objects.get(pk=item.execution_id).job for item in taken] == [free]
    assert len(claim()) == 2


# Waking up


def test_wake_up_time_is_the_earliest_of_jobs_and_queued_runs():
    assert engine.wake_up_at(NOW) is None
    JobFactory(next_run_at=NOW + HOUR)
    assert engine.wake_up_at(NOW) == NOW + HOUR
    job = JobFactory(paused=True)
    ExecutionFactory(job=job, status="queued", available_at=NOW)
    ExecutionFactory(job=job, status="queued", scheduled_for=NOW)
    assert engine.wake_up_at(NOW) == NOW
    assert engine.wake_up_at(NOW, exclude_tasks=["tests.ping"]) is None
    assert engine.wake_up_at(NOW, exclude_tasks=["tests.other"]) == NOW


def test_jobs_of_the_next_slot_are_counted_up_to_a_limit():
    JobFactory.create_batch(3, next_run_at=NOW)
    JobFactory(next_run_at=NOW + HOUR)
    JobFactory(next_run_at=NOW, deleted_at=NOW)
    JobFactory(paused=True)

    assert engine.count_due(NOW - HOUR, 10) == 0
    assert engine.count_due(NOW, 10) == 3
    assert engine.count_due(NOW, 2) == 2


def test_job_in_the_trash_does_not_set_the_wake_up_time():
    JobFactory(next_run_at=NOW, deleted_at=NOW)

    assert engine.wake_up_at(NOW) is None
