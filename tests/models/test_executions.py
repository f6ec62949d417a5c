"""Executions: constraints, querysets, and the runs that a stopped job may still start."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from schedules.models import Execution, Job
from schedules.models.executions import ASKS, JOB_WAS_STOPPED, job_was_stopped
from tests.factories import ExecutionFactory, JobFactory
from tests.models.test_jobs import refused

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


def test_row_copies_the_fields_of_its_job_that_can_change():
    job = JobFactory(name="Backup", task="tests.ping")

    row = Execution.of(job, NOW, cause=Execution.Cause.MANUAL, available_at=NOW)

    assert (row.job, row.owner, row.job_name, row.task) == (job, job.owner, "Backup", "tests.ping")
    assert (row.scheduled_for, row.cause, row.available_at, row.status) == (NOW, "manual", NOW, "queued")


def test_python_and_query_agree_on_whether_a_job_is_stopped():
    expected = {}
    for status, cause, is_deleted in product(Job.Status, Execution.Cause, [False, True]):
        job = JobFactory(
            status=status,
            next_run_at=NOW if status == Job.Status.PENDING else None,
            deleted_at=NOW if is_deleted else None,
        )
        is_stopping = status in ("paused", "cancelled") and not (status == "paused" and cause == "manual")
        expected[ExecutionFactory(job=job, cause=cause).pk] = is_stopping or is_deleted

        assert job_was_stopped(cause, job.status, job.deleted_at) is (is_stopping or is_deleted)

    stopped = {pk for pk, is_stopped in expected.items() if is_stopped}
    assert set(Execution.objects.filter(JOB_WAS_STOPPED).values_list("pk", flat=True)) == stopped
    assert (
        set(Execution.objects.exclude(JOB_WAS_STOPPED).values_list("pk", flat=True))
        == set(expected) - stopped
    )


def test_purged_job_counts_as_stopped():
    ExecutionFactory(cause="manual")
    Execution.objects.update(job=None)

    assert job_was_stopped("manual", None, None)
    assert Execution.objects.filter(JOB_WAS_STOPPED).exists()


def test_prompt_is_not_claimable_if_its_job_has_another_task_now():
    row = ExecutionFactory(status="waiting", task="prompt", job__task="prompt")
    assert Execution.objects.claimable(NOW).exists()

    Job.objects.update(task="tests.ping")

    assert not Execution.objects.claimable(NOW).exists()
    assert list(Execution.objects.left_over(NOW)) == [row]


@pytest.mark.parametrize(
    ("fields", "is_under_way"),
    [
        pytest.param({"status": "queued"}, False, id="waits for its first start"),
        pytest.param({"status": "queued", "attempt": 1}, True, id="waits for its next attempt"),
        pytest.param({"status": "queued", "attempt": 1, "reason": ASKS}, False, id="asks a person"),
        pytest.param({"status": "claimed"}, True, id="claimed"),
        pytest.param({"status": "running", "attempt": 1}, True, id="running"),
        pytest.param({"status": "waiting", "attempt": 1}, False, id="prompt that no agent has claimed"),
        pytest.param({"status": "waiting", "attempt": 1, "lease_until": NOW}, True, id="prompt of an agent"),
        pytest.param({"status": "succeeded", "attempt": 1, "finished_at": NOW}, False, id="ended"),
        pytest.param({"status": "skipped", "finished_at": NOW}, False, id="skipped"),
    ],
)
def test_run_is_under_way_from_its_claim_to_its_end(fields, is_under_way):
    ExecutionFactory(**fields)

    assert Execution.objects.under_way().exists() is is_under_way


@pytest.mark.parametrize("cause", ["schedule", "catch_up"])
def test_slot_has_one_row(cause):
    taken = ExecutionFactory(scheduled_for=NOW)
    ExecutionFactory.create_batch(2, job=taken.job, scheduled_for=NOW, cause="manual")

    assert refused(ExecutionFactory, {"job": taken.job, "scheduled_for": NOW, "cause": cause})


def test_gap_has_a_last_slot():
    job = JobFactory()

    assert refused(ExecutionFactory, {"job": job, "slots": 2, "last_slot": None})


def test_executions_are_found_by_status_and_lease():
    rows = {
        name: ExecutionFactory(**fields)
        for name, fields in {
            "ready": {"status": "queued", "available_at": NOW},
            "later": {"status": "queued", "available_at": NOW + timedelta(seconds=1)},
            "held": {"status": "running", "lease_until": NOW},
            "abandoned": {"status": "claimed", "lease_until": NOW - timedelta(seconds=1)},
            "free": {"status": "waiting"},
            "given up": {"status": "waiting", "lease_until": NOW - timedelta(seconds=1)},
            "not to be repeated": {
                "status": "waiting",
                "lease_until": NOW - timedelta(seconds=1),
                "leased_to": "laptop",
                "job": JobFactory(at_most_once=True),
            },
            "taken away": {
                "status": "waiting",
                "lease_key": "taken away",
                "job": JobFactory(at_most_once=True),
            },
            "at an agent": {"status": "waiting", "lease_until": NOW},
            "over": {"status": "succeeded", "lease_until": NOW - timedelta(days=1)},
        }.items()
    }
    names = {row.pk: name for name, row in rows.items()}

    def found(queryset):
        return {names[row.pk] for row in queryset}

    assert found(Execution.objects.ready(NOW)) == {"ready"}
    assert found(Execution.objects.live()) == set(rows) - {"over"}
    assert found(Execution.objects.abandoned(NOW)) == {"abandoned"}
    assert found(Execution.objects.waiting()) == {
        "free",
        "given up",
        "not to be repeated",
        "taken away",
        "at an agent",
    }
    assert found(Execution.objects.claimable(NOW)) == {"free", "given up", "taken away"}
    assert found(Execution.objects.lost_prompts(NOW)) == {"not to be repeated"}


def test_execution_has_one_key_for_every_attempt():
    job = JobFactory(public_id="job_7_7")
    run = ExecutionFactory(job=job, scheduled_for=NOW)
    manual = ExecutionFactory(job=job, scheduled_for=NOW, cause="manual")

    assert run.key == "job_7_7@20260204T090000.000000Z"
    assert manual.key == f"{run.key}-manual"
    assert Execution(scheduled_for=NOW).key.startswith("gone@")
