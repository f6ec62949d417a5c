"""The start of claimed executions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from schedules.engine import sql
from schedules.models.executions import slot_key


@dataclass(frozen=True, slots=True)
class Started:
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
    timeout: timedelta
    attempts: int
    backoff: timedelta
    owner_key: str | None
    signing_version: int
    signing_changed_at: datetime | None

    @property
    def key(self) -> str:
        return slot_key(self.job_public_id, self.scheduled_for, self.cause)


def start_runs(
    cluster_id: int, attempt: int, execution_ids: Sequence[int], now: datetime, *, skip_locked: bool = False
) -> list[Started]:
    """Mark claimed executions as running; leave out those that are no longer ours."""
    lease_until = now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    rows = sql.start(cluster_id, attempt, execution_ids, now, lease_until, skip_locked=skip_locked)
    return [*map(_started, rows)]


def _started(values: list[Any]) -> Started:
    """Convert the values of the database driver."""
    if connection.vendor == "sqlite":
        values[3] = values[3].replace(tzinfo=UTC)
        values[16] = values[16] and values[16].replace(tzinfo=UTC)
        values[11], values[13] = timedelta(microseconds=values[11]), timedelta(microseconds=values[13])
    values[9], values[10] = json.loads(values[9]), json.loads(values[10])
    return Started(*values)
