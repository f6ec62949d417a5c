"""Interruptions: when clusters could not claim, and why, so that a missed slot's row names what happened."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Self

from django.db import connection

from schedules.engine.due import PlannedJob
from schedules.models import Cluster
from schedules.tasks import registry

NO_CLUSTER = "No worker was running."
RESTARTED = "The worker was stuck and had to be restarted."
BUSY = "Every worker was busy."
STALLED = "The worker was frozen, or its host was overloaded."
SLOW = "The database was locked or slow, or too much was due at once."
ASLEEP = "The host was asleep, or its clock was set forward."
JOB_LOCKED = "Another session held a lock on the job."

# The newest clusters, which are asked: one that is restarted again and again leaves thousands of rows.
MOST_CLUSTERS = 1000


@dataclass(frozen=True, slots=True)
class Interruption:
    """A period in which a cluster could not claim runs, or those of one lane only."""

    since: datetime
    until: datetime
    reason: str
    lane: str = ""

    def affects(self, moment: datetime, lane: str) -> bool:
        return self.since <= moment <= self.until and self.lane in ("", lane)

    def to_json(self) -> list[Any]:
        return [self.since.isoformat(), self.until.isoformat(), self.reason, self.lane]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Self:
        since, until, reason, lane = values
        return cls(datetime.fromisoformat(since), datetime.fromisoformat(until), reason, lane)


@dataclass(frozen=True, slots=True)
class _Span:
    """The time in which a cluster is known to have been alive, and its interruptions."""

    start: datetime
    end: datetime
    interruptions: Sequence[Interruption]
    restarted_at: datetime | None = None

    def reason(self, moment: datetime, lane: str) -> str:
        """Return why this cluster could not claim at a moment, or an empty text."""
        found = (item.reason for item in self.interruptions if item.affects(moment, lane))
        return next(found, "")


def reason_missed(
    cluster_id: int, now: datetime, own: Iterable[Interruption] = ()
) -> Callable[[PlannedJob, datetime], str]:
    """Return a function that says why a job's slot was not claimed on time, with at most one query.

    `own` are the interruptions of this cluster; those of others are known up to their last heartbeat.
    """

    @cache
    def spans() -> list[_Span]:
        rows = Cluster.objects.order_by("-pk").only(
            "started_at", "stopped_at", "last_seen_at", "interruptions", "note"
        )[:MOST_CLUSTERS]
        return [
            _Span(row.started_at, now, tuple(own))
            if row.pk == cluster_id
            else _Span(
                row.started_at,
                row.last_seen_at,
                [Interruption.from_json(values) for values in row.interruptions or []],
                row.stopped_at if row.note else None,
            )
            for row in rows
        ]

    def reason(job: PlannedJob, moment: datetime) -> str:
        task = registry.get(job.task)
        lane = task.lane if task else ""
        alive = [span for span in spans() if span.start <= moment <= span.end]
        reasons = [span.reason(moment, lane) for span in alive]
        if reasons and all(reasons):
            return reasons[-1]
        if reasons:
            # A cluster could claim, and did not; SQLite has no locks on rows.
            return JOB_LOCKED if connection.features.has_select_for_update else SLOW
        was_stuck = any(span.restarted_at and span.end < moment <= span.restarted_at for span in spans())
        return RESTARTED if was_stuck else NO_CLUSTER

    return reason
