"""A running cluster, and helpers for the steps of a run."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schedules import engine
from schedules.engine import Outcome, Started, claim, pauses
from schedules.engine.upkeep import clock_rollback
from schedules.models import Cluster, Execution, Job
from tests.factories import ClusterFactory, ExecutionFactory
from tests.waiting import PATIENCE

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
LEASE = timedelta(seconds=10)

Settle = Callable[..., int]


@pytest.fixture(autouse=True)
def time_to_plan() -> Iterator[None]:
    """Have one call plan, check and resume all jobs, on a slow machine too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claim, "PLANNING_SECONDS", PATIENCE)
        patch.setattr(pauses, "RESUMING_SECONDS", PATIENCE)
        patch.setattr(clock_rollback, "CHECKING_SECONDS", PATIENCE)
        yield


@pytest.fixture
def cluster(db: None) -> Cluster:
    return new_cluster()


def new_cluster(**fields: Any) -> Cluster:
    began = NOW - timedelta(days=7)
    return ClusterFactory(**{"started_at": began, "last_seen_at": NOW, "probe_returned_at": NOW} | fields)


def begin(cluster: Cluster, job: Job, *, now: datetime = NOW, **fields: Any) -> Started:
    """Create a run of the job and start it on this cluster."""
    row = ExecutionFactory(
        job=job,
        **{
            "scheduled_for": now,
            "status": "claimed",
            "cluster": cluster,
            "claimed_at": now,
            "lease_until": now + LEASE,
        }
        | fields,
    )
    return engine.start_runs(cluster.pk, row.attempt, [row.pk], now)[0]


def outcome_of(started: Started, status: str = "succeeded", *, at: datetime = NOW, **fields: Any) -> Outcome:
    return Outcome(
        started.execution_id, started.attempt, started.job_id, Execution.Status(status), at, **fields
    )


def ledger(job: Job) -> list[tuple[str, datetime]]:
    """Return the status of each slot, oldest first."""
    rows = Execution.objects.filter(job=job).order_by("scheduled_for", "pk")
    return list(rows.values_list("status", "scheduled_for"))
