"""Hand-written SQL where speed matters; a test compares each statement with the ORM."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, models

from schedules.engine.due import DueJob
from schedules.engine.sql.statements import among, execute
from schedules.engine.sql.values import (
    MICROSECOND,
    MOST_PARAMETERS,
    aware,
    format_moment,
    integers,
    parse_moment,
    parts,
    placeholders,
    type_of,
)
from schedules.models import Execution
from schedules.models.executions import COPIED_FROM_JOB

# PostgreSQL's code for a wait that `lock_timeout` has ended.
_LOCK_NOT_AVAILABLE = "55P03"

_HAS_READY = """
    SELECT 1 FROM schedules_execution WHERE status = 'queued' AND available_at <= %s LIMIT 1
"""
_DUE_JOBS = """
    SELECT {columns}, {is_active} FROM schedules_job job JOIN {owners} ON owner.{owner_key} = job.owner_id
    WHERE job.status = 'pending' AND job.deleted_at IS NULL AND job.next_run_at <= %s{exclude}
    ORDER BY job.next_run_at LIMIT %s
"""
_LIVE_RUNS = """
    SELECT job_id, count(*) FROM schedules_execution
    WHERE job_id {among} AND finished_at IS NULL AND status IN ('queued', 'claimed', 'running', 'waiting')
    GROUP BY job_id
"""
# `LIMIT 1` keeps PostgreSQL from a join, for which it would read the whole ledger if its statistics are from a time when
# that was empty.
_INSERT_CLAIMED = """
    INSERT INTO schedules_execution ({columns})
    SELECT {values} FROM schedules_job job
    WHERE job.id {among} AND (
        SELECT 1 FROM schedules_execution known
        WHERE known.job_id = job.id AND known.scheduled_for >= job.next_run_at AND known.cause <> 'manual'
        LIMIT 1) IS NULL
    RETURNING id, job_id
"""

_START = """
    UPDATE schedules_execution SET status = 'running', attempt = attempt + 1, started_at = %s, finished_at = NULL,
        lease_until = %s, lateness = CASE WHEN attempt = 0 THEN {lateness} ELSE lateness END
    {which} AND status = 'claimed' AND cluster_id = %s AND attempt = %s
"""
_STARTED_COLUMNS = """
    run.id, run.attempt, run.cause, run.scheduled_for, run.owner_id, run.job_id, run.task,
    job.public_id, job.name, job.args, job.kwargs, job.timeout, job.attempts, job.backoff, profile.signing_key,
    job.signing_version, job.signing_changed_at
"""
_STARTED_TABLES = """
    FROM {runs} run JOIN schedules_job job ON job.id = run.job_id
        LEFT JOIN schedules_profile profile ON profile.user_id = run.owner_id
"""
# All rows as one text: before each row, the driver lets other threads run, and then waits for its turn again.
_AS_TEXT = "SELECT json_group_array(json_array({columns}))"
_READ_ON_SQLITE = (
    _AS_TEXT.format(columns=_STARTED_COLUMNS)
    + _STARTED_TABLES.format(runs="schedules_execution")
    + "WHERE run.id IN ({ids})"
)
# SQLite cannot subtract moments, so the lateness of each run is given.
_START_ON_SQLITE = _START.format(
    lateness="new_lateness",
    # Not `WITH given`: then the driver would not count the rows.
    which="FROM (SELECT column1 AS new_id, column2 AS new_lateness FROM (VALUES {values})) WHERE id = new_id",
).replace("%s", "?")
_FIND_STARTED_ON_SQLITE = """
    SELECT id FROM schedules_execution
    WHERE id IN ({ids}) AND status = 'running' AND cluster_id = ? AND attempt = ? AND started_at = ?
