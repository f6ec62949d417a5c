"""Hand-written SQL to start and settle runs, and started runs as named rows; a test compares each statement with the ORM."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection

from schedules.engine.sql.statements import (
    MAX_PARAMETERS,
    MICROSECOND,
    among,
    execute,
    format_moment,
    integers,
    optional_moment,
    optional_span,
    parts,
    placeholders,
)
from schedules.models.executions import slot_key
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.tasks.placeholders import NOTIFICATION, facts_of, fill_arguments

_START = """
    UPDATE schedules_execution SET status = 'running', attempt = attempt + 1, started_at = %s, finished_at = NULL,
        lease_until = %s, lateness = CASE WHEN attempt = 0 THEN {lateness} ELSE lateness END
    {which} AND status = 'claimed' AND cluster_id = %s AND attempt = %s
"""
_STARTED_COLUMNS = """
    run.id, run.attempt, run.cause, run.scheduled_for, run.owner_id, run.job_id, run.task,
    job.public_id, job.name, job.args, job.kwargs, run.given, job.timeout, job.attempts, job.backoff, job.fixed_backoff,
    profile.signing_key,
    job.signing_version, job.signing_changed_at, job.trigger_type, job.timezone
"""
_STARTED_TABLES = """
    FROM {runs} run JOIN schedules_job job ON job.id = run.job_id
        LEFT JOIN schedules_profile profile ON profile.user_id = run.owner_id
"""
# All rows as one text: the driver releases the GIL before each row, and must then wait to get it back.
_AS_TEXT = "SELECT json_group_array(json_array({columns}))"
_READ_ON_SQLITE = (
    _AS_TEXT.format(columns=_STARTED_COLUMNS)
    + _STARTED_TABLES.format(runs="schedules_execution")
    + "WHERE run.id IN ({ids})"
)
# SQLite cannot subtract moments, so the lateness of each run is a parameter.
_START_ON_SQLITE = _START.format(
    lateness="new_lateness",
    # A subquery instead of `WITH`, after which the driver would not count the rows.
    which="FROM (SELECT column1 AS new_id, column2 AS new_lateness FROM (VALUES {values})) WHERE id = new_id",
).replace("%s", "?")
_FIND_STARTED_ON_SQLITE = """
    SELECT id FROM schedules_execution
    WHERE id IN ({ids}) AND status = 'running' AND cluster_id = ? AND attempt = ? AND started_at = ?
"""
# One round trip. `set_config` makes this commit synchronous: if a crash undid the start of a run that was already
# delivered, another run would get its id.
_START_ON_POSTGRESQL = (
    "WITH started AS ("
    + _START.format(lateness="%s::timestamptz - scheduled_for", which="WHERE id {among}")
    + "AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"
    " RETURNING id, attempt, cause, scheduled_for, owner_id, job_id, task, given)"
    + f"SELECT {_STARTED_COLUMNS}"
    + _STARTED_TABLES.format(runs="started")
)
_UNLOCKED = "IN (SELECT id FROM schedules_execution WHERE id {among} FOR NO KEY UPDATE SKIP LOCKED)"
_START_UNLOCKED_ON_POSTGRESQL = _START_ON_POSTGRESQL.replace("{among}", _UNLOCKED)

# The runs of a cluster with their jobs. Runs without a job are left out, because an outer join cannot lock.
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
# The jobs that follow these ones: nearly always none.
_FOLLOWERS = """
    SELECT id FROM schedules_job WHERE follows_id {among} AND deleted_at IS NULL
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
            AND busy.cause <> 'reminder'
            LIMIT 1) IS NULL
    GROUP BY held.job_id
