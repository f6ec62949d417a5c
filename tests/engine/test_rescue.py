"""Rescue of runs from dead or stopping clusters, and of prompts that nobody finished."""

from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.db import OperationalError

from schedules import engine
from schedules.engine import rescue as rescue_module
from schedules.engine.rescue import RESCUES, rescue
from schedules.engine.upkeep import clock_rollback
from schedules.models import FRESH_FOR, AgentRun, Cluster, Execution, Job
from tests.engine.conftest import LEASE, NOW, begin, ledger, new_cluster, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


# Dead clusters and expired leases


def test_silent_cluster_is_retired_and_its_claims_are_released():
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


@pytest.mark.parametrize("is_locked", [True, False])
def test_sweep_goes_on_after_a_lock_timeout_and_after_no_other_error(cluster, monkeypatch, is_locked):
    def fail(now):
        raise OperationalError("odd")

    monkeypatch.setattr(rescue_module, "_retire_dead_clusters", fail)
    monkeypatch.setattr(rescue_module, "is_lock_timeout", lambda error: is_locked)
    row = ExecutionFactory(status="claimed", cluster=cluster, lease_until=NOW - SECOND)

    with nullcontext() if is_locked else pytest.raises(OperationalError):
        engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == ("queued" if is_locked else "claimed")


def test_many_dead_clusters_are_all_retired_in_time(django_assert_max_num_queries):
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
def test_run_with_an_expired_lease_is_released(cluster, status, lease_until, expected):
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
        # A claimed run could have started since its lease ended; a rescued one since now.
        ready_at = lease_until if status == "claimed" else NOW
        assert (row.cluster, row.lease_until, row.available_at) == (None, None, ready_at)
        assert bool(row.reason) == (status == "running")


def test_run_whose_lease_has_not_ended_is_left_alone_when_another_is_rescued(cluster):
    """The other one makes the sweep look at leases at all."""
    rows = [
        ExecutionFactory(
            status=status, cluster=cluster, lease_until=lease_until, scheduled_for=NOW, attempt=attempt
        )
        for status, attempt in (("running", 1), ("claimed", 0))
        for lease_until in (NOW - SECOND, NOW, NOW + SECOND, NOW + LEASE)
    ]

    engine.sweep(NOW)

    for row in rows:
        row.refresh_from_db()
    assert [row.status for row in rows] == ["queued", *["running"] * 3, "queued", *["claimed"] * 3]


def test_rescued_run_uses_up_no_further_slot_of_its_job(cluster):
    job = JobFactory(
        interval=True, every=MINUTE, anchor_at=NOW, next_run_at=NOW, max_runs=2, overlap=Job.Overlap.ALLOW
    )
    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)
    engine.start_runs(cluster.pk, 0, [claim.execution_id], NOW)
    later = NOW + LEASE + SECOND

    engine.sweep(later)
    job.refresh_from_db()
    assert (job.next_run_at, job.slot_count, job.run_count) == (NOW + MINUTE, 1, 1)
    (again,) = engine.claim_runs(cluster.pk, later, 10)
    (started,) = engine.start_runs(cluster.pk, 1, [again.execution_id], later)
    engine.settle_runs(cluster.pk, [outcome_of(started, at=later)])

    job.refresh_from_db()
    assert (job.next_run_at, job.slot_count, job.run_count) == (NOW + MINUTE, 1, 1)
    assert len(engine.claim_runs(cluster.pk, NOW + MINUTE, 10)) == 1
    assert [slot for _, slot in ledger(job)] == [NOW, NOW + MINUTE]


def test_run_whose_workers_keep_dying_is_lost(cluster):
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


# At most once


def lease_ends(cluster):
    engine.sweep(NOW + LEASE + SECOND)


def cluster_falls_silent(cluster):
    cluster.last_seen_at = NOW - FRESH_FOR
    cluster.save()
    engine.sweep(NOW + LEASE + SECOND)


def cluster_is_stopped(cluster):
    engine.hand_back(cluster.pk, NOW + SECOND, also_running=True)


def clock_is_set_back(cluster):
    Execution.objects.update(lease_until=NOW + DAY)
    clock_rollback._correct_timestamps(NOW, is_start=True)
    engine.sweep(NOW + LEASE + SECOND)


LOSSES = [lease_ends, cluster_falls_silent, cluster_is_stopped, clock_is_set_back]


