"""The changes of jobs, for all who ask what was changed: one entry for each call or click, the newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schedules.models import Event, Job
from schedules.services.jobs.undo import LOOKED_THROUGH, MOST_EVENTS, UNDOABLE, undoable_events
from schedules.services.permissions import Actor


@dataclass(frozen=True, slots=True)
class Change:
    """What one call or click has changed: an event for each job."""

    events: Sequence[Event]
    can_be_undone: bool

    @property
    def first(self) -> Event:
        return self.events[0]


def read_changes(
    actor: Actor, since: datetime, *, is_own: bool = False, job: Job | None = None
) -> tuple[list[Change], bool]:
    """Return the changes since a moment, of this person or agent alone or of one job, and whether there are more."""
    events = Event.objects.all() if actor.sees_all else Event.objects.filter(owner=actor.user.pk)
    if job:
        events = events.filter(job=job)
    newest = events.order_by("-pk").values("pk")[:LOOKED_THROUGH]
    events = Event.objects.filter(
        actor.within_tasks("job__task"), pk__in=newest, verb__in=UNDOABLE, at__gte=since
    )
    if is_own:
        events = events.filter(owner=actor.user.pk, actor=actor.label, door=actor.door)
    rows = list(events.select_related("job").order_by("-pk")[: MOST_EVENTS + 1])
    is_cut, rows = len(rows) > MOST_EVENTS, rows[:MOST_EVENTS]
    keys = [event.pk for event in rows]
    undoable = set(undoable_events(actor).filter(pk__in=keys).values_list("pk", flat=True))
    return [Change(call, any(event.pk in undoable for event in call)) for call in _calls(rows)], is_cut


def _calls(events: Sequence[Event]) -> list[list[Event]]:
    """Group the events that one call or click has recorded, which changes each job once."""
    calls: list[list[Event]] = []
    latest: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        key = (event.owner_id, event.actor, event.door, event.verb, event.at)
        call = latest.get(key)
        if call is None or any(each.job_id == event.job_id for each in call):
            call = latest[key] = []
            calls.append(call)
        call.append(event)
    return calls
