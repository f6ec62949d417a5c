"""Hand-written SQL where speed matters; a test compares each statement with the ORM."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.db import connection, models

from schedules.models import Execution
from schedules.models.executions import COPIED_FROM_JOB

# psycopg's own default; Django switches it off.
_PREPARE_THRESHOLD = 5
# PostgreSQL's code for a wait that `lock_timeout` has ended.
_LOCK_NOT_AVAILABLE = "55P03"

_INSERT_CLAIMED = """
    INSERT INTO schedules_execution ({columns})
    SELECT {values} FROM schedules_job job
    WHERE job.id IN ({ids}) AND NOT EXISTS (
        SELECT 1 FROM schedules_execution known
        WHERE known.job_id = job.id AND known.scheduled_for >= job.next_run_at AND known.cause <> 'manual')
    RETURNING id, job_id
"""

_START = """
    UPDATE schedules_execution SET status = 'running', attempt = attempt + 1, started_at = %s, finished_at = NULL,
        lease_until = %s, lateness = CASE WHEN attempt = 0 THEN {lateness} ELSE lateness END
    WHERE id IN ({ids}) AND status = 'claimed' AND cluster_id = %s AND attempt = %s
"""
_READ_STARTED = """
    SELECT run.id, run.attempt, run.cause, run.scheduled_for, run.owner_id, run.job_id, run.task,
        job.public_id, job.name, job.args, job.kwargs, job.timeout, job.attempts, job.backoff, profile.signing_key,
        job.signing_version, job.signing_changed_at
    FROM {started} run JOIN schedules_job job ON job.id = run.job_id
        LEFT JOIN schedules_profile profile ON profile.user_id = run.owner_id
"""
_START_ON_SQLITE = _START.replace("{lateness}", "django_timestamp_diff(%s, scheduled_for)")
_READ_STARTED_ON_SQLITE = (
    _READ_STARTED.replace("{started}", "schedules_execution")
    + "WHERE run.id IN ({ids}) AND run.status = 'running' AND run.cluster_id = %s AND run.attempt = %s"
    " AND run.started_at = %s"
)
# One round trip. `set_config` makes this commit synchronous: if a crash lost a run that was already delivered, another
# run would get its id.
_START_ON_POSTGRESQL = (
    "WITH started AS ("
    + _START.replace("{lateness}", "%s::timestamptz - scheduled_for")
    + "AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"
    " RETURNING id, attempt, cause, scheduled_for, owner_id, job_id, task)"
    + _READ_STARTED.replace("{started}", "started")
)
_UNLOCKED = "SELECT id FROM schedules_execution WHERE id IN ({ids}) FOR NO KEY UPDATE SKIP LOCKED"
_START_UNLOCKED_ON_POSTGRESQL = _START_ON_POSTGRESQL.replace("{ids}", _UNLOCKED)
_START_ONE_ON_POSTGRESQL = _START_ON_POSTGRESQL.replace("id IN ({ids})", "id = %s")

# `LIMIT 1` keeps PostgreSQL from turning the subqueries into joins: during a burst its statistics miss thousands of
# live rows, and a join would read all of them for each job.
_END_FINISHED_JOBS = """
    UPDATE schedules_job SET status =
        CASE WHEN trigger_type = 'once' AND id IN ({failed}) THEN 'failed' ELSE 'completed' END
    WHERE id IN ({ids}) AND status = 'running' AND (
        SELECT 1 FROM schedules_execution live
        WHERE live.job_id = schedules_job.id AND live.finished_at IS NULL
            AND live.status IN ('queued', 'claimed', 'running', 'waiting')
        LIMIT 1) IS NULL
"""
_NEXT_IN_LINE = """
    SELECT min(held.id) FROM schedules_execution held
    WHERE held.job_id IN ({ids}) AND held.finished_at IS NULL
        AND held.status = 'queued' AND held.available_at IS NULL
        AND (
            SELECT 1 FROM schedules_execution busy
            WHERE busy.job_id = held.job_id AND busy.finished_at IS NULL
                AND (busy.status IN ('claimed', 'running', 'waiting')
                    OR busy.status = 'queued' AND busy.available_at IS NOT NULL)
            LIMIT 1) IS NULL
    GROUP BY held.job_id
"""

_NEXT_DUE = """
    SELECT next_run_at FROM schedules_job
    WHERE status = 'pending' AND deleted_at IS NULL ORDER BY next_run_at LIMIT 1
"""
_NEXT_READY = """
    SELECT available_at FROM schedules_execution
    WHERE status = 'queued' AND available_at IS NOT NULL ORDER BY available_at LIMIT 1
"""


def update_rows(
    model: type[models.Model], assignments: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Run `UPDATE … SET assignments` for each row; `{name}` in the assignments stands for that column's value.

    The first column is the primary key, `id`.
    """
    fields = [model._meta.get_field(name) for name in columns]
    by_column = [
        list(map(_adapter(field), column))
        for field, column in zip(fields, zip(*rows, strict=True), strict=False)
    ]
    if not by_column:
        return
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Different from the table's own names, so that `total = total + {total}` is not ambiguous.
            names = {name: f"given.new_{name}" for name in columns}
            arrays = ", ".join(f"%s::{_type_of(field)}[]" for field in fields)
            cursor.execute(
                f"UPDATE {table} SET {assignments.format(**names)} "  # noqa: S608  # nosec B608
                f"FROM unnest({arrays}) AS given({', '.join(f'new_{name}' for name in columns)}) "
                f"WHERE {table}.id = given.new_id",
                by_column,
            )
        else:
            # Named parameters of the driver, because several assignments may use the same value.
            names = {name: f":{name}" for name in columns}
            with connection.wrap_database_errors:
                cursor.connection.executemany(
                    f"UPDATE {table} SET {assignments.format(**names)} WHERE id = :id",  # noqa: S608  # nosec B608
                    (dict(zip(columns, row, strict=True)) for row in zip(*by_column, strict=True)),
                )