@pytest.mark.parametrize(("lose", "attempts"), [*zip(LOSSES, (1, 3, 3, 1), strict=True)])
def test_started_run_of_an_at_most_once_job_never_starts_again(cluster, lose, attempts):
    job = JobFactory(next_run_at=NOW + DAY, at_most_once=True, attempts=attempts)
    started = begin(cluster, job)

    lose(cluster)

    row = Execution.objects.get()
    assert (row.status, row.attempt, row.lease_until) == ("lost", 1, None)
    assert row.reason.endswith("This job never repeats a run.")
    job.refresh_from_db()
    assert (job.recent, job.last_error) == ("L", row.reason)
    for later in (LEASE, HOUR):
        engine.sweep(NOW + later)
        assert engine.claim_runs(new_cluster().pk, NOW + later, 10) == []
    # The worker that was only frozen may go on, but it changes nothing.
    assert engine.settle_runs(cluster.pk, [outcome_of(started)]) == (0, [])
    assert engine.start_runs(cluster.pk, 1, [row.pk], NOW) == []


@pytest.mark.parametrize(("lose", "attempt"), [*zip(LOSSES, (0, 1, 1, 0), strict=True)])
def test_claimed_run_of_an_at_most_once_job_may_start_later(cluster, lose, attempt):
    """It has not started, or only attempts that reported their failure."""
    job = JobFactory(next_run_at=NOW + DAY, at_most_once=True, attempts=3)
    ExecutionFactory(
        job=job,
        status="claimed",
        cluster=cluster,
        attempt=attempt,
        error="no route" if attempt else "",
        scheduled_for=NOW,
        lease_until=NOW + LEASE,
    )

    lose(cluster)

    (claim,) = engine.claim_runs(new_cluster().pk, NOW + MINUTE, 10)
    assert claim.attempt == attempt


def test_reported_failure_of_an_at_most_once_job_is_retried(cluster):
    job = JobFactory(next_run_at=NOW + DAY, at_most_once=True, attempts=2)
    started = begin(cluster, job)

    engine.settle_runs(cluster.pk, [outcome_of(started, "failed", error="no route", retry_at=NOW)])

    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)
    assert claim.attempt == 1


@pytest.mark.parametrize("lose", LOSSES)
def test_retried_run_of_an_at_most_once_job_does_not_start_a_third_time(cluster, lose):
    job = JobFactory(next_run_at=NOW + DAY, at_most_once=True, attempts=3)
    engine.settle_runs(
        cluster.pk, [outcome_of(begin(cluster, job), "failed", error="no route", retry_at=NOW)]
    )
    (claim,) = engine.claim_runs(cluster.pk, NOW, 10)
    (started,) = engine.start_runs(cluster.pk, 1, [claim.execution_id], NOW)
    assert started.attempt == 2

    lose(cluster)

    row = Execution.objects.get()
    assert (row.status, row.attempt) == ("lost", 2)
    assert engine.claim_runs(new_cluster().pk, NOW + HOUR, 10) == []


@pytest.mark.parametrize("error", ["", "no route"], ids=["first attempt", "after a reported failure"])
def test_run_rescued_before_its_job_became_at_most_once_does_not_start_again(cluster, error):
    job = JobFactory(next_run_at=NOW + DAY, attempts=3)
    begin(cluster, job, error=error, attempt=int(bool(error)))
    lease_ends(cluster)
    assert Execution.objects.get().status == "queued"
    Job.objects.update(at_most_once=True)

    assert engine.claim_runs(cluster.pk, NOW + MINUTE, 10) == []

    row = Execution.objects.get()
    assert (row.status, row.available_at) == ("lost", None)
    assert row.reason == "The worker crashed during this run. This job never repeats a run."


def test_prompt_of_an_at_most_once_job_is_lost_when_its_agent_does_not_complete_it():
    job = JobFactory(task="prompt", next_run_at=NOW + DAY, at_most_once=True)
    held = {"status": "waiting", "attempt": 1, "started_at": NOW, "leased_to": "laptop"}
    rows = [ExecutionFactory(job=job, lease_until=NOW + lease, **held) for lease in (SECOND, -SECOND)]

    engine.sweep(NOW)

    for row in rows:
        row.refresh_from_db()
    assert [row.status for row in rows] == ["waiting", "lost"]
    assert rows[1].error == rows[1].reason
    assert rows[1].reason.startswith("The agent didn't complete it in time.")


# Prompts


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"started_at": NOW - DAY - SECOND}, "failed", id="waited a day"),
        pytest.param({"started_at": NOW - DAY}, "waiting", id="waited less than a day"),
        pytest.param(
            {"started_at": NOW - HOUR, "scheduled_for": NOW - DAY - HOUR}, "waiting", id="caught up late"
        ),
        pytest.param(
            {"started_at": NOW - 2 * DAY, "lease_until": NOW + HOUR},
            "waiting",
            id="an agent is working on it",
        ),
        pytest.param(
            {"started_at": NOW - 2 * DAY, "lease_until": NOW - HOUR}, "failed", id="the agent's lease expired"
        ),
    ],
)
def test_prompt_that_waited_too_long_fails(fields, expected):
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


