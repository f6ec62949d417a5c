"""Versions: short values that change with the jobs and runs an actor sees, for polling pages and subscriptions.

Each query reads only a few rows of an index.
"""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Any, NamedTuple

from django.db.models import Count, Max, Min, Sum

from schedules.models import Event, Execution
from schedules.models.job_queries import is_public_id
from schedules.services.permissions import Actor
from schedules.services.run_list import NEWEST_FIRST
from schedules.services.runs.approvals import list_waiting

# Statuses that change within seconds; a run may wait for an agent for hours.
MOVING = (Execution.Status.QUEUED, *Execution.HELD)
# Runs that may have changed since the last poll: the newest, and unfinished ones.
NEWEST_RUNS = 10
MAX_LIVE = 500
# A page polls more often while something is due within this time.
SOON = timedelta(minutes=1)


class Version(NamedTuple):
    """A short digest that changes with a user's jobs and runs, and whether to poll again soon."""

    digest: str
    is_soon: bool


def version_of_all(actor: Actor, now: datetime, *, has_cluster: bool) -> Version:
    """Return the version of the jobs and runs that an actor sees, including whether a cluster is alive."""
    columns = ("pk", "status", "attempt", "lease_until")
    newest = list(actor.executions().order_by(*NEWEST_FIRST).values_list(*columns)[:NEWEST_RUNS])
    # Everybody's, because live runs have no index by owner.
    live = list(Execution.objects.live().order_by().values_list("owner", *columns)[:MAX_LIVE])
    mine = sorted(run for owner, *run in live if actor.sees_all or owner == actor.user.pk)
    # For one owner, don't filter by status: SQLite would use the wrong index, and only pending jobs have a next run.
    jobs = actor.jobs().armed() if actor.sees_all else actor.jobs()
    armed = jobs.filter(next_run_at__isnull=False).order_by("next_run_at", "-pk")
    due = armed.values_list("next_run_at", flat=True).first()
    seen = (
        newest,
        mine,
        due,
        # A due job that no cluster claims becomes late without any change in the database.
        now.minute if due and due < now else None,
        list(actor.events().order_by("-pk").values_list("pk", flat=True)[:1]),
        has_cluster,
    )
    is_moving = any(status in MOVING for _, status, *_ in [*newest, *mine])
    return Version(
        blake2s(repr(seen).encode(), digest_size=8).hexdigest(),
        is_moving or (due is not None and due <= now + SOON),
    )


def versions_of_jobs(actor: Actor, job_ids: Collection[str]) -> dict[str, Any]:
    """Return, by job id, a value that changes with the job and its unfinished runs."""
    jobs = actor.jobs().filter(public_id__in=filter(is_public_id, job_ids)).order_by().in_bulk()
    runs: dict[int | None, list[Any]] = defaultdict(list)
    live = Execution.objects.live().filter(job__in=jobs).order_by("pk")
    for job_pk, *run in live.values_list("job", "pk", "status", "attempt"):
        runs[job_pk].append(run)
    return {
        job.public_id: (
            (job.revision, job.status, job.run_count, job.recent, job.next_run_at, job.last_error),
            runs[pk],
        )
        for pk, job in jobs.items()
    }


def version_of_active_jobs(actor: Actor) -> Any:
    """Return a value that changes with any active job: claims change `slot_count`, finished runs `last_run_at`."""
    jobs = actor.jobs().active().order_by()
    totals = jobs.aggregate(Count("pk"), Sum("slot_count"), Min("next_run_at"), Max("last_run_at"))
    return _last_change(actor), totals


def version_of_waiting(actor: Actor) -> Any:
    """Return a value that changes with what waits for a person; answers and proposals are recorded as events."""
    return _last_change(actor), [approval.pk for approval in list_waiting(actor)]


def _last_change(actor: Actor) -> int | None:
    events = Event.objects.filter(actor.within_tasks("job__task"), owner=actor.user.pk)
    # Not an aggregate: it would read all of the owner's events if the actor may see only some tasks.
    return events.order_by("-pk").values_list("pk", flat=True).first()
