"""How a claimed execution is started: written out, for this is done once for every run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from schedules.engine.sql import integers
from schedules.models.executions import slot_key
from schedules.models.prepared import fetch

_START = """
    UPDATE schedules_execution SET status = 'running', attempt = attempt + 1, started_at = %s, finished_at = NULL,
        lease_until = %s, lateness = CASE WHEN attempt = 0 THEN {lateness} ELSE lateness END
    WHERE id IN ({ids}) AND status = 'claimed' AND cluster_id = %s AND attempt = %s
"""
# The columns of `Started`, in its order.
_READ = """
    SELECT run.id, run.attempt, run.cause, run.scheduled_for, run.owner_id, run.job_id, run.task,
        job.public_id, job.name, job.args, job.kwargs, job.timeout, job.attempts, job.backoff, profile.signing_key
    FROM {started} run JOIN schedules_job job ON job.id = run.job_id
        LEFT JOIN schedules_profile profile ON profile.user_id = run.owner_id
"""
_ON_SQLITE = (
    _START.replace("{lateness}", "django_timestamp_diff(%s, scheduled_for)"),
    _READ.replace("{started}", "schedules_execution")
    + "WHERE run.id IN ({ids}) AND run.status = 'running' AND run.cluster_id = %s AND run.attempt = %s"
    " AND run.started_at = %s",
)
# In one round trip, and on disk before anybody is told: a server that crashes must not forget a run that was
# delivered, nor give its number away. Said inside the statement, that holds for this commit alone.
_ON_POSTGRESQL = (
    "WITH started AS ("
    + _START.replace("{lateness}", "%s::timestamptz - scheduled_for")
    + "AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"
    " RETURNING id, attempt, cause, scheduled_for, owner_id, job_id, task)"
    + _READ.replace("{started}", "started")
)
# Plain functions start one by one, and planning this would take longer than doing it: it is planned once.
_ONE_ON_POSTGRESQL = _ON_POSTGRESQL.replace("id IN ({ids})", "id = %s")


@dataclass(frozen=True, slots=True)
class Started:
    """An execution that this worker has just started, with all that its task needs."""

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
    timeout: timedelta
    attempts: int
    backoff: timedelta
    signing_key: str | None

    @property
    def key(self) -> str:
        return slot_key(self.job_public_id, self.scheduled_for, self.cause)


def start_runs(cluster_id: int, attempt: int, execution_ids: Sequence[int], now: datetime) -> list[Started]:
    """Mark claimed executions as running; those that are no longer ours are left out."""
    started_at = connection.ops.adapt_datetimefield_value(now)
    lease = timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    lease_until = connection.ops.adapt_datetimefield_value(now + lease)
    times: list[Any] = [started_at, lease_until, started_at]
    claim: list[Any] = [cluster_id, attempt]
    if connection.vendor == "postgresql" and len(execution_ids) == 1:
        return [*map(_started, fetch(_ONE_ON_POSTGRESQL, [*times, execution_ids[0], *claim]))]
    ids = integers(execution_ids)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_ON_POSTGRESQL.format(ids=ids), times + claim)
        else:
            update, read = _ON_SQLITE
            cursor.execute(update.format(ids=ids), times + claim)
            cursor.execute(read.format(ids=ids), [cluster_id, attempt + 1, started_at])
        return [*map(_started, cursor.fetchall())]


def _started(row: Sequence[Any]) -> Started:
    """Turn the driver's values into Python's."""
    values = list(row)
    if connection.vendor == "sqlite":
        values[3] = values[3].replace(tzinfo=UTC)
        values[11], values[13] = timedelta(microseconds=values[11]), timedelta(microseconds=values[13])
    values[9], values[10] = json.loads(values[9]), json.loads(values[10])
    return Started(*values)
