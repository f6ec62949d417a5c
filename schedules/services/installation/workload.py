"""Numbers about the work of an installation, for monitoring; every query reads a limited number of index rows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from django.db.models import Count

from schedules.models import Execution, Job
from schedules.models.counting import COUNTED, count_up_to
from schedules.models.standings import is_stopped_failing
from schedules.services.run_list import NEWEST_FIRST

_BY_NEXT_RUN = ("next_run_at", "-pk")


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog: how many jobs are late, how long work has waited, and how many runs are not finished."""

    late: int
    """Counted up to COUNTED."""
    due_since: datetime | None
    ready_since: datetime | None
    live: Mapping[str, int]
    """Unfinished runs by status, counted up to COUNTED in total."""


@dataclass(frozen=True, slots=True)
class DueJobs:
    """How many jobs are due, counted up to one more than COUNTED, and since when the oldest is."""

    count: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """How late the newest scheduled runs started, and when the last run ended."""

    lateness: list[timedelta]
    last_finished_at: datetime | None


def is_any_job_late(now: datetime) -> bool:
    return Job.objects.late(now).exists()


def read_backlog(now: datetime) -> Backlog:
    late = Job.objects.late(now).order_by(*_BY_NEXT_RUN)
    ready = Execution.objects.ready(now).order_by("available_at")
    live = Execution.objects.live().order_by("job_id").values_list("status", flat=True)
    return Backlog(
        late=min(count_up_to(late), COUNTED),
        due_since=_oldest_due(now),
        ready_since=ready.values_list("available_at", flat=True).first(),
        live=Counter(live[:COUNTED]),
    )


def due_jobs(now: datetime) -> DueJobs:
    return DueJobs(count_up_to(Job.objects.due(now).order_by(*_BY_NEXT_RUN)), _oldest_due(now))


def _oldest_due(now: datetime) -> datetime | None:
    due = Job.objects.due(now).order_by(*_BY_NEXT_RUN)
    return due.values_list("next_run_at", flat=True).first()


def live_runs_by_status() -> dict[str, int]:
    """Count all runs that are not finished."""
    return dict(Execution.objects.live().order_by().values_list("status").annotate(count=Count("pk")))


def kept_runs(owner_id: Any) -> int:
    """Count the stored runs of one owner, up to one more than COUNTED."""
    return count_up_to(Execution.objects.filter(owner=owner_id))


def read_recent_runs(limit: int) -> RecentRuns:
    runs = Execution.objects.order_by(*NEWEST_FIRST).values_list("cause", "lateness", "finished_at")[:limit]
    newest = list(runs)
    on_schedule = Execution.Cause.SCHEDULE
    return RecentRuns(
        [lateness for cause, lateness, _ in newest if cause == on_schedule and lateness is not None],
        max((ended for _, _, ended in newest if ended), default=None),
    )


def monitored_jobs(columns: tuple[str, ...], most_planned: int, most_stopped: int) -> list[Any]:
    """Return these columns of the jobs that are due next, and of those that stopped because of failures."""
    planned = Job.objects.kept().filter(status=Job.Status.PENDING).order_by(*_BY_NEXT_RUN)
    stopped = Job.objects.kept().filter(is_stopped_failing()).order_by("-pk")
    return list(
        chain(planned.values_list(*columns)[:most_planned], stopped.values_list(*columns)[:most_stopped])
    )
