"""The states of jobs, and queries: in the trash, due, late, running, and the lists by state, each in the order of an index."""

import functools
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from django.apps import apps
from django.db import connection, models
from django.db.models import Q

Row = TypeVar("Row", bound=models.Model)

LATE_AFTER = timedelta(minutes=2)
# The public ids of failure notices start with this; unlike a name, no caller can choose it.
NOTICE_PREFIX = "notice"


class JobStatus(models.TextChoices):
    """The stored status; `state_of` returns the state to show."""

    PENDING = "pending"
    """Armed for `next_run_at`. A repeating job is pending between and during runs."""
    RUNNING = "running"
    """Its last run is under way; the engine then marks the job as completed or failed."""
    PAUSED = "paused"
    """Stopped by a user, an agent or repeated failures, until it is resumed or `paused_until` passes."""
    COMPLETED = "completed"
    """No slot is left: a one-time job has run, or `max_runs` or `ends_at` was reached."""
    FAILED = "failed"
    """A one-time job whose last attempt failed."""
    CANCELLED = "cancelled"
    """Ended by a user or an agent; it never fires again."""


# A job in one of these may still run.
ACTIVE = (JobStatus.PENDING, JobStatus.RUNNING, JobStatus.PAUSED)


def is_public_id(text: str) -> bool:
    """Return whether a text can be an id; PostgreSQL raises errors for some other texts."""
    return text.isascii() and text.isprintable()


def begins_with(column: str, text: str) -> Q:
    """Match a column by its prefix, in a form for which the database uses an index."""
    if connection.vendor == "sqlite":
        # Its LIKE ignores case and therefore uses no index.
        return Q(**{f"{column}__gte": text, f"{column}__lt": f"{text}\U0010ffff"})
    return Q(**{f"{column}__startswith": text})


class JobQueries(models.QuerySet[Row]):
    """Queries of jobs; `JobQuerySet` binds them to the model Job."""

    def notices(self) -> Self:
        """Alerts, which Cronty creates itself."""
        return self.filter(begins_with("public_id", f"{NOTICE_PREFIX}_"))

    def without_notices(self) -> Self:
        return self.exclude(public_id__startswith=f"{NOTICE_PREFIX}_")

    def kept(self) -> Self:
        """Jobs that are not in the trash."""
        return self.filter(deleted_at=None)

    def trashed(self) -> Self:
        return self.filter(deleted_at__isnull=False)

    def owned_by(self, user: Any) -> Self:
        return self.filter(owner=user)

    def called(self, public_id: str) -> Self:
        """The job with this id, if any; text that cannot be an id matches nothing."""
        # Unordered, because there is at most one.
        return self.filter(public_id=public_id).order_by() if is_public_id(public_id) else self.none()

    def find(self, public_id: str) -> Row | None:
        """Return the job with this id, or None; faster than `first`, which would sort."""
        return next(iter(self.called(public_id)[:1]), None)

    def named_like(self, beginning: str) -> Self:
        """Jobs whose name looks like it begins with this text, which must be a skeleton."""
        return self.filter(begins_with("name_skeleton", beginning))

    def active(self) -> Self:
        """Jobs that may still run: pending, running or paused."""
        return self.filter(deleted_at=None, status__in=ACTIVE)

    def armed(self) -> Self:
        return self.filter(deleted_at=None, status=JobStatus.PENDING)

    def proposed(self) -> Self:
        """Jobs that wait until a person confirms them."""
        return self.filter(proposed_at__isnull=False, deleted_at=None, status=JobStatus.PAUSED)

    def due(self, now: datetime) -> Self:
        return self.armed().filter(next_run_at__lte=now)

    def late(self, now: datetime) -> Self:
        """Jobs that are overdue by more than LATE_AFTER, which points to a problem."""
        return self.due(now - LATE_AFTER)

    def with_activity(self) -> Self:
        """Annotate `is_running`: whether a run is under way."""
        return self.annotate(is_running=_has_run_under_way())

    def in_state(self, state: str) -> Self:
        """Jobs in this state, as `state_of` defines it."""
        match state:
            case JobStatus.RUNNING:
                return self._running(self.filter(status=JobStatus.RUNNING))
            case JobStatus.PENDING:
                return self.filter(~_has_run_under_way(), status=JobStatus.PENDING)
        return self.filter(status=state)

    def _running(self, last_runs: Self) -> Self:
        """Jobs with a run under way: those that will run again, and those in their last run."""
        under_way = self.filter(_has_run_under_way(), status=JobStatus.PENDING)
        # A union of keys, because for a condition with OR the database would scan all jobs.
        keys = [rows.order_by().values("pk") for rows in (under_way, last_runs)]
        return self.filter(pk__in=keys[0].union(keys[1], all=True))

    def listed(self, state: str) -> Self:
        """Jobs in this state, the next to run first and then the newest, in the order of an index."""
        match state:
            case JobStatus.RUNNING:
                return self._running(self.stopped(state))
            case JobStatus.PENDING:
                # Without the condition, SQLite would begin with the jobs that have no next run.
                pending = self.in_state(state).filter(next_run_at__isnull=False)
                return pending.order_by("next_run_at", "-pk")
        return self.stopped(state)

    def stopped(self, status: str) -> Self:
        """Jobs with this status, which have no next run; newest first, in the order of an index."""
        if status == JobStatus.RUNNING:
            # Find them by their unfinished last runs, which have an index. An index of such jobs would cost every firing.
            return self.filter(status=status, pk__in=_unfinished("live")).order_by("-pk")
        # SQLite uses the partial index only if the query repeats its condition.
        ended = self.exclude(status=JobStatus.PENDING).exclude(status=JobStatus.RUNNING)
        return ended.filter(status=status).order_by("-pk")


@functools.cache
def has_unfinished(which: str) -> Q:
    """Match jobs with unfinished runs that this method of ExecutionQuerySet selects."""
    # One subquery for all jobs can use a partial index; with one per job, SQLite would read the whole history.
    return Q(pk__in=_unfinished(which))


def _has_run_under_way() -> Q:
    return has_unfinished("under_way")


def _unfinished(which: str) -> Any:
    """Return the jobs of the runs that this method of ExecutionQuerySet selects."""
    executions: Any = apps.get_model("schedules", "Execution").objects
    return getattr(executions, which)().filter(job__isnull=False).order_by().values("job")
