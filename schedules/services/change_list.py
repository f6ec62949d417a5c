"""The list of changes to jobs: one entry per call or click, newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schedules.models import Event, Job
from schedules.services.activity import JOB_COLUMNS
from schedules.services.jobs.undo import CALL, MAX_EVENTS, MAX_SCANNED, UNDOABLE, undoable_events
from schedules.services.permissions import Actor

# How many jobs an entry names.
NAMED_JOBS = 3


@dataclass(frozen=True, slots=True)
class Change:
    """What one call or click changed: the number of jobs, and the events of those that are named."""

    jobs: int
    events: Sequence[Event]
    can_be_undone: bool

    @property
    def first(self) -> Event:
        return self.events[0]


def read_changes(
    actor: Actor, since: datetime, limit: int, *, is_own: bool = False, job: Job | None = None
) -> tuple[list[Change], bool]:
    """Return the newest changes since a moment, and whether there are more.

    Limit them to the actor's own changes, or to those of one job.
    """
    scope = actor.events().filter(job=job) if job else actor.events()
    newest = scope.order_by("-pk").values("pk")[:MAX_SCANNED]
    events = Event.objects.filter(
        actor.within_tasks("job__task"), pk__in=newest, verb__in=UNDOABLE, at__gte=since
    )
    if is_own:
        events = events.filter(owner=actor.user.pk, actor=actor.label, door=actor.door)
    # Read only keys first: whole rows with their jobs take ten times as long, and most are not needed.
    keys = list(events.order_by("-pk").values_list("pk", "job", *CALL, named=True)[: MAX_EVENTS + 1])
    calls = _calls(keys[:MAX_EVENTS])
    is_cut, calls = len(keys) > MAX_EVENTS or len(calls) > limit, calls[:limit]
    undoable = set(
        undoable_events(actor)
        .filter(pk__in=[pk for call in calls for pk in call])
        .values_list("pk", flat=True)
    )
    columns = [field.name for field in Event._meta.concrete_fields] + [f"job__{name}" for name in JOB_COLUMNS]
    shown = [pk for call in calls for pk in call[:NAMED_JOBS]]
    named = Event.objects.select_related("job").only(*columns).in_bulk(shown)
    return [
        Change(len(call), [named[pk] for pk in call[:NAMED_JOBS]], not undoable.isdisjoint(call))
        for call in calls
    ], is_cut


def _calls(keys: Sequence[Any]) -> list[list[int]]:
    """Group the ids of events recorded by the same call or click, which changes each job once."""
    calls: list[list[int]] = []
    latest: dict[tuple[object, ...], tuple[list[int], set[int | None]]] = {}
    for pk, job, *key in keys:
        call, jobs = latest.get(tuple(key), ([], {job}))
        if job in jobs:
            call, jobs = latest[tuple(key)] = [], set()
            calls.append(call)
        call.append(pk)
        jobs.add(job)
    return calls
