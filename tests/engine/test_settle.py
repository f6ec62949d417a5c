"""Leases, outcomes and retries of runs."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine.settle import LONGEST_BACKOFF, LONGEST_WAIT
from schedules.models import Execution, Job
from tests.engine.conftest import LEASE, NOW, begin, new_cluster, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def one_time(**fields):
    return JobFactory(**{"once": True, "run_at": NOW, "status": "running", "next_run_at": None} | fields)


# Settling


@pytest.mark.parametrize(
    ("status", "fields", "letter", "streak"),
    [
        ("succeeded", {"result": {"id": "x"}}, "S", 0),
        ("failed", {"error": "no", "traceback": "at …"}, "F", 3),
        ("lost", {"error": "gone"}, "L", 3),
        ("cancelled", {"reason": "taken back"}, "C", 2),
    ],
)
def test_outcome_is_written_to_the_run_and_to_its_job(cluster, status, fields, letter, streak):
    job = JobFactory(recent="SF", failure_streak=2, last_error="old", next_run_at=NOW + HOUR)
    started = begin(cluster, job)

    assert engine.settle_runs(cluster.pk, [outcome_of(started, status, at=NOW + SECOND, **fields)]) == (1, [])

    row = Execution.objects.get()
    assert (row.status, row.finished_at, row.lease_until) == (status, NOW + SECOND, None)
    assert {name: getattr(row, name) for name in fields} == fields
    job.refresh_from_db()
    assert (job.recent, job.failure_streak) == (f"SF{letter}", streak)
    assert job.last_run_at == NOW + SECOND
    assert job.last_error == ("old" if status == "cancelled" else fields.get("error", ""))
    assert job.status == "pending"


def test_run_is_stamped_with_the_moment_its_task_was_called(cluster):
    known, unknown = (begin(cluster, JobFactory(next_run_at=NOW + HOUR)) for _ in range(2))

    called = {"started_at": NOW + SECOND, "lateness": timedelta(microseconds=1_000_001)}
    engine.settle_runs(cluster.pk, [outcome_of(known, **called), outcome_of(unknown)])

    rows = Execution.objects.order_by("pk").values_list("started_at", "lateness")
    assert list(rows) == [(NOW + SECOND, timedelta(microseconds=1_000_001)), (NOW, timedelta(0))]


def test_many_outcomes_of_one_job_are_written_in_order(cluster):
    job = JobFactory(overlap="allow", recent="S" * 29, failure_streak=7, next_run_at=NOW + HOUR)
    runs = [begin(cluster, job, scheduled_for=NOW - number * MINUTE) for number in range(4)]
    statuses = ["failed", "succeeded", "failed", "lost"]

    engine.settle_runs(
        cluster.pk, [outcome_of(run, status) for run, status in zip(runs, statuses, strict=True)]
    )

    job.refresh_from_db()
    assert (job.recent, job.failure_streak) == ("S" * 26 + "FSFL", 2)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"attempt": 2}, id="a later attempt"),
        pytest.param({"attempt": 0}, id="an earlier attempt"),
        pytest.param({"status": "queued"}, id="queued again"),
        pytest.param({"status": "lost"}, id="lost"),
        pytest.param({"status": "cancelled"}, id="cancelled"),
        pytest.param({"status": "claimed"}, id="claimed again"),
        pytest.param({"cluster": None}, id="no cluster"),
    ],
)
def test_outcome_of_a_run_this_cluster_no_longer_holds_is_ignored(cluster, change):
    job = JobFactory(next_run_at=NOW + HOUR)
    started = begin(cluster, job)
    Execution.objects.update(**change)
    before = Execution.objects.values().get()

    assert engine.settle_runs(cluster.pk, [outcome_of(started, result="mine")]) == (0, [])

    assert Execution.objects.values().get() == before
    job.refresh_from_db()
    assert (job.recent, job.last_run_at) == ("", None)


def test_run_of_another_cluster_cannot_be_settled(cluster):
    started = begin(cluster, JobFactory())

    assert engine.settle_runs(new_cluster().pk, [outcome_of(started)]) == (0, [])


def test_settling_twice_counts_once(cluster):
    job = JobFactory()
    outcome = outcome_of(begin(cluster, job))

    assert [engine.settle_runs(cluster.pk, [outcome]) for _ in range(2)] == [(1, []), (0, [])]
    job.refresh_from_db()
    assert job.recent == "S"


def test_waiting_prompt_is_neither_finished_nor_in_the_history(cluster):
    job = JobFactory()
    started = begin(cluster, job)

    engine.settle_runs(cluster.pk, [outcome_of(started, "waiting")])

    row = Execution.objects.get()
    assert (row.status, row.finished_at, row.lease_until) == ("waiting", None, None)
    job.refresh_from_db()
    assert job.recent == ""


PAUSED = {"status": "paused", "next_run_at": None}


def test_prompt_of_a_paused_job_waits_in_the_inbox(cluster):
    started = begin(cluster, JobFactory())
    Job.objects.update(**PAUSED)

    engine.settle_runs(cluster.pk, [outcome_of(started, "waiting")])

    assert Execution.objects.get().status == "waiting"


@pytest.mark.parametrize(
    "stop",
    [{"status": "cancelled", "next_run_at": None}, {"deleted_at": NOW}, PAUSED | {"deleted_at": NOW}],
)
def test_prompt_of_a_stopped_job_does_not_wait_for_an_agent(cluster, stop):
    job = JobFactory()
    started = begin(cluster, job)
    Job.objects.update(**stop)

    engine.settle_runs(cluster.pk, [outcome_of(started, "waiting")])

    row = Execution.objects.get()
    assert (row.status, row.finished_at) == ("cancelled", NOW)
    assert "stopped" in row.reason


@pytest.mark.parametrize(
    ("fields", "status", "expected"),
    [
        ({}, "succeeded", "completed"),
        ({}, "failed", "failed"),
        ({}, "lost", "failed"),
        ({}, "cancelled", "completed"),
        ({"once": False, "cron": "0 * * * *"}, "failed", "completed"),
        ({"status": "cancelled"}, "succeeded", "cancelled"),
    ],
)
def test_job_ends_with_its_last_run(cluster, fields, status, expected):
    job = (
        JobFactory(**fields, status=fields.get("status", "running"), next_run_at=None)
        if "cron" in fields
        else (one_time(**fields))
    )

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job), status)])

    job.refresh_from_db()
    assert job.status == expected


def test_job_with_another_live_run_does_not_end(cluster):
    job = one_time()
    manual = begin(cluster, job, cause="manual")

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job), "failed")])
    job.refresh_from_db()
    assert job.status == "running"

    engine.settle_runs(cluster.pk, [outcome_of(manual)])
    job.refresh_from_db()
    assert job.status == "completed"


# Attempts


@pytest.mark.parametrize(
    ("attempt", "backoff", "expected"),
    [
        (1, 10 * SECOND, 10 * SECOND),
        (2, 10 * SECOND, 20 * SECOND),
        (5, 10 * SECOND, 160 * SECOND),
        (9, 10 * MINUTE, LONGEST_BACKOFF),
        (1, 3 * HOUR, 3 * HOUR),
        (4, 3 * HOUR, 3 * HOUR),
        (3, timedelta(0), timedelta(0)),
    ],
)
def test_backoff_doubles_with_jitter_up_to_a_limit(cluster, attempt, backoff, expected):
    job = JobFactory(attempts=10, backoff=backoff)
    run = begin(cluster, job, attempt=attempt - 1)

    waits = [engine.retry_at(run, NOW) - NOW for _ in range(50)]

    assert all(expected * 0.75 <= wait <= expected * 1.25 for wait in waits)
    assert len(set(waits)) > 10 or not expected


@pytest.mark.parametrize("attempt", [1, 2, 9])
def test_fixed_backoff_is_the_same_before_each_retry(cluster, attempt):
    run = begin(
        cluster, JobFactory(attempts=10, backoff=10 * MINUTE, fixed_backoff=True), attempt=attempt - 1
    )

    assert engine.retry_at(run, NOW) - NOW == 10 * MINUTE
    # The receiver asked for a longer wait.
    assert engine.retry_at(run, NOW, 3 * HOUR) - NOW == 3 * HOUR


@pytest.mark.parametrize(
    ("after", "expected"),
    [(HOUR, HOUR), (-HOUR, None), (SECOND, None), (timedelta.max, LONGEST_WAIT)],
)
def test_task_can_request_a_longer_retry_delay(cluster, after, expected):
    run = begin(cluster, JobFactory(attempts=2, backoff=MINUTE))

    wait = engine.retry_at(run, NOW, after) - NOW

    assert wait == expected or (expected is None and 45 * SECOND <= wait <= 75 * SECOND)


@pytest.mark.parametrize(("attempt", "attempts"), [(1, 1), (3, 3), (4, 3)])
def test_run_without_attempts_left_is_not_retried(cluster, attempt, attempts):
    run = begin(cluster, JobFactory(attempts=attempts), attempt=attempt - 1)

    assert engine.retry_at(run, NOW) is None


def test_failed_attempt_waits_in_the_queue_and_runs_again(cluster):
    job = one_time(attempts=2)
    started = begin(cluster, job)

    engine.settle_runs(cluster.pk, [outcome_of(started, "failed", error="no", retry_at=NOW + MINUTE)])

    row = Execution.objects.get()
    assert (row.status, row.available_at, row.error) == ("queued", NOW + MINUTE, "no")
    first = {"attempt": 1, "started_at": NOW.isoformat(), "finished_at": NOW.isoformat(), "error": "no"}
    assert row.earlier_attempts == [first]
    job.refresh_from_db()
    assert (job.status, job.recent) == ("running", "")
    assert engine.claim_runs(cluster.pk, NOW, 10) == []
    (claim,) = engine.claim_runs(cluster.pk, NOW + MINUTE, 10)
    (again,) = engine.start_runs(cluster.pk, claim.attempt, [claim.execution_id], NOW + MINUTE)
    assert again.attempt == 2
    engine.settle_runs(cluster.pk, [outcome_of(again)])
    job.refresh_from_db()
    assert (job.status, job.recent) == ("completed", "S")
    assert Execution.objects.get().earlier_attempts == [first]


def test_only_attempts_that_are_followed_by_another_are_remembered(cluster):
    last, retried = begin(cluster, one_time()), begin(cluster, one_time(attempts=2))

    engine.settle_runs(
        cluster.pk,
        [
            outcome_of(last, "failed", error="no"),
            outcome_of(retried, "failed", error="x" * 1000, retry_at=NOW + MINUTE),
        ],
    )

    assert Execution.objects.get(pk=last.execution_id).earlier_attempts is None
    (attempt,) = Execution.objects.get(pk=retried.execution_id).earlier_attempts
    assert attempt["error"] == "x" * 300


@pytest.mark.parametrize(
    ("stop", "cause", "goes_on"),
    [
        ({"status": "paused", "next_run_at": None}, "schedule", False),
        ({"status": "paused", "next_run_at": None}, "manual", True),
        ({"status": "cancelled", "next_run_at": None}, "schedule", False),
        ({"status": "cancelled", "next_run_at": None}, "manual", False),
        ({"deleted_at": NOW}, "manual", False),
        ({}, "schedule", True),
    ],
)
def test_stop_during_a_run_lets_it_finish_but_prevents_a_retry(cluster, stop, cause, goes_on):
    job = JobFactory(attempts=3)
    started = begin(cluster, job, cause=cause)
    Job.objects.update(**stop)

    engine.settle_runs(cluster.pk, [outcome_of(started, "failed", error="no", retry_at=NOW + MINUTE)])

    row = Execution.objects.get()
    assert (row.status, row.available_at) == (("queued", NOW + MINUTE) if goes_on else ("failed", None))
    assert row.error == "no"
    assert bool(row.reason) is not goes_on


# Leases


def test_lease_is_renewed_only_by_the_cluster_that_holds_it(cluster):
    mine = begin(cluster, JobFactory())
    other = begin(new_cluster(), JobFactory())
    ended = begin(cluster, JobFactory())
    engine.settle_runs(cluster.pk, [outcome_of(ended)])

    engine.renew(cluster.pk, [mine.execution_id, other.execution_id, ended.execution_id], NOW + MINUTE)

    leases = dict(Execution.objects.values_list("pk", "lease_until"))
    assert leases == {
        mine.execution_id: NOW + MINUTE + LEASE,
        other.execution_id: NOW + LEASE,
        ended.execution_id: None,
    }


def test_claims_in_the_queue_of_a_cluster_are_renewed(cluster):
    cluster.probe_returned_at = NOW
    cluster.save()
    rows = [
        ExecutionFactory(
            status=status, cluster=holder, claimed_at=claimed_at, lease_until=NOW, scheduled_for=NOW
        )
        for status, holder, claimed_at in [
            ("claimed", cluster, NOW + SECOND),
            ("claimed", cluster, NOW - SECOND),
            ("running", cluster, NOW + SECOND),
            ("claimed", new_cluster(), NOW + SECOND),
            # In the line of plain functions, which a probe overtakes.
            ("claimed", cluster, NOW - SECOND),
            ("queued", None, None),
        ]
    ]

    engine.renew_claims(cluster.pk, NOW + MINUTE, [row.pk for row in rows[4:]])

    for row in rows:
        row.refresh_from_db()
    assert [row.lease_until > NOW for row in rows] == [True, False, False, False, True, False]


def test_nothing_to_conclude_makes_no_query(django_assert_num_queries):
    with django_assert_num_queries(0):
        engine.conclude([])


def test_query_count_of_settling_does_not_grow_with_the_runs(cluster, django_assert_max_num_queries):
    runs = [begin(cluster, JobFactory()) for _ in range(30)]

    with django_assert_max_num_queries(12):
        assert engine.settle_runs(cluster.pk, [outcome_of(run, "failed") for run in runs]) == (30, [])
