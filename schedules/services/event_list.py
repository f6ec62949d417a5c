"""The audit log: find the events that an actor may see, and those of one job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from schedules.models import Event, Job
from schedules.services.job_list import key_of
from schedules.services.paging import PAGE_SIZE, ListPage, read_page
from schedules.services.permissions import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Filters of the audit log; empty values do not filter."""

    actor: str = ""
    """The name of a person or an agent."""
    door: str = ""
    verb: str = ""
    job: str = ""
    """The id of a job."""
    since: datetime | None = None
    until: datetime | None = None

    def scope(self, actor: Actor) -> QuerySet[Event]:
        """Filter by owner and job, which have indexes."""
        events = actor.visible(Event.objects.select_related("job__owner"), "job__task")
        # By key, because the index of a job's events is ordered by it.
        return events.filter(job=key_of(self.job) or 0) if self.job else events

    @property
    def narrowed(self) -> dict[str, Any]:
        """The other conditions, which have no index."""
        conditions = {
            "actor__iexact": self.actor,
            "door": self.door,
            "verb": self.verb,
            "at__gte": self.since,
            "at__lt": self.until,
        }
        return {lookup: value for lookup, value in conditions.items() if value}


def read_events(
    actor: Actor, query: EventQuery, position: Mapping[str, str], size: int = PAGE_SIZE
) -> ListPage:
    """Read the page of the audit log at a position, newest first."""
    events = query.scope(actor)
    if not query.narrowed:
        return read_page(events, position, size)
    return read_page(events.filter(**query.narrowed), position, size, among=events)


def events_of(job: Job, limit: int, *, since: datetime | None = None) -> list[Event]:
    """Return the last events of a job, newest first."""
    events = Event.objects.filter(job=job)
    return list((events.filter(at__gt=since) if since else events)[:limit])


def undone_among(events: Sequence[Event]) -> set[int]:
    """Return the keys of those events that were undone."""
    # Unordered: with an order, SQLite reads the whole table instead of the index on `undoes`.
    reversals = Event.objects.filter(undoes__in=[event.pk for event in events]).order_by()
    return {key for key in reversals.values_list("undoes", flat=True) if key is not None}
