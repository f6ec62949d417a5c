"""Jobs: constraints, validation and the next slot."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from schedules.models import Job
from schedules.models.jobs import new_public_id
from tests.factories import ExecutionFactory, JobFactory, UserFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


def refused(build, values) -> str:
    """Assert that validation and the database both refuse a row; return the message of the validation."""
    with pytest.raises(ValidationError) as error:
        build.build(**values).full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        build.create(**values)
    return str(error.value)


# Constraints, each refused twice

BROKEN_JOBS = {
    "once without its moment": {"trigger_type": "once", "cron": ""},
    "once with a cron": {"trigger_type": "once", "run_at": NOW},
    "interval without its length": {"trigger_type": "interval", "cron": "", "anchor_at": NOW},
    "interval without its grid": {"trigger_type": "interval", "cron": "", "every": timedelta(hours=1)},
    "cron without its expression": {"cron": ""},
    "cron with a moment": {"run_at": NOW},
    "cron with an interval": {"every": timedelta(hours=1)},
    "cron with a grid": {"anchor_at": NOW},
    "unknown type": {"trigger_type": "lunar"},
    "pending without a next run": {"next_run_at": None},
    "paused with a next run": {"status": "paused"},
    "completed with a next run": {"status": "completed"},
}


@pytest.mark.parametrize("values", BROKEN_JOBS.values(), ids=BROKEN_JOBS.keys())
def test_invalid_job_is_refused_by_validation_and_by_the_database(values):
    owner = UserFactory()

    assert refused(JobFactory, {"owner": owner, "next_run_at": NOW, **values})


@pytest.mark.parametrize("field", ["public_id", "idempotency_key"])
def test_ids_and_keys_are_used_once(field):
    taken = JobFactory(idempotency_key="k")
    values = {"owner": taken.owner, field: getattr(taken, field)}

    assert refused(JobFactory, values)


def test_jobs_without_a_key_do_not_collide():
    owner = UserFactory()

    JobFactory.create_batch(2, owner=owner)

    assert Job.objects.filter(idempotency_key=None).count() == 2


@pytest.mark.parametrize("kind", ["cron", "once", "interval", "paused", "ended"])
def test_complete_job_is_stored_unchanged(kind):
    made = JobFactory(**({} if kind == "cron" else {kind: True}))

    made.full_clean()

    kept = Job.objects.get(pk=made.pk)
    assert (kept.trigger, kept.status, kept.next_run_at) == (made.trigger, made.status, made.next_run_at)


# Validation beyond the constraints


@pytest.mark.parametrize(
    ("values", "field"),
    [
        pytest.param({"name": "a\nb"}, "name", id="control character"),
        pytest.param({"name": " "}, "name", id="blank name"),
        pytest.param({"task": "os.system"}, "task", id="unknown task"),
        pytest.param({"args": {}}, "args", id="args"),
        pytest.param({"args": ["x" * 20_000]}, "args", id="huge args"),
        pytest.param({"kwargs": []}, "kwargs", id="kwargs"),
        pytest.param({"tags": [1]}, "tags", id="tags"),
        pytest.param({"cron": "61 * * * *"}, "cron", id="cron"),
        pytest.param({"timezone": "Mars/Base"}, "timezone", id="zone"),
        pytest.param({"ends_at": datetime(2027, 1, 1)}, "ends_at", id="naive end"),  # noqa: DTZ001
        pytest.param({"timeout": None}, "timeout", id="no timeout"),
        pytest.param({"backoff": timedelta(days=2)}, "backoff", id="backoff"),
        pytest.param({"attempts": 0}, "attempts", id="no attempts"),
        pytest.param({"attempts": 11}, "attempts", id="eleven attempts"),
        pytest.param({"max_runs": 0}, "max_runs", id="no runs"),
    ],
)
def test_validation_names_the_field(values, field):
    with pytest.raises(ValidationError) as error:
        JobFactory.build(owner=UserFactory(), **values).full_clean(validate_constraints=False)

    assert list(error.value.message_dict) == [field]


def test_owner_with_jobs_cannot_be_deleted_and_history_is_kept_without_the_job():
    run = ExecutionFactory()
    job = run.job

    job.delete()

    run.refresh_from_db()
    assert (run.job, run.job_name, run.owner) == (None, job.name, job.owner)
    with pytest.raises(IntegrityError):
        run.owner.delete()


# Queries


@pytest.mark.parametrize(
    ("values", "slot"),
    [
        pytest.param({}, NOW + timedelta(minutes=5), id="endless"),
        pytest.param({"max_runs": 3, "slot_count": 2}, NOW + timedelta(minutes=5), id="one left"),
        pytest.param({"max_runs": 3, "slot_count": 3}, None, id="none left"),
        pytest.param({"ends_at": NOW + timedelta(minutes=5)}, NOW + timedelta(minutes=5), id="on its end"),
        pytest.param({"ends_at": NOW + timedelta(minutes=4)}, None, id="after its end"),
    ],
)
def test_next_slot_respects_max_runs_and_ends_at(values, slot):
    assert JobFactory.build(**values).next_slot(NOW) == slot


def test_public_id_contains_family_and_time():
    prefix, number, moment = new_public_id("msg", NOW).split("_")

    assert (prefix, moment) == ("msg", str(int(NOW.timestamp())))
    assert number.isdecimal()


@pytest.mark.parametrize(
    ("values", "topic"),
    [
        pytest.param({"kwargs": {"topic": "home"}}, "home", id="by name"),
        pytest.param({"args": ["x", "home"]}, "home", id="by position"),
        pytest.param({"args": ["x"]}, None, id="not at all"),
        pytest.param({"args": ["x", "home"], "task": "gone"}, None, id="of a task that is gone"),
        pytest.param({"args": list(range(99))}, 1, id="among too many"),
    ],
)
def test_argument_is_found_by_name_or_position(values, topic):
    job = JobFactory.build(owner=None, **{"task": "notify"} | values)

    assert job.argument("topic") == topic