"""


class Started(NamedTuple):
    """An execution that this worker has just started, with everything that its task needs."""

    execution_id: int
    attempt: int
    cause: str
    scheduled_for: datetime
    owner_id: int
    job_id: int
    task: str
    job_public_id: str
    job_name: str
    args: list[Any]
    kwargs: dict[str, Any]
    given: Any
    timeout: timedelta
    attempts: int
    backoff: timedelta
    fixed_backoff: bool
    owner_key: str | None
    signing_version: int
    signing_changed_at: datetime | None
    trigger_type: str
    timezone: str

    @property
    def key(self) -> str:
        return slot_key(self.job_public_id, self.scheduled_for, self.cause)

    @property
    def is_reminder(self) -> bool:
        return self.cause == "reminder"


def start_runs(
    cluster_id: int, attempt: int, execution_ids: Sequence[int], now: datetime, *, skip_locked: bool = False
) -> list[Started]:
    """Mark claimed executions as running, except those that are no longer ours; return them ordered by id."""
    lease_until = now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    if connection.vendor == "postgresql":
        statement = _START_UNLOCKED_ON_POSTGRESQL if skip_locked else _START_ON_POSTGRESQL
        condition, keys = among(execution_ids)
        values = [now, lease_until, now, *keys, cluster_id, attempt]
        rows = execute(statement.format(among=condition), values, rows=len(execution_ids))
        # The order of the rows depends on the query plan, which may change.
        runs = sorted(map(Started._make, rows), key=attrgetter("execution_id"))
    else:
        runs = _start_on_sqlite(cluster_id, attempt, execution_ids, now, lease_until)
    # Decode all at once: the overhead of a call for each run is larger than the decoding.
    arguments = iter(json.loads(f"[{','.join(f'{run.args},{run.kwargs}' for run in runs)}]"))
    return [_with_arguments(run, next(arguments), next(arguments)) for run in runs]


def _with_arguments(run: Started, args: list[Any], kwargs: dict[str, Any]) -> Started:
    """Return a run with its decoded arguments, their placeholders filled in from what started it."""
    given = json.loads(run.given) if isinstance(run.given, str) else run.given
    is_notice = run.job_public_id.startswith(NOTICE_PREFIX)
    if ("{{" in str(run.args) or "{{" in str(run.kwargs)) and not is_notice:
        args, kwargs = fill_arguments(run.task, args, kwargs, _with_facts(run, given))
    return run._replace(args=args, kwargs=kwargs, given=given)


def _with_facts(run: Started, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Add the facts that a notification can name about its run to the values for placeholders."""
    if run.task != NOTIFICATION:
        return given
    facts = facts_of(
        job_id=run.job_public_id,
        job_name=run.job_name,
        scheduled_for=run.scheduled_for,
        timezone=run.timezone,
        attempt=run.attempt,
    )
    return {**(given or {}), **facts}


def _start_on_sqlite(
    cluster_id: int, attempt: int, execution_ids: Sequence[int], now: datetime, lease_until: datetime
) -> list[Started]:
    connection.ensure_connection()
    driver = connection.connection
    started: list[Started] = []
    with connection.wrap_database_errors:
        for ids in parts(execution_ids, MAX_PARAMETERS // 3):
            marks = placeholders(ids)
            (text,) = driver.execute(_READ_ON_SQLITE.format(ids=marks), ids).fetchone()
            runs = {values[0]: _started_on_sqlite(values, attempt + 1) for values in json.loads(text)}
            if not runs:
                continue
            lateness = [(run.execution_id, (now - run.scheduled_for) // MICROSECOND) for run in runs.values()]
            marks_of_runs, started_at = ", ".join(["(?, ?)"] * len(runs)), format_moment(now)
            update = driver.execute(
                _START_ON_SQLITE.format(values=marks_of_runs),
                [started_at, format_moment(lease_until), *chain.from_iterable(lateness), cluster_id, attempt],
            )
            if update.rowcount < len(runs):
                # Some are no longer ours.
                mine = driver.execute(
                    _FIND_STARTED_ON_SQLITE.format(ids=marks), [*ids, cluster_id, attempt + 1, started_at]
                )
                runs = {pk: runs[pk] for (pk,) in mine.fetchall()}
            started += runs.values()
    return started


def _started_on_sqlite(values: Sequence[Any], attempt: int) -> Started:
    row = Started._make(values)
    return row._replace(
        attempt=attempt,
        scheduled_for=optional_moment(row.scheduled_for),
        timeout=optional_span(row.timeout),
        backoff=optional_span(row.backoff),
        fixed_backoff=bool(row.fixed_backoff),
        signing_changed_at=optional_moment(row.signing_changed_at),
    )


def lock_running(
    cluster_id: int, execution_ids: Collection[int]
) -> list[tuple[int, int, str, str, datetime | None]]:
    """Lock runs of this cluster and their jobs; skip those that are already locked.

    Return the id, attempt and cause of each run, and the status and deletion of its job.
    """
    condition, keys = among(execution_ids)
    running, values = _RUNNING.format(among=condition), [*keys, cluster_id]
    if connection.vendor == "postgresql":
        lock = "FOR NO KEY UPDATE OF run, job SKIP LOCKED"
        return execute(f"SELECT {_RUNNING_COLUMNS} {running} {lock}", values, rows=len(execution_ids))
    [(text,)] = execute(_AS_TEXT.format(columns=_RUNNING_COLUMNS) + running, values)
    return [(*row, optional_moment(deleted_at)) for *row, deleted_at in json.loads(text)]


def status_after_runs(failed: Iterable[int]) -> str:
    """Return SQL for the status of a job after its runs: completed or failed once it has no slots and live runs."""
    return _STATUS_AFTER_RUNS.format(failed=integers(failed) or "NULL")


def followers_of(job_ids: Collection[int]) -> list[int]:
    """Return the jobs that follow these ones."""
    condition, keys = among(job_ids)
    rows = execute(_FOLLOWERS.format(among=condition), keys, rows=len(job_ids))
    return [job_id for (job_id,) in rows]


def next_in_line(job_ids: Collection[int]) -> list[int]:
    """Return the oldest waiting run of each job that has no other run under way."""
    condition, keys = among(job_ids)
    rows = execute(_NEXT_IN_LINE.format(among=condition), keys, rows=len(job_ids))
    return [execution_id for (execution_id,) in rows]