def test_prompt_of_a_deleted_job_is_cancelled():
    ExecutionFactory(status="waiting", started_at=NOW)
    Execution.objects.update(job=None)

    engine.sweep(NOW)

    assert Execution.objects.get().status == "cancelled"


@pytest.mark.parametrize(
    "stopped",
    [
        pytest.param({"status": "cancelled", "next_run_at": None}, id="cancelled"),
        pytest.param({"deleted_at": NOW}, id="deleted"),
    ],
)
@pytest.mark.parametrize(("lease", "expected"), [(HOUR, "waiting"), (-HOUR, "cancelled")])
def test_prompt_of_a_stopped_job_is_cancelled_when_its_lease_ends(stopped, lease, expected):
    job = JobFactory(task="prompt", cron="0 * * * *", **stopped)
    row = ExecutionFactory(job=job, status="waiting", attempt=1, leased_to="laptop", lease_until=NOW + lease)

    engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == expected
    job.refresh_from_db()
    assert job.recent == ("C" if expected == "cancelled" else "")
    if expected == "cancelled":
        assert row.reason == "The job was stopped before an agent finished this prompt."


@pytest.mark.parametrize("cause", ["schedule", "manual"])
@pytest.mark.parametrize("lease", [{}, {"leased_to": "laptop", "lease_until": NOW - HOUR}])
def test_prompt_of_a_paused_job_stays(cause, lease):
    job = JobFactory(task="prompt", cron="0 * * * *", status="paused", next_run_at=None)
    row = ExecutionFactory(job=job, status="waiting", attempt=1, cause=cause, **lease)

    engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == "waiting"


@pytest.mark.parametrize("resume", [engine.rearm, lambda job, now: engine.rearm_each([job], now)])
def test_prompt_that_waited_during_a_long_pause_gets_a_whole_day_after_it(resume):
    job = JobFactory(task="prompt", cron="0 * * * *", status="paused", next_run_at=None, paused_at=NOW - HOUR)
    row = ExecutionFactory(job=job, status="waiting", attempt=1, started_at=NOW - 3 * DAY)
    resume(job, NOW)

    engine.sweep(NOW + DAY)
    row.refresh_from_db()
    assert row.status == "waiting"

    engine.sweep(NOW + DAY + SECOND)
    row.refresh_from_db()
    assert row.status == "failed"


def test_prompt_of_a_paused_job_that_is_never_repeated_is_lost_when_its_agent_does_not_complete_it():
    paused = {"status": "paused", "next_run_at": None}
    job = JobFactory(task="prompt", cron="0 * * * *", at_most_once=True, **paused)
    held = {"attempt": 1, "leased_to": "laptop", "lease_until": NOW - SECOND}
    row = ExecutionFactory(job=job, status="waiting", **held)

    engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == "lost"


# Handing back


def test_single_claims_of_this_cluster_can_be_released(cluster):
    mine, kept, started, foreign = [
        ExecutionFactory(status=status, cluster=who, lease_until=NOW + MINUTE)
        for status, who in (
            ("claimed", cluster),
            ("claimed", cluster),
            ("running", cluster),
            ("claimed", new_cluster()),
        )
    ]

    assert engine.release_claims(cluster.pk, [mine.pk, started.pk, foreign.pk], NOW) == 1

    for row in (mine, kept, started, foreign):
        row.refresh_from_db()
    assert (mine.status, mine.cluster, mine.lease_until, mine.available_at) == ("queued", None, None, NOW)
    assert [row.status for row in (kept, started, foreign)] == ["claimed", "running", "claimed"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["queued", "queued", "running"]),
        ({"only": ["tests.ping"]}, ["queued", "claimed", "running"]),
        ({"only": []}, ["claimed", "claimed", "running"]),
        ({"also_running": True}, ["queued", "queued", "queued"]),
    ],
)
def test_hand_back_releases_claimed_runs_and_on_request_running_ones(cluster, options, expected):
    claimed = {"status": "claimed", "cluster": cluster, "lease_until": NOW + LEASE}
    rows = [
        ExecutionFactory(**claimed).pk,
        ExecutionFactory(**claimed, job=JobFactory(task="tests.aping")).pk,
        begin(cluster, JobFactory()).execution_id,
    ]
    other = ExecutionFactory(**claimed | {"cluster": new_cluster()})

    count = engine.hand_back(cluster.pk, NOW + SECOND, **options)

    assert [Execution.objects.get(pk=pk).status for pk in rows] == expected
    assert count == expected.count("queued")
    assert Execution.objects.filter(status="queued", available_at=NOW + SECOND, cluster=None).count() == count
    other.refresh_from_db()
    assert other.status == "claimed"


