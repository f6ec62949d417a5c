"""Hand-written statements: what is prepared, updates of many rows, and values compared with those of the ORM."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import DatabaseError, connection

from schedules.engine.sql import statements
from schedules.engine.sql.statements import (
    PREPARE_THRESHOLD,
    REPLAN_FROM_ROWS,
    adapter_of,
    among,
    array,
    aware,
    execute,
    format_moment,
    integers,
    parse_moment,
    parts,
    update_rows,
)
from schedules.models import Execution, Job
from tests.engine.conftest import NOW
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 2, 4, 12, 0, tzinfo=UTC)
MOMENTS = [
    pytest.param(NOON, id="whole second"),
    pytest.param(NOON + timedelta(microseconds=5), id="microseconds"),
    pytest.param(NOON.astimezone(timezone(timedelta(hours=-5, minutes=-30))), id="another zone"),
]


@pytest.mark.parametrize("keys", [[], [7], [7, 3]])
def test_condition_finds_exactly_the_given_keys(keys):
    condition, values = among(keys)

    numbers = "SELECT n FROM (SELECT 3 AS n UNION ALL SELECT 5 UNION ALL SELECT 7) numbers WHERE n "
    rows = execute(f"{numbers} {condition} ORDER BY n DESC", values)

    assert [n for (n,) in rows] == keys


def test_statement_without_rows_returns_none():
    assert execute("UPDATE schedules_job SET name = '' WHERE id = -1") == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="sqlite3 prepares statements itself")
@pytest.mark.parametrize("has_pooler", [False, True])
def test_repeated_statement_is_prepared_unless_a_pooler_is_used(monkeypatch, has_pooler):
    connection.ensure_connection()
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", has_pooler)
    monkeypatch.setattr(connection.connection, "prepare_threshold", None)
    statement = f"SELECT 'of {has_pooler}' WHERE 1 = %s"

    answers = [execute(statement, [number]) for number in range(PREPARE_THRESHOLD + 2)]

    found = execute(
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s", [f"%of {has_pooler}%"]
    )
    assert found == [(0 if has_pooler else 1,)]
    assert [len(rows) for rows in answers] == [0, 1, *[0] * PREPARE_THRESHOLD]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="sqlite3 prepares statements itself")
@pytest.mark.parametrize(("rows", "is_prepared"), [(REPLAN_FROM_ROWS - 1, True), (REPLAN_FROM_ROWS, False)])
def test_statement_for_many_rows_is_planned_anew(monkeypatch, rows, is_prepared):
    """During a burst, a plan from a time when the ledger was empty would read all of it again and again."""
    connection.ensure_connection()
    monkeypatch.setattr(connection.connection, "prepare_threshold", None)

    for number in range(PREPARE_THRESHOLD + 2):
        execute(f"SELECT 'for {rows} rows' WHERE 1 = %s", [number], rows=rows)

    statements = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s"
    assert execute(statements, [f"%for {rows} rows%"]) == [(int(is_prepared),)]


# Updates


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
        update_rows(Job, "name = {name}", ("id", "name"), [(job.pk, None)])


def test_moments_keep_their_microseconds():
    row = ExecutionFactory()
    moment = NOW + timedelta(microseconds=123_456)

    update_rows(Execution, "finished_at = {finished_at}", ("id", "finished_at"), [(row.pk, moment)])

    row.refresh_from_db()
    assert row.finished_at == moment


def test_more_rows_than_sqlite_takes_parameters_are_all_updated(monkeypatch):
    monkeypatch.setattr(statements, "MAX_PARAMETERS", 5)
    jobs = JobFactory.create_batch(5)

    update_rows(Job, "name = {name}", ("id", "name"), [(job.pk, f"new {job.pk}") for job in jobs])

    assert dict(Job.objects.values_list("pk", "name")) == {job.pk: f"new {job.pk}" for job in jobs}


# Values


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL takes moments as they are")
@pytest.mark.parametrize("moment", MOMENTS)
def test_moment_is_stored_as_the_orm_stores_it(moment):
    assert format_moment(moment) == str(connection.ops.adapt_datetimefield_value(moment))


@pytest.mark.parametrize("moment", MOMENTS)
def test_stored_moment_is_read_in_utc(moment):
    found = parse_moment(format_moment(moment))

    assert (found, found.tzinfo) == (moment, UTC)


def test_zone_is_added_only_where_it_is_missing():
    elsewhere = NOON.astimezone(timezone(timedelta(hours=1)))

    assert aware(NOON.replace(tzinfo=None)) == NOON
    assert aware(elsewhere) is elsewhere


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("lateness", timedelta(days=1, microseconds=7)),
        ("lateness", None),
        ("finished_at", None),
        ("error", 'a "b"'),
        ("attempt", 3),
    ],
)
def test_value_is_converted_as_the_orm_converts_it(column, value):
    field = Execution._meta.get_field(column)

    adapt = adapter_of(field)
    assert (adapt(value) if adapt else value) == field.get_db_prep_save(value, connection)


def test_array_escapes_texts_and_counts_microseconds():
    values = [None, 7, "NULL", 'a "b" \\ c', "{1,2}", timedelta(seconds=-1)]

    assert array(values) == r'{NULL,"7","NULL","a \"b\" \\ c","{1,2}","-1000000 microseconds"}'


def test_only_integers_are_written_into_a_statement():
    assert integers([3, 1]) == "3,1"
    with pytest.raises(ValueError, match="invalid literal"):
        integers(["1); DROP TABLE schedules_job"])  # type: ignore[list-item]


def test_parts_have_all_rows_in_order():
    assert list(parts([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
