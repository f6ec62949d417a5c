"""One statement for many rows."""

from datetime import timedelta

import pytest
from django.db import DatabaseError

from schedules.engine.sql import update_rows
from schedules.models import Execution, Job
from tests.engine.conftest import NOW
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db


def test_each_row_gets_its_own_values_and_others_are_left_alone():
    first, second, other = (JobFactory(run_count=10) for _ in range(3))

    update_rows(
        Job,
        "run_count = run_count + {run_count}, name = {name}, last_run_at = {last_run_at}",
        ("id", "run_count", "name", "last_run_at"),
        [(first.pk, 1, "one", NOW), (second.pk, 2, "it's 100 %", None)],
    )

    rows = Job.objects.order_by("pk").values_list("run_count", "name", "last_run_at")
    assert list(rows) == [(11, "one", NOW), (12, "it's 100 %", None), (10, other.name, None)]


def test_value_may_stand_in_several_assignments():
    job = JobFactory(run_count=1, slot_count=2)

    update_rows(
        Job,
        "run_count = run_count + {run_count}, slot_count = slot_count + {run_count}",
        ("id", "run_count"),
        [(job.pk, 5)],
    )

    job.refresh_from_db()
    assert (job.run_count, job.slot_count) == (6, 7)


@pytest.mark.parametrize("value", [None, {"a": [1, "ü", None]}, [], "text", 0, True, 1.5])
def test_json_comes_back_as_it_was(value):
    row = ExecutionFactory()

    update_rows(Execution, "result = {result}", ("id", "result"), [(row.pk, value)])

    row.refresh_from_db()
    assert row.result == value


def test_no_rows_are_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        update_rows(Job, "name = {name}", ("id", "name"), [])


def test_refused_value_is_an_error_of_django():
    job = JobFactory()

    with pytest.raises(DatabaseError):
        update_rows(Job, "attempts = {attempts}", ("id", "attempts"), [(job.pk, 11)])


def test_moments_keep_their_microseconds():
    row = ExecutionFactory()
    moment = NOW + timedelta(microseconds=123_456)

    update_rows(Execution, "finished_at = {finished_at}", ("id", "finished_at"), [(row.pk, moment)])

    row.refresh_from_db()
    assert row.finished_at == moment
