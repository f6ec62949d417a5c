"""What is tidied in passing."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine import sweeping
from schedules.models import FRESH_FOR, Event, Execution, Job, Worker
from tests.engine.conftest import LEASE, NOW, begin, ledger, new_worker, outcome_of
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
    assert engine.wake_up_at(NOW, but_not=["tests.ping"]) is None


def test_trash_wakes_nobody():
    JobFactory(next_run_at=NOW, deleted_at=NOW)

    assert engine.wake_up_at(NOW) is None


# Dead workers and leases


def test_silent_cluster_is_given_up_and_its_claims_are_free():
    dead = new_worker(last_seen_at=NOW - FRESH_FOR - SECOND)
    alive = new_worker(last_seen_at=NOW)
    rows = [
        ExecutionFactory(status="claimed", worker=worker, lease_until=NOW + LEASE) for worker in (dead, alive)
    ]

    engine.sweep(NOW)

    for row in rows:
        row.refresh_from_db()
    assert [row.status for row in rows] == ["queued", "claimed"]
    assert Worker.objects.get(stopped_at=dead.last_seen_at).pk == dead.pk
    assert Worker.objects.get(stopped_at=None) == alive


def test_many_dead_clusters_are_all_given_up_in_time(django_assert_max_num_queries):
    for _ in range(25):
        new_worker(last_seen_at=NOW - HOUR)

    for _ in range(3):
        engine.sweep(NOW)

    assert not Worker.objects.filter(stopped_at=None).exists()
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
def test_lease_that_ran_out_frees_the_run(worker, status, lease_until, expected):
    row = ExecutionFactory(
        status=status,
        worker=worker,
        lease_until=lease_until,
        scheduled_for=NOW,
        attempt=int(status != "claimed"),
    )

    engine.sweep(NOW)

    row.refresh_from_db()
    assert row.status == expected
    if expected == "queued":
        assert (row.worker, row.lease_until, row.available_at) == (None, None, NOW)
        assert bool(row.reason) == (status == "running")


def test_run_whose_worker_died_again_and_again_is_lost(worker):
    job = JobFactory(once=True, run_at=NOW, cron="", next_run_at=None, status="running")
    begin(worker, job)
    now = NOW
    for attempt in (2, 3):
        now += LEASE + SECOND
        engine.sweep(now)
        (claim,) = engine.claim(worker.pk, now, 10)
        (started,) = engine.start(worker.pk, claim.attempt, [claim.execution_id], now)
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
        assert (row.reason, row.finished_at, row.lease_until) == ("expired", NOW, None)
        assert job.last_error == row.error == "No agent completed this prompt within 24 hours."


def test_expired_prompt_of_a_job_that_is_gone_still_ends():
    ExecutionFactory(status="waiting", started_at=NOW - 2 * DAY)
    Execution.objects.update(job=None)

    engine.sweep(NOW)

    assert Execution.objects.get().status == "failed"


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
    assert Event.objects.get().verb == "complete"


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
    monkeypatch.setattr(sweeping, "RESUMING", -1)
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


# A clock that was set back


@pytest.fixture
def after_setback(monkeypatch):
    """As in a cluster that has just been started."""
    monkeypatch.setattr(sweeping, "_after_setback", sweeping._AfterSetback())


def hourly(**fields):
    return JobFactory(**{"cron": "0 * * * *", "next_run_at": NOW, "created_at": NOW} | fields)


@pytest.mark.parametrize("catch_up", ["once", "all", "none"])
def test_job_that_a_clock_far_ahead_moved_on_is_armed_for_now(after_setback, catch_up):
    job, worker = hourly(catch_up=catch_up, overlap="allow"), new_worker()
    engine.claim(worker.pk, NOW + DAY, 100)
    engine.sweep(NOW + DAY)
    set_back = NOW + 90 * MINUTE

    engine.sweep(set_back)

    job.refresh_from_db()
    assert job.next_run_at == NOW + 2 * HOUR
    gap = job.executions.filter(status="missed").first()
    assert gap is None or (gap.scheduled_for, gap.last_slot, gap.slots) == (NOW, NOW + HOUR, 2)
    for hour in range(2, 27):
        engine.claim(worker.pk, NOW + hour * HOUR, 10)
    rows = job.executions.values_list("scheduled_for", "slots")
    assert sorted(NOW + number * HOUR for number in range(27)) == sorted(
        slot + number * HOUR for slot, count in rows for number in range(count)
    )


def test_run_of_a_slot_to_come_leaves_the_line_it_would_hold_up(after_setback):
    """It was put into the line while the clock was ahead, and was let go when the run before it ended."""
    job, worker = hourly(overlap="queue", max_runs=5), new_worker()
    engine.claim(worker.pk, NOW, 10)
    [running] = engine.start(worker.pk, 0, [job.executions.get().pk], NOW)
    engine.claim(worker.pk, NOW + DAY, 10)
    engine.settle(worker.pk, [outcome_of(running, at=NOW + DAY)])
    engine.sweep(NOW + DAY)

    engine.sweep(NOW + 90 * MINUTE)

    job.refresh_from_db()
    assert (job.next_run_at, job.slot_count, job.run_count) == (NOW + 2 * HOUR, 1, 1)
    assert ledger(job) == [("succeeded", NOW), ("missed", NOW + HOUR)]
    [claim] = engine.claim(worker.pk, NOW + 2 * HOUR, 10)
    assert job.executions.get(pk=claim.execution_id).scheduled_for == NOW + 2 * HOUR


def test_run_that_waited_behind_a_slot_to_come_is_let_go(after_setback, worker):
    job = hourly(overlap="queue", next_run_at=NOW + 2 * DAY)
    ahead = ExecutionFactory(job=job, status="queued", scheduled_for=NOW + DAY, available_at=NOW + DAY)
    behind = ExecutionFactory(job=job, status="queued", scheduled_for=NOW - HOUR, available_at=None)

    engine.sweep(NOW)

    assert not Execution.objects.filter(pk=ahead.pk).exists()
    assert [claim.execution_id for claim in engine.claim(worker.pk, NOW, 10)] == [behind.pk]


def test_what_a_clock_that_was_ahead_let_go_waits_no_longer(after_setback, worker):
    job = JobFactory(paused=True)
    let_go = ExecutionFactory(
        job=job, status="queued", cause="manual", available_at=NOW + DAY, scheduled_for=NOW
    )
    retry = ExecutionFactory(
        job=job, status="queued", attempt=1, available_at=NOW + DAY, scheduled_for=NOW - HOUR
    )

    engine.sweep(NOW)

    assert [claim.execution_id for claim in engine.claim(worker.pk, NOW, 10)] == [let_go.pk]
    retry.refresh_from_db()
    assert retry.available_at == NOW + DAY


def test_cluster_that_died_while_the_clock_was_ahead_is_given_up_in_time(after_setback):
    dead = new_worker(last_seen_at=NOW + DAY)
    row = ExecutionFactory(status="claimed", worker=dead, lease_until=NOW + DAY + LEASE)

    engine.sweep(NOW)
    engine.sweep(NOW + FRESH_FOR + SECOND)

    dead.refresh_from_db()
    row.refresh_from_db()
    assert dead.stopped_at == NOW
    assert (row.status, row.available_at) == ("queued", NOW + FRESH_FOR + SECOND)


def test_lease_from_a_clock_that_was_ahead_runs_out_in_time(after_setback, worker):
    row = ExecutionFactory(status="claimed", worker=worker, lease_until=NOW + DAY + LEASE)

    engine.sweep(NOW)
    engine.sweep(NOW + LEASE + SECOND)

    row.refresh_from_db()
    assert (row.status, row.available_at) == ("queued", NOW + LEASE + SECOND)


def test_job_is_armed_for_now_also_where_the_clock_was_set_back_in_the_night(after_setback):
    job = hourly(next_run_at=NOW + DAY)

    engine.sweep(NOW)

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

    engine.sweep(NOW)

    job.refresh_from_db()
    assert job.next_run_at == fields["next_run_at"]


def test_jobs_are_looked_at_again_only_when_the_clock_was_set_back(after_setback):
    engine.sweep(NOW)
    job = hourly(next_run_at=NOW + 3 * DAY)

    engine.sweep(NOW + MINUTE)
    job.refresh_from_db()
    assert job.next_run_at == NOW + 3 * DAY

    engine.sweep(NOW - 5 * MINUTE)
    job.refresh_from_db()
    assert job.next_run_at == NOW


def test_many_jobs_are_looked_at_by_and_by(after_setback, monkeypatch):
    jobs = [hourly(next_run_at=NOW + DAY) for _ in range(7)]
    monkeypatch.setattr(sweeping, "LOOKED_AT", 3)
    monkeypatch.setattr(sweeping, "LOOKING", 0)
    monkeypatch.setattr(sweeping._after_setback, "_last_looked_at", 0)

    for _ in range(3):
        sweeping._after_setback._look_at_some(NOW)

    assert set(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("next_run_at", flat=True)) == {
        NOW + HOUR
    }
    assert sweeping._after_setback._last_looked_at is None
