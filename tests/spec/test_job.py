"""The description of a job's fields, and what its readers make of values."""

from datetime import UTC, datetime

import pytest

from schedules.models import Job
from schedules.result import Err, Ok
from schedules.services.jobs.validation import EDITABLE
from schedules.spec.job import JobSpec
from tests.spec.values import MISTYPED, NOW, REFUSED, VALUES


@pytest.mark.parametrize(("field", "value", "column"), VALUES)
def test_value_is_read(field, value, column):
    assert JobSpec.read({field: value}, now=NOW, zone="UTC") == Ok({field: column})


@pytest.mark.parametrize(("field", "value", "reason"), REFUSED + MISTYPED)
def test_value_is_refused_with_a_reason(field, value, reason):
    refusal = JobSpec.read({field: value}, now=NOW, zone="UTC")

    assert isinstance(refusal, Err)
    assert list(refusal.errors) == [field]
    assert reason in refusal.reasons


def test_times_are_read_in_the_zone_that_is_given_beside_them():
    berlin = JobSpec.read({"ends_at": "2026-12-24T18:00", "timezone": "Berlin"}, now=NOW, zone="UTC")

    assert berlin == Ok({"timezone": "Europe/Berlin", "ends_at": datetime(2026, 12, 24, 17, tzinfo=UTC)})


def test_every_option_of_a_job_is_described():
    described = set(JobSpec.of_columns())

    assert described == set(EDITABLE) - {"name", "task", "args", "kwargs"} - set(
        Job.TRIGGER_FIELDS[: Job.TRIGGER_FIELDS.index("timezone")]
    )
    assert all(field.title and field.description for field in JobSpec.model_fields.values())