def insert_claimed(template: Execution, job_ids: Iterable[int]) -> list[tuple[int, int]]:
    """Insert a copy of `template` for the next slot of each job; return pairs of row id and job id.

    Leave out jobs that already have rows for that slot or later ones, which means that the clock was set back.
    """
    sources = {"job_id": "id", "scheduled_for": "next_run_at", **COPIED_FROM_JOB}
    columns: list[str] = []
    values: list[str] = []
    parameters: list[Any] = []
    for field in Execution._meta.concrete_fields:
        if field.primary_key:
            continue
        columns.append(str(field.column))
        if source := sources.get(field.attname):
            values.append(f"job.{source}")
        else:
            values.append("%s")
            parameters.append(field.get_db_prep_save(getattr(template, field.attname), connection))
    statement = _INSERT_CLAIMED.format(
        columns=", ".join(columns), values=", ".join(values), ids=_integers(job_ids)
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [(execution_id, job_id) for execution_id, job_id in cursor.fetchall()]


def start(
    cluster_id: int,
    attempt: int,
    execution_ids: Sequence[int],
    now: datetime,
    lease_until: datetime,
    *,
    skip_locked: bool = False,
) -> list[list[Any]]:
    """Mark claimed executions of this cluster as running; return the values of `Started` for each."""
    started_at = connection.ops.adapt_datetimefield_value(now)
    times: list[Any] = [started_at, connection.ops.adapt_datetimefield_value(lease_until), started_at]
    claim = [cluster_id, attempt]
    if connection.vendor == "postgresql" and len(execution_ids) == 1 and not skip_locked:
        return _start_one_on_postgresql([*times, execution_ids[0], *claim])
    ids = _integers(execution_ids)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            statement = _START_UNLOCKED_ON_POSTGRESQL if skip_locked else _START_ON_POSTGRESQL
            cursor.execute(statement.format(ids=ids), times + claim)
        else:
            cursor.execute(_START_ON_SQLITE.format(ids=ids), times + claim)
            cursor.execute(_READ_STARTED_ON_SQLITE.format(ids=ids), [cluster_id, attempt + 1, started_at])
        return [list(row) for row in cursor.fetchall()]


def _start_one_on_postgresql(values: list[Any]) -> list[list[Any]]:
    """Start one execution, as plain functions do, with a prepared statement: planning takes half of the time."""
    # On SQLite no process needs psycopg, whose import takes long.
    from psycopg import Cursor  # noqa: PLC0415

    if _has_pooler():
        with connection.cursor() as cursor:
            cursor.execute(_START_ONE_ON_POSTGRESQL, values)
            return [list(row) for row in cursor.fetchall()]
    connection.ensure_connection()
    driver = connection.connection
    if driver.prepare_threshold is None:
        driver.prepare_threshold = _PREPARE_THRESHOLD
    # Django's cursors insert the values into the text of the statement, which cannot be prepared.
    with connection.wrap_database_errors, Cursor(driver) as prepared:
        prepared.execute(_START_ONE_ON_POSTGRESQL, values, prepare=True)
        return [list(row) for row in prepared.fetchall()]


def _has_pooler() -> bool:
    """Return whether a pooler shares the server's connections, which rules out prepared statements."""
    return bool(connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"])


def end_finished_jobs(job_ids: Iterable[int], failed: Iterable[int]) -> None:
    """Mark jobs without slots and live runs as completed, or as failed if they are one-time jobs in `failed`."""
    with connection.cursor() as cursor:
        cursor.execute(_END_FINISHED_JOBS.format(ids=_integers(job_ids), failed=_integers(failed) or "NULL"))


def next_in_line(job_ids: Iterable[int]) -> list[int]:
    """Return the oldest waiting run of each job that has no other run under way."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_IN_LINE.format(ids=_integers(job_ids)))
        return [row[0] for row in cursor.fetchall()]


def earliest_moment() -> datetime | None:
    """Return the earliest moment at which a job is due or a queued run is ready; idle clusters poll this."""
    with connection.cursor() as cursor:
        found = []
        for statement in (_NEXT_DUE, _NEXT_READY):
            cursor.execute(statement)
            found += [_aware(row[0]) for row in cursor.fetchall()]
    return min(found, default=None)


def is_lock_timeout(error: Exception) -> bool:
    """Return whether a statement gave up because it waited too long for a row or table that is locked."""
    return getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE


def _aware(moment: datetime) -> datetime:
    """Add the zone to a moment; SQLite stores UTC without it."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _integers(values: Iterable[int]) -> str:
    """Format keys for a statement; integers are safe, and the number of parameters is limited."""
    return ",".join(str(int(value)) for value in values)


def _adapter(field: Any) -> Callable[[Any], Any]:
    """Return the function that converts the values of a column for the driver."""
    match field:
        case models.DateTimeField():
            return connection.ops.adapt_datetimefield_value
        case models.JSONField():
            return lambda value: None if value is None else json.dumps(value)
        case _:
            return lambda value: value


@cache
def _type_of(field: Any) -> str:
    kind = field.rel_db_type(connection) if field.primary_key else field.db_type(connection)
    return str(kind).split("(")[0]
