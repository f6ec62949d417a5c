"""Updates of many rows, each with its own values."""

from datetime import timedelta

import pytest
from django.db import DatabaseError

from schedules.engine.sql import row_updates
from schedules.engine.sql.row_updates import update_rows
from schedules.models import Execution, Job
from tests.engine.conftest import NOW
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db


def test_each_row_gets_its_own_values_and_other_rows_are_unchanged():
    first, second, other = (JobFactory(run_count=10) for _ in range(3))

    update_rows(
        Job,
        "run_count = run_count + {run_count}, name = {name}, last_run_at = {last_run_at}",
        ("id", "run_count", "name", "last_run_at"),
        [(first.pk, 1, "one", NOW), (second.pk, 2, "it's 100 %", None)],
    )

    rows = Job.objects.order_by("pk").values_list("run_count", "name", "last_run_at")
    assert list(rows) == [(11, "one", NOW), (12, "it's 100 %", None), (10, other.name, None)]


def test_value_can_be_used_in_several_assignments():
    job = JobFactory(run_count=1, slot_count=2)

    update_rows(
        Job,
        "run_count = run_count + {run_count}, slot_count = slot_count + {run_count}",
        ("id", "run_count"),
        [(job.pk, 5)],
    )

    job.refresh_from_db()
    assert (job.run_count, job.slot_count) == (6, 7)


def test_values_of_many_rows_are_stored_unchanged():
    texts = ["", "NULL", 'a "b" \\ c', "{1,2}", "it's 100 % ü\n", ",", "\\"]
    rows = ExecutionFactory.create_batch(len(texts))
    spans = [timedelta(microseconds=number - 3) for number in range(len(texts) - 1)] + [None]

    update_rows(
        Execution,
        "error = {error}, lateness = {lateness}, reason = {reason}",
        ("id", "error", "lateness", "reason"),
        [
            (row.pk, text, span, "the same for all")
            for row, text, span in zip(rows, texts, spans, strict=True)
        ],
    )

    stored = Execution.objects.order_by("pk").values_list("error", "lateness", "reason")
    assert list(stored) == [(text, span, "the same for all") for text, span in zip(texts, spans, strict=True)]


def test_equal_values_of_different_json_types_stay_different():
    values = [1, True, 1.0]
    rows = ExecutionFactory.create_batch(len(values))

    update_rows(
        Execution,
        "result = {result}",
        ("id", "result"),
        [(row.pk, value) for row, value in zip(rows, values, strict=True)],
    )

    assert [str(row.result) for row in Execution.objects.order_by("pk")] == ["1", "True", "1.0"]


@pytest.mark.parametrize("value", [None, {"a": [1, "ü", None]}, [], "text", 0, True, 1.5])
def test_json_is_stored_unchanged(value):
    row = ExecutionFactory()

    update_rows(Execution, "result = {result}", ("id", "result"), [(row.pk, value)])

    row.refresh_from_db()
    assert row.result == value


def test_no_rows_execute_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        update_rows(Job, "name = {name}", ("id", "name"), [])


def test_refused_value_raises_a_django_error():
    job = JobFactory()

    with pytest.raises(DatabaseError):
        update_rows(Job, "attempts = {attempts}", ("id", "attempts"), [(job.pk, 11)])


def test_moments_keep_their_microseconds():
    row = ExecutionFactory()
    moment = NOW + timedelta(microseconds=123_456)

    update_rows(Execution, "finished_at = {finished_at}", ("id", "finished_at"), [(row.pk, moment)])

    row.refresh_from_db()
    assert row.finished_at == moment


def test_more_rows_than_sqlite_takes_parameters_are_all_updated(monkeypatch):
    monkeypatch.setattr(row_updates, "MOST_PARAMETERS", 5)
    jobs = JobFactory.create_batch(5)

    update_rows(Job, "name = {name}", ("id", "name"), [(job.pk, f"new {job.pk}") for job in jobs])

    assert dict(Job.objects.values_list("pk", "name")) == {job.pk: f"new {job.pk}" for job in jobs}
