"""The start of claimed executions."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

from django.conf import settings

from schedules.engine.sql import queries
from schedules.models.executions import slot_key


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
    """Mark claimed executions as running; leave out those that are no longer ours. Return them in the order of their ids."""
    lease_until = now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    rows = queries.start(cluster_id, attempt, execution_ids, now, lease_until, skip_locked=skip_locked)
    # PostgreSQL returns them in the order of its plan, which may change.
    rows.sort(key=itemgetter(0))
    # Read in one step: a call of the decoder for each run takes longer than its work.
    arguments = iter(json.loads(f"[{','.join(f'{values[9]},{values[10]}' for values in rows)}]"))
    for values in rows:
        values[9], values[10] = next(arguments), next(arguments)
    return [*map(Started._make, rows)]