"""
# One round trip. `set_config` makes this commit synchronous: if a crash lost a run that was already delivered, another
# run would get its id.
_START_ON_POSTGRESQL = (
    "WITH started AS ("
    + _START.format(lateness="%s::timestamptz - scheduled_for", which="WHERE id {among}")
    + "AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"
    " RETURNING id, attempt, cause, scheduled_for, owner_id, job_id, task)"
    + f"SELECT {_STARTED_COLUMNS}"
    + _STARTED_TABLES.format(runs="started")
)
_UNLOCKED = "IN (SELECT id FROM schedules_execution WHERE id {among} FOR NO KEY UPDATE SKIP LOCKED)"
_START_UNLOCKED_ON_POSTGRESQL = _START_ON_POSTGRESQL.replace("{among}", _UNLOCKED)

# The runs of a cluster with their jobs. Those without a job are left out, because an outer join cannot lock.
_RUNNING_COLUMNS = "run.id, run.attempt, run.cause, job.status, job.deleted_at"
_RUNNING = """
    FROM schedules_execution run JOIN schedules_job job ON job.id = run.job_id
    WHERE run.id {among} AND run.status = 'running' AND run.cluster_id = %s
"""
# `LIMIT 1` keeps PostgreSQL from turning the subqueries into joins: during a burst its statistics miss thousands of
# live rows, and a join would read all of them for each job.
_STATUS_AFTER_RUNS = """
    CASE WHEN status <> 'running' OR (
        SELECT 1 FROM schedules_execution live
        WHERE live.job_id = schedules_job.id AND live.finished_at IS NULL
            AND live.status IN ('queued', 'claimed', 'running', 'waiting')
        LIMIT 1) IS NOT NULL THEN status
    WHEN trigger_type = 'once' AND id IN ({failed}) THEN 'failed' ELSE 'completed' END
"""
_NEXT_IN_LINE = """
    SELECT min(held.id) FROM schedules_execution held
    WHERE held.job_id {among} AND held.finished_at IS NULL
        AND held.status = 'queued' AND held.available_at IS NULL
        AND (
            SELECT 1 FROM schedules_execution busy
            WHERE busy.job_id = held.job_id AND busy.finished_at IS NULL
                AND (busy.status IN ('claimed', 'running', 'waiting')
                    OR busy.status = 'queued' AND busy.available_at IS NOT NULL)
            LIMIT 1) IS NULL
    GROUP BY held.job_id
"""

# One round trip, because idle clusters ask for it ten times a second.
_NEXT_DUE_AND_READY = """
    SELECT (SELECT next_run_at FROM schedules_job
            WHERE status = 'pending' AND deleted_at IS NULL ORDER BY next_run_at LIMIT 1),
        (SELECT available_at FROM schedules_execution
            WHERE status = 'queued' AND available_at IS NOT NULL ORDER BY available_at LIMIT 1)
"""
# Each part uses a partial index.
_MAY_NEED_SWEEP = """
    SELECT EXISTS (SELECT 1 FROM schedules_cluster WHERE stopped_at IS NULL AND last_seen_at < %s)
        OR EXISTS (SELECT 1 FROM schedules_execution WHERE lease_until IS NOT NULL AND lease_until < %s)
        OR EXISTS (SELECT 1 FROM schedules_execution WHERE status = 'waiting')
        OR EXISTS (SELECT 1 FROM schedules_job WHERE paused_until IS NOT NULL AND paused_until <= %s)