def test_run_that_was_handed_back_is_claimed_by_another_cluster(cluster):
    job = JobFactory(next_run_at=NOW, cron="0 * * * *")
    engine.claim_runs(cluster.pk, NOW, 10)
    engine.hand_back(cluster.pk, NOW)
    other = new_cluster()

    (claim,) = engine.claim_runs(other.pk, NOW, 10)

    assert engine.start_runs(cluster.pk, 0, [claim.execution_id], NOW) == []
    assert len(engine.start_runs(other.pk, 0, [claim.execution_id], NOW)) == 1
    assert ledger(job) == [("running", NOW)]


@pytest.mark.parametrize(
    ("attempt", "stop", "expected"),
    [
        (1, {}, "queued"),
        (RESCUES, {}, "queued"),
        (1 + RESCUES, {}, "lost"),
        (1, {"status": "cancelled", "next_run_at": None}, "lost"),
        (1, {"status": "paused", "next_run_at": None}, "lost"),
        (1, {"deleted_at": NOW}, "lost"),
    ],
)
def test_rescued_run_is_queued_again_unless_its_workers_keep_dying(cluster, attempt, stop, expected):
    job = JobFactory(next_run_at=NOW + HOUR)
    begin(cluster, job, attempt=attempt - 1)
    Job.objects.update(**stop)

    assert rescue(Execution.objects.all(), NOW, "why") == 1

    row = Execution.objects.get()
    assert (row.status, row.lease_until) == (expected, None)
    job.refresh_from_db()
    if expected == "lost":
        assert (row.finished_at, job.recent) == (NOW, "L")
        assert "wasn't started again" in job.last_error
    else:
        assert (row.available_at, row.reason, job.recent) == (NOW, "why", "")
        assert [(each["attempt"], each["error"]) for each in row.earlier_attempts] == [(attempt, "why")]


@pytest.mark.parametrize(
    ("lease_until", "ended_at"),
    [(NOW - HOUR, NOW - HOUR), (NOW + MINUTE, NOW), (NOW - 3 * HOUR, NOW - 2 * HOUR), (None, NOW)],
)
def test_agent_whose_worker_died_has_ended_when_the_lease_did(cluster, lease_until, ended_at):
    """Its row stayed open for ever, and counted for no limit of the day."""
    begin(cluster, JobFactory(task="prompt", next_run_at=NOW + HOUR))
    Execution.objects.update(lease_until=lease_until)
    row = Execution.objects.get()
    values = {"execution": row, "owner": row.owner, "runner": "one", "kind": "claude"}
    for attempt in (row.attempt, row.attempt + 1):
        AgentRun.objects.create(attempt=attempt, started_at=NOW - 2 * HOUR, **values)

    rescue(Execution.objects.all(), NOW, "why")

    cut_off, other = AgentRun.objects.order_by("attempt")
    assert (cut_off.verdict, cut_off.words, cut_off.ended_at) == ("unknown", "why", ended_at)
    assert (other.verdict, other.ended_at) == ("", None)


def test_one_time_job_fails_when_its_run_is_lost(cluster):
    job = JobFactory(once=True, run_at=NOW, cron="", next_run_at=None, status="running")
    begin(cluster, job, attempt=RESCUES)

    rescue(Execution.objects.all(), NOW, "why")

    job.refresh_from_db()
    assert job.status == "failed"


def test_run_of_a_purged_job_is_lost(cluster):
    begin(cluster, JobFactory())
    Execution.objects.update(job=None)

    rescue(Execution.objects.all(), NOW, "why")

    assert Execution.objects.get().status == "lost"


# Runs that were started together with others


def test_uncalled_run_is_queued_as_if_it_had_not_been_started(cluster):
    mine, other_attempt, settled = (begin(cluster, JobFactory(), attempt=attempt) for attempt in (0, 1, 0))
    foreign = begin(new_cluster(), JobFactory())
    engine.settle_runs(cluster.pk, [outcome_of(settled)])
    ids = [run.execution_id for run in (mine, other_attempt, settled, foreign)]

    assert engine.release_uncalled(cluster.pk, ids, NOW) == 1

    row = Execution.objects.get(pk=mine.execution_id)
    assert (row.status, row.attempt, row.available_at) == ("queued", 0, NOW)
    assert (row.cluster, row.lease_until, row.started_at, row.lateness) == (None, None, None, None)
    (claim,) = [claim for claim in engine.claim_runs(cluster.pk, NOW, 10) if claim.execution_id == row.pk]
    assert claim.attempt == 0
