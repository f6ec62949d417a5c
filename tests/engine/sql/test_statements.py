"""Execution of hand-written statements: conditions on keys, and what PostgreSQL prepares."""

import pytest
from django.db import connection

from schedules.engine.sql.statements import PLANNED_ANEW_FROM, PREPARE_THRESHOLD, among, execute

pytestmark = pytest.mark.django_db


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
@pytest.mark.parametrize(("rows", "is_prepared"), [(PLANNED_ANEW_FROM - 1, True), (PLANNED_ANEW_FROM, False)])
def test_statement_for_many_rows_is_planned_anew(monkeypatch, rows, is_prepared):
    """During a burst, a plan from a time when the ledger was empty would read all of it again and again."""
    connection.ensure_connection()
    monkeypatch.setattr(connection.connection, "prepare_threshold", None)

    for number in range(PREPARE_THRESHOLD + 2):
        execute(f"SELECT 'for {rows} rows' WHERE 1 = %s", [number], rows=rows)

    statements = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s"
    assert execute(statements, [f"%for {rows} rows%"]) == [(int(is_prepared),)]
