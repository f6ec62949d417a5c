"""Interruptions: periods in which a cluster could not claim, so that the row of a missed slot says why."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, Self

from schedules.models import FRESH_FOR, Cluster

NO_CLUSTER = "No worker was running."
DATABASE = "The database did not answer, or was locked."
BUSY = "The workers or the database were too busy."

# Read only the newest clusters: one that keeps restarting leaves thousands of rows.
MAX_CLUSTERS = 1000


class Interruption(NamedTuple):
    """A period in which a cluster could not claim runs."""

    since: datetime
    until: datetime
    reason: str

    def to_json(self) -> list[str]:
        return [self.since.isoformat(), self.until.isoformat(), self.reason]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Self:
        since, until, reason, *_ = values
        return cls(datetime.fromisoformat(since), datetime.fromisoformat(until), reason)


class _Lifetime(NamedTuple):
    """The time in which a cluster is known to have been alive, and its interruptions."""

    start: datetime
    end: datetime
    interruptions: Sequence[Interruption]

    def spans(self) -> list[tuple[datetime, datetime]]:
        """Return the parts of it that were not interrupted."""
        begins = [self.start, *(item.until for item in self.interruptions)]
        return list(zip(begins, [*(item.since for item in self.interruptions), self.end], strict=True))

    def reason_at(self, moment: datetime) -> str:
        """Return why this cluster could not claim at a moment, or an empty text if it could."""
        reasons = (item.reason for item in self.interruptions if item.since <= moment <= item.until)
        return next(reasons, "")


@dataclass
class ReasonMissed:
    """Explains why a slot was not claimed on time, with at most one query.

    The interruptions of this cluster are passed in; those of other clusters are as of their last heartbeats.
    """

    cluster_id: int
    now: datetime
    interruptions: Sequence[Interruption] = ()

    def __call__(self, moment: datetime) -> str:
        reasons = [item.reason_at(moment) for item in self._lifetimes if item.start <= moment <= item.end]
        if not reasons:
            return NO_CLUSTER
        return reasons[-1] if all(reasons) else BUSY

    @cached_property
    def _lifetimes(self) -> list[_Lifetime]:
        return [
            _Lifetime(each.start, self.now, self.interruptions) if key == self.cluster_id else each
            for key, each in _read_lifetimes()
        ]


def absences() -> list[tuple[datetime, datetime]]:
    """Return the periods, oldest first, in which Cronty was away: no cluster could work, so a ping may have been lost."""
    spans = sorted(span for _, lifetime in _read_lifetimes() for span in lifetime.spans())
    absent = []
    seen = spans[0][1] if spans else None
    for since, until in spans:
        assert seen is not None
        # A shorter silence is within what counts as alive.
        if since - seen > FRESH_FOR:
            absent.append((seen, since))
        seen = max(seen, until)
    return absent


def _read_lifetimes() -> list[tuple[int, _Lifetime]]:
    """Read the lifetimes of the newest clusters, as of their last heartbeats."""
    rows = Cluster.objects.order_by("-pk").only("started_at", "last_seen_at", "interruptions")
    return [
        (
            row.pk,
            _Lifetime(
                row.started_at, row.last_seen_at, [*map(Interruption.from_json, row.interruptions or ())]
            ),
        )
        for row in rows[:MAX_CLUSTERS]
    ]
