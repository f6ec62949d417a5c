"""Pausing a job, withdrawing its runs, and resuming it."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine import pauses
from schedules.models import Event, Execution, Job
from tests.engine.conftest import NOW, ledger
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def hourly(**fields):
    return JobFactory(**{"cron": "0 * * * *", "next_run_at": NOW, "created_at": NOW} | fields)


def test_pause_skips_due_slots_and_withdraws_runs_that_have_not_started():
    job = hourly(next_run_at=NOW - HOUR)
    ExecutionFactory(job=job, status="queued", scheduled_for=NOW - 2 * HOUR)

    engine.pause(job, NOW, "holiday", until=NOW + HOUR)

    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.revision, job.updated_at) == ("paused", None, 2, NOW)
    assert (job.paused_at, job.paused_until, job.pause_reason) == (NOW, NOW + HOUR, "holiday")
    assert ledger(job) == [("cancelled", NOW - 2 * HOUR), ("skipped", NOW - HOUR)]
    assert Execution.objects.get(status="skipped").slots == 2
    assert not Event.objects.exists()


def test_job_with_an_invalid_schedule_is_paused_with_a_reason():
    job = hourly(timezone="Mars/Olympus")
    ExecutionFactory(job=job, status="queued", attempt=1, scheduled_for=NOW - HOUR)

    pauses.pause_unreadable(job, NOW, "It cannot be read.")

    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.paused_at) == ("paused", None, NOW)
    assert job.pause_reason == job.last_error == "It cannot be read."
    assert job.has_unreadable_schedule
    assert ledger(job) == [("failed", NOW - HOUR)]
    event = Event.objects.get()
    assert (event.verb, event.door, event.after) == ("pause", "engine", {"reason": "It cannot be read."})


def test_second_pause_keeps_the_time_of_the_first():
    job = paused(paused_at=NOW - 3 * HOUR)

    pauses.pause_unreadable(job, NOW, "It cannot be read.")

    job.refresh_from_db()
    assert (job.paused_at, job.paused_until) == (NOW - 3 * HOUR, None)


TOOK = {"attempt": 1, "leased_to": "laptop"}


@pytest.mark.parametrize(
    ("fields", "also_manual", "expected", "before"),
    [
        ({"status": "queued"}, False, "cancelled", "this run"),
        ({"status": "queued", "attempt": 1}, False, "failed", "the next attempt"),
        ({"status": "claimed"}, False, "cancelled", "this run"),
        ({"status": "claimed", "attempt": 2}, False, "failed", "the next attempt"),
        ({"status": "running", "attempt": 1}, True, "running", None),
        ({"status": "waiting", "attempt": 1}, False, "cancelled", "an agent finished this prompt"),
        ({"status": "waiting", "attempt": 1}, True, "cancelled", "an agent finished this prompt"),
        ({"status": "waiting", "attempt": 1, "cause": "manual"}, False, "waiting", None),
        ({"status": "waiting", "lease_until": NOW + HOUR, **TOOK}, True, "waiting", None),
        (
            {"status": "waiting", "lease_until": NOW - HOUR, **TOOK},
            True,
            "cancelled",
            "an agent finished this prompt",
        ),
        ({"status": "queued", "cause": "manual"}, False, "queued", None),
        ({"status": "queued", "cause": "manual"}, True, "cancelled", "this run"),
        ({"status": "succeeded"}, True, "succeeded", None),
    ],
)
def test_withdraw_ends_runs_that_have_not_started(fields, also_manual, expected, before):
    row = ExecutionFactory(available_at=NOW, **fields)

    engine.withdraw(row.job, NOW, "stopped", also_manual=also_manual)

    row.refresh_from_db()
    assert row.status == expected
    if before:
        assert row.reason == f"The job was stopped before {before}."
        assert (row.finished_at, row.available_at, row.lease_until) == (NOW, None, None)


def test_prompt_that_an_agent_holds_does_not_keep_others_from_being_withdrawn():
    held = ExecutionFactory(status="waiting", lease_until=NOW + HOUR, **TOOK)
    later = ExecutionFactory(status="queued", job=held.job)

    engine.withdraw(held.job, NOW, "stopped")

    assert statuses_of(held, later) == ["waiting", "cancelled"]


def statuses_of(*rows: Execution) -> list[str]:
    return [Execution.objects.get(pk=row.pk).status for row in rows]


def test_job_keeps_the_error_of_a_run_withdrawn_between_attempts():
    job = hourly(recent="S")
    row = ExecutionFactory(job=job, status="queued", attempt=2, error="no route", available_at=NOW + HOUR)

    engine.withdraw(job, NOW, "cancelled", also_manual=True)

    job.refresh_from_db()
    row.refresh_from_db()
    assert (job.recent, job.last_error, job.last_run_at, job.failure_streak) == ("SF", "no route", NOW, 1)
    assert (row.status, row.error) == ("failed", "no route")


def test_manual_run_is_released_when_the_run_before_it_is_withdrawn():
    job = hourly(overlap="queue")
    ExecutionFactory(job=job, status="queued", attempt=1, available_at=NOW + HOUR)
    manual = ExecutionFactory(job=job, status="queued", cause="manual", scheduled_for=NOW)

    engine.withdraw(job, NOW, "paused")

    manual.refresh_from_db()
    assert manual.available_at == NOW


@pytest.mark.parametrize(
    "pause",
    [
        lambda job: engine.pause(job, NOW, "holiday"),
        lambda job: engine.pause_each([job], NOW, "holiday"),
        lambda job: pauses.pause_unreadable(job, NOW, "It cannot be read."),
    ],
)
def test_pause_keeps_prompts_that_wait_for_an_agent(pause):
    job = hourly(next_run_at=NOW + HOUR)
    prompt = ExecutionFactory(job=job, status="waiting", attempt=1)
    expired = ExecutionFactory(job=job, status="waiting", lease_until=NOW - HOUR, **TOOK)
    queued = ExecutionFactory(job=job, status="queued")

    pause(job)

    assert statuses_of(prompt, expired, queued) == ["waiting", "waiting", "cancelled"]


def test_withdraw_does_not_affect_other_jobs():
    row = ExecutionFactory(status="queued")

    engine.withdraw(JobFactory(), NOW, "stopped", also_manual=True)

    row.refresh_from_db()
    assert row.status == "queued"


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


def test_expired_pause_is_ended_and_its_slots_are_skipped():
    job = paused(failure_streak=4)

    engine.sweep(NOW - SECOND)
    job.refresh_from_db()
    assert job.status == "paused"

    engine.sweep(NOW)
    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.revision) == ("pending", NOW + HOUR, 2)
    assert (job.paused_at, job.paused_until, job.pause_reason, job.failure_streak) == (None, None, "", 4)
    row = Execution.objects.get()
    assert (row.status, row.slots, row.reason) == ("skipped", 3, "Paused: holiday")
    assert (row.scheduled_for, row.last_slot) == (NOW - 2 * HOUR, NOW)
    assert Event.objects.get().verb == "resume"


def test_pause_and_resume_of_several_jobs_count_as_changes_of_each():
    """A form that shows an earlier revision is then refused."""
    jobs = [hourly(next_run_at=NOW + HOUR), hourly(next_run_at=NOW + HOUR)]

    engine.pause_each(jobs, NOW, "holiday")
    assert set(Job.objects.values_list("status", "revision", "updated_at")) == {("paused", 2, NOW)}

    engine.rearm_each(list(Job.objects.all()), NOW + SECOND)
    assert set(Job.objects.values_list("status", "revision", "updated_at")) == {("pending", 3, NOW + SECOND)}


def test_slot_at_the_time_of_the_pause_is_skipped_once():
    job = paused(paused_at=NOW - 2 * HOUR)
    ExecutionFactory(job=job, scheduled_for=NOW - 2 * HOUR, status="skipped")

    engine.sweep(NOW)

    assert ledger(job) == [("skipped", NOW - 2 * HOUR), ("skipped", NOW - HOUR)]
    assert Execution.objects.get(scheduled_for=NOW - HOUR).slots == 2


def test_slot_at_the_time_of_the_pause_is_not_skipped_again_once_its_row_is_pruned():
    job = paused(paused_at=NOW - 2 * HOUR)

    engine.sweep(NOW)

    assert ledger(job) == [("skipped", NOW - HOUR)]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"once": True, "cron": "", "run_at": NOW - HOUR}, id="one-time"),
        pytest.param({"ends_at": NOW - HOUR}, id="ended"),
        pytest.param({"max_runs": 1, "slot_count": 1}, id="all runs used"),
    ],
)
def test_job_without_slots_left_after_its_pause_is_completed(fields):
    job = paused(**fields)

    engine.sweep(NOW)

    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.paused_until, job.revision) == ("completed", None, None, 2)
    assert Event.objects.get().verb == "finish"


def test_job_with_an_invalid_schedule_stays_paused_and_others_are_resumed():
    bad, good = paused(timezone="Mars/Olympus"), paused()

    engine.sweep(NOW)

    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.status, bad.paused_until, good.status) == ("paused", None, "pending")
    assert "cannot be read" in bad.pause_reason
    assert Event.objects.get(job=bad).verb == "pause"


def test_job_in_the_trash_is_not_resumed():
    job = paused(deleted_at=NOW)

    engine.sweep(NOW)

    job.refresh_from_db()
    assert job.status == "paused"


def test_many_expired_pauses_are_ended_in_several_sweeps(monkeypatch):
    monkeypatch.setattr(pauses, "RESUMING_SECONDS", -1)
    for _ in range(3):
        paused()

    engine.sweep(NOW)
    assert Job.objects.filter(status="pending").count() == 1
    engine.sweep(NOW)
    assert Job.objects.filter(status="pending").count() == 2


def test_rearm_does_nothing_if_the_job_was_changed_concurrently():
    job = paused()
    Job.objects.update(revision=5)

    assert engine.rearm(job, NOW) is False


def test_job_resumed_after_the_clock_went_back_has_one_row_per_slot():
    """After a jump forward and back, a pause and a resume, slots recorded as missed by the jump got a second row."""
    start = NOW
    moments = [start + timedelta(seconds=seconds) for seconds in range(0, 30, 5)]
    job = JobFactory(
        interval=True, paused=True, every=timedelta(seconds=5), anchor_at=start, paused_at=moments[1]
    )
    ExecutionFactory(job=job, scheduled_for=moments[1], last_slot=moments[3], slots=3, status="missed")

    engine.rearm(job, moments[1] + timedelta(seconds=1))

    job.refresh_from_db()
    assert job.next_run_at == moments[2]
    assert job.executions.values_list("scheduled_for", "last_slot", "slots").get() == (moments[1], None, 1)
