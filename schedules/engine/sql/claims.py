"""Hand-written SQL of the claim, and due jobs as named rows; a test compares each statement with the ORM."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.db import connection, models

from schedules.engine.sql.statements import (
    among,
    aware,
    execute,
    integers,
    optional_moment,
    optional_span,
    type_of,
)
from schedules.models import Execution
from schedules.models.calendars import with_calendars
from schedules.models.executions import COPIED_FROM_JOB
from schedules.models.triggers import TriggerType, trigger_of
from schedules.when.moves import JobTrigger
from schedules.when.spread import spread_out
from schedules.when.triggers import Once

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
        AND cause <> 'reminder'
    GROUP BY job_id
"""
# `LIMIT 1` keeps PostgreSQL from planning a join, which reads the whole ledger if the statistics are from a time when it
# was empty.
_INSERT_CLAIMED = """
    INSERT INTO schedules_execution ({columns})
    SELECT {values} FROM schedules_job job
    WHERE job.id {among} AND (
        SELECT 1 FROM schedules_execution run
        WHERE run.job_id = job.id AND run.scheduled_for >= job.next_run_at AND run.cause IN ('schedule', 'catch_up')
        LIMIT 1) IS NULL
    RETURNING id, job_id
"""

# One round trip, because idle clusters run it ten times a second.
_NEXT_DUE_AND_READY = """
    SELECT (SELECT next_run_at FROM schedules_job
            WHERE status = 'pending' AND deleted_at IS NULL ORDER BY next_run_at LIMIT 1),
        (SELECT available_at FROM schedules_execution
            WHERE status = 'queued' AND available_at IS NOT NULL ORDER BY available_at LIMIT 1)
"""


class DueJob(NamedTuple):
    """A due job with the columns that a claim needs: a thousand of these cost far less than model instances."""

    pk: int
    public_id: str
    owner_id: int
    name: str
    task: str
    next_run_at: datetime
    trigger_type: str
    run_at: datetime | None
    every: timedelta | None
    calendar_unit: str
    anchor_at: datetime | None
    cron: str
    timezone: str
    spread: timedelta
    ends_at: datetime | None
    max_runs: int | None
    skips: str
    closed_by: str
    on_closed: str
    created_at: datetime
    slot_count: int
    overlap: str
    catch_up: str
    timeout: timedelta
    at_most_once: bool
    owner_is_active: bool

    @property
    def trigger(self) -> JobTrigger:
        """The trigger that fires the job; raises TriggerError if the columns are invalid."""
        if self.trigger_type == TriggerType.ONCE and self.run_at:
            return _once(self.run_at, self.timezone)
        trigger = trigger_of(
            {
                "trigger_type": self.trigger_type,
                "run_at": self.run_at,
                "every": self.every,
                "calendar_unit": self.calendar_unit,
                "anchor_at": self.anchor_at or self.created_at,
                "cron": self.cron,
                "timezone": self.timezone,
            }
        )
        if not (self.spread or self.closed_by):
            return trigger
        delayed = spread_out(trigger, self.spread, self.public_id)
        return with_calendars(delayed, self) if self.closed_by else delayed


@lru_cache(maxsize=1024)
def _once(run_at: datetime, timezone: str) -> Once:
    # Cached, because the jobs of a burst are due at the same moment. This is safe only for moments in UTC, as in the
    # database: in other zones, the two moments of a repeated hour compare as equal.
    return Once(run_at, timezone)


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
    """Lock and return the jobs that have been due longest, except those that another transaction has locked."""
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


def _due_job_on_sqlite(values: Sequence[Any]) -> DueJob:
    row = DueJob._make(values)
    return row._replace(
        next_run_at=optional_moment(row.next_run_at),
        run_at=optional_moment(row.run_at),
        anchor_at=optional_moment(row.anchor_at),
        ends_at=optional_moment(row.ends_at),
        created_at=optional_moment(row.created_at),
        every=optional_span(row.every),
        spread=optional_span(row.spread),
        timeout=optional_span(row.timeout),
    )


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
    claim_values = {"cluster_id": cluster_id, "claimed_at": adapt(now), "lease_until": adapt(lease_until)}
    statement, defaults = _insert_claimed_statement(connection.vendor)
    condition, keys = among(job_ids)
    values = [*(claim_values.get(name, value) for name, value in defaults), *keys]
    return execute(statement.format(among=condition), values, rows=len(job_ids))


@cache
def _insert_claimed_statement(vendor: str) -> tuple[str, list[tuple[str, Any]]]:
    """Return the statement, and the name and default value of each of its parameters."""
    template = Execution(status=Execution.Status.CLAIMED)
    sources = {"job_id": "id", "scheduled_for": "next_run_at", **COPIED_FROM_JOB}
    fields = [field for field in Execution._meta.concrete_fields if not field.primary_key]
    # PostgreSQL does not infer the type of a selected value from its target column.
    marks = {field: f"%s::{type_of(field)}" if vendor == "postgresql" else "%s" for field in fields}
    statement = _INSERT_CLAIMED.format(
        columns=", ".join(str(field.column) for field in fields),
        values=", ".join(
            f"job.{sources[field.attname]}" if field.attname in sources else marks[field] for field in fields
        ),
        among="{among}",
    )
    return statement, [
        (field.attname, field.get_db_prep_save(getattr(template, field.attname), connection))
        for field in fields
        if field.attname not in sources
    ]


def earliest_moment() -> datetime | None:
    """Return the earliest moment at which a job is due or a queued run is ready; idle clusters poll this."""
    [moments] = execute(_NEXT_DUE_AND_READY)
    return min(map(aware, filter(None, moments)), default=None)