"""


def has_ready_runs(now: datetime) -> bool:
    """Return whether any queued run may start."""
    return bool(execute(_HAS_READY, [connection.ops.adapt_datetimefield_value(now)]))


def due_jobs(
    now: datetime,
    limit: int,
    *,
    exclude_tasks: Sequence[str] = (),
    only_tasks: Sequence[str] = (),
    exclude_owners: Sequence[int] = (),
) -> list[DueJob]:
    """Return the jobs that have been due longest, locked for this transaction, except those that are locked already."""
    exclude = ""
    if exclude_tasks:
        exclude += f" AND job.task NOT IN ({', '.join(['%s'] * len(exclude_tasks))})"
    if only_tasks:
        exclude += f" AND job.task IN ({', '.join(['%s'] * len(only_tasks))})"
    if exclude_owners:
        exclude += f" AND job.owner_id NOT IN ({integers(exclude_owners)})"
    rows = execute(
        _due_jobs_statement(connection.vendor, get_user_model()).replace("{exclude}", exclude),
        [connection.ops.adapt_datetimefield_value(now), *exclude_tasks, *only_tasks, limit],
    )
    return [*map(DueJob._make if connection.vendor == "postgresql" else _due_job_on_sqlite, rows)]


@cache
def _due_jobs_statement(vendor: str, user: type[models.Model]) -> str:
    is_postgresql = vendor == "postgresql"
    columns = [
        # As text, because the driver's own conversion of moments is slow.
        f"job.{name}" if is_postgresql or name not in _MOMENTS else f"CAST(job.{name} AS text)"
        for name in ("id", *DueJob._fields[1:-1])
    ]
    user_columns = {field.name: field.column for field in user._meta.concrete_fields}
    statement = _DUE_JOBS.format(
        columns=", ".join(columns),
        is_active=f"owner.{user_columns['is_active']}" if "is_active" in user_columns else "1 = 1",
        owners=f"{connection.ops.quote_name(user._meta.db_table)} owner",
        owner_key=connection.ops.quote_name(str(user._meta.pk.column)),
        exclude="{exclude}",
    )
    return statement + ("FOR UPDATE OF job SKIP LOCKED" if is_postgresql else "")


_MOMENTS = ("next_run_at", "run_at", "anchor_at", "ends_at", "created_at")
_MOMENT_POSITIONS = [DueJob._fields.index(name) for name in _MOMENTS]
_SPAN_POSITIONS = [DueJob._fields.index(name) for name in ("every", "spread", "timeout")]


def _due_job_on_sqlite(row: Sequence[Any]) -> DueJob:
    values = list(row)
    for position in _MOMENT_POSITIONS:
        if values[position] is not None:
            values[position] = parse_moment(values[position])
    for position in _SPAN_POSITIONS:
        if values[position] is not None:
            values[position] = timedelta(microseconds=values[position])
    return DueJob._make(values)


def live_runs(job_ids: Collection[int]) -> Counter[int]:
    """Count the runs of each job that have not ended."""
    condition, keys = among(job_ids)
    return Counter(dict(execute(_LIVE_RUNS.format(among=condition), keys, rows=len(job_ids))))


def insert_claimed(
    cluster_id: int, now: datetime, lease_until: datetime, job_ids: Collection[int]
) -> list[tuple[int, int]]:
    """Insert a claimed run for the next slot of each job; return pairs of row id and job id.

    Leave out jobs that already have rows for that slot or later ones, which means that the clock was set back.
    """
    adapt = connection.ops.adapt_datetimefield_value
    given = {"cluster_id": cluster_id, "claimed_at": adapt(now), "lease_until": adapt(lease_until)}
    statement, defaults = _insert_claimed_statement(connection.vendor)
    condition, keys = among(job_ids)
    values = [*(given.get(name, value) for name, value in defaults), *keys]
    return execute(statement.format(among=condition), values, rows=len(job_ids))


@cache
def _insert_claimed_statement(vendor: str) -> tuple[str, list[tuple[str, Any]]]:
    """Return the statement, and the name and default value of each of its parameters."""
    template = Execution(status=Execution.Status.CLAIMED)
    sources = {"job_id": "id", "scheduled_for": "next_run_at", **COPIED_FROM_JOB}
    fields = [field for field in Execution._meta.concrete_fields if not field.primary_key]
    # PostgreSQL does not derive the type of a value that is selected from the column that it is for.
    given = {field: f"%s::{type_of(field)}" if vendor == "postgresql" else "%s" for field in fields}
    statement = _INSERT_CLAIMED.format(
        columns=", ".join(str(field.column) for field in fields),
        values=", ".join(
            f"job.{sources[field.attname]}" if field.attname in sources else given[field] for field in fields
        ),
        among="{among}",
    )
    return statement, [
        (field.attname, field.get_db_prep_save(getattr(template, field.attname), connection))
        for field in fields
        if field.attname not in sources
    ]


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
    if connection.vendor != "postgresql":
        return _start_on_sqlite(cluster_id, attempt, execution_ids, now, lease_until)
    statement = _START_UNLOCKED_ON_POSTGRESQL if skip_locked else _START_ON_POSTGRESQL
    condition, keys = among(execution_ids)
    values = [now, lease_until, now, *keys, cluster_id, attempt]
    found = execute(statement.format(among=condition), values, rows=len(execution_ids))
    return [*map(list, found)]


def _start_on_sqlite(
    cluster_id: int, attempt: int, execution_ids: Sequence[int], now: datetime, lease_until: datetime
) -> list[list[Any]]:
    connection.ensure_connection()
    driver = connection.connection
    found: list[list[Any]] = []
    with connection.wrap_database_errors:
        for ids in parts(execution_ids, MOST_PARAMETERS // 3):
            marks = placeholders(ids)
            (text,) = driver.execute(_READ_ON_SQLITE.format(ids=marks), ids).fetchone()
            rows = {row[0]: row for row in json.loads(text)}
            if not rows:
                continue
            lateness: list[int] = []
            for row in rows.values():
                row[1], row[3], row[16] = attempt + 1, parse_moment(row[3]), row[16] and parse_moment(row[16])
                row[11], row[13] = timedelta(microseconds=row[11]), timedelta(microseconds=row[13])
                lateness += row[0], (now - row[3]) // MICROSECOND
            values, started_at = ", ".join(["(?, ?)"] * len(rows)), format_moment(now)
            started = driver.execute(
                _START_ON_SQLITE.format(values=values),
                [started_at, format_moment(lease_until), *lateness, cluster_id, attempt],
            )
            if started.rowcount < len(rows):
                # Some are no longer ours.
                mine = driver.execute(
                    _FIND_STARTED_ON_SQLITE.format(ids=marks), [*ids, cluster_id, attempt + 1, started_at]
                )
                rows = {pk: rows[pk] for (pk,) in mine.fetchall()}
            found += rows.values()
    return found


def lock_running(
    cluster_id: int, execution_ids: Collection[int]
) -> list[tuple[int, int, str, str, datetime | None]]:
    """Lock runs of this cluster and their jobs, except those that are locked already.

    Return the id, attempt and cause of each run, and the status and deletion of its job.
    """
    condition, keys = among(execution_ids)
    running, values = _RUNNING.format(among=condition), [*keys, cluster_id]
    if connection.vendor == "postgresql":
        lock = "FOR NO KEY UPDATE OF run, job SKIP LOCKED"
        return execute(f"SELECT {_RUNNING_COLUMNS} {running} {lock}", values, rows=len(execution_ids))
    [(text,)] = execute(_AS_TEXT.format(columns=_RUNNING_COLUMNS) + running, values)
    return [(*row[:4], row[4] and parse_moment(row[4])) for row in json.loads(text)]


def status_after_runs(failed: Iterable[int]) -> str:
    """Return the new status of a job: completed without slots and live runs, or failed if a one-time job in `failed`."""
    return _STATUS_AFTER_RUNS.format(failed=integers(failed) or "NULL")


def next_in_line(job_ids: Collection[int]) -> list[int]:
    """Return the oldest waiting run of each job that has no other run under way."""
    condition, keys = among(job_ids)
    found = execute(_NEXT_IN_LINE.format(among=condition), keys, rows=len(job_ids))
    return [execution_id for (execution_id,) in found]


def earliest_moment() -> datetime | None:
    """Return the earliest moment at which a job is due or a queued run is ready; idle clusters poll this."""
    [moments] = execute(_NEXT_DUE_AND_READY)
    return min(map(aware, filter(None, moments)), default=None)


def may_need_sweep(now: datetime, silent_since: datetime) -> bool:
    """Return whether a lease or a pause is over, a cluster is silent, or any prompt waits for an agent."""
    moment = connection.ops.adapt_datetimefield_value(now)
    silent = connection.ops.adapt_datetimefield_value(silent_since)
    [(answer,)] = execute(_MAY_NEED_SWEEP, [silent, moment, moment])
    return bool(answer)


def is_lock_timeout(error: Exception) -> bool:
    """Return whether a statement gave up because it waited too long for a row or table that is locked."""
    return getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE
