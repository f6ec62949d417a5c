"""Pruning: runs in small steps all day, and everything else of the history once a night.

A run is pruned when it is older than the history limit, or when its job or owner has as many newer runs as allowed.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from schedules import clock
from schedules.models import (
    AgentRun,
    Approval,
    Cluster,
    Event,
    Execution,
    Incident,
    Installation,
    Job,
    Question,
    Reminder,
    RunOutput,
    TriggerCall,
    UserSession,
)
from schedules.models.executions import ExecutionQuerySet

BATCH = 1000
TRASH_DAYS = 30
# How long messages to trigger addresses are remembered against replays; those with a signed time expire in minutes.
TRIGGER_CALL_DAYS = 90
# How many rows one DELETE removes: on SQLite, claims wait for it.
RUNS_AT_ONCE = 200
# How many rows are counted, and selected for deletion, at a time.
COUNT_ROWS = SELECT_ROWS = 5000
# A new pruner also counts this many existing rows, to find the jobs that run often.
COUNT_EXISTING = 100_000
# A job or owner is pruned only after this many new rows, because pruning more often would be slow. A history may exceed
# its limit by this much, or by a twentieth of a job's limit and a hundredth of an owner's.
SLACK = 50
PRUNE_OLD_EVERY = timedelta(minutes=1)


def prune_history() -> dict[str, int]:
    """Delete everything beyond the limits of the history, in small steps; return the number of rows by kind."""
    now = clock.now()
    oldest = now - timedelta(days=settings.CRONTY_HISTORY_DAYS)
    runs_before, events_before = _pruned_so_far()
    newest_runs, newest_events = _newest(Execution), _newest(Event)
    executions = _prune_executions(oldest, runs_before)
    old_trash = Job.objects.trashed().filter(deleted_at__lt=now - timedelta(days=TRASH_DAYS))
    jobs = _delete_in_steps(old_trash.order_by("-deleted_at", "-pk"))
    _delete_in_steps(Incident.objects.filter(ended_at__lt=oldest).order_by("ended_at"))
    _delete_in_steps(TriggerCall.objects.filter(received_at__lt=now - timedelta(days=TRIGGER_CALL_DAYS)))
    # Cronty created the alerts, so no person deletes them.
    old_notices = Job.objects.notices().filter(next_run_at=None, created_at__lt=oldest)
    jobs += _delete_in_steps(old_notices.order_by("public_id"))
    Cluster.objects.filter(last_seen_at__lt=oldest).delete()
    _prune_logins(now, oldest)
    events = _prune_events(oldest, events_before)
    _keep_progress(newest_runs, newest_events)
    return {"executions": executions, "jobs": jobs, "events": events}


def _prune_logins(now: datetime, oldest: datetime) -> None:
    """Prune sessions, tokens of connected apps and login attempts if their apps are installed."""
    _delete_in_steps(UserSession.objects.filter(expire_date__lt=now))
    if apps.is_installed("django.contrib.sessions"):
        sessions: Any = apps.get_model("sessions", "Session")
        _delete_in_steps(sessions.objects.filter(expire_date__lt=now))
    if settings.CRONTY_OAUTH:
        call_command("cleartokens")
    if apps.is_installed("axes"):
        for name in ("AccessLog", "AccessAttempt"):
            logins: Any = apps.get_model("axes", name)
            _delete_in_steps(logins.objects.filter(attempt_time__lt=oldest))


def _prune_executions(oldest: datetime, since: int) -> int:
    """Prune the runs that no cluster has pruned, such as those of jobs that run rarely.

    Only jobs and owners with new runs can exceed their limits; runs that are under way count the next time.
    """
    pruned = sum(delete_batches(expired(oldest)))
    per_job, per_owner = settings.CRONTY_HISTORY_PER_JOB, settings.CRONTY_HISTORY_PER_PERSON
    new = Execution.objects.filter(pk__gt=since).order_by()
    final = Execution.objects.filter(status__in=Execution.FINAL).order_by()
    if since:
        final = final.filter(job__in=new.values("job"))
    jobs = final.exclude(job=None).values("job").annotate(count=Count("pk")).filter(count__gt=per_job)
    for job_id in list(jobs.values_list("job", flat=True)):
        pruned += sum(delete_batches(beyond_limit_of_job(job_id, per_job)))
    for owner_id in _owners(new):
        pruned += sum(delete_batches(beyond_limit_of_owner(owner_id, per_owner)))
    return pruned


def _prune_events(oldest: datetime, since: int) -> int:
    pruned = _prune_old_events(oldest)
    new = Event.objects.filter(pk__gt=since).order_by()
    for owner_id in _owners(new):
        newest = Event.objects.filter(owner=owner_id).order_by("-pk")
        last_pruned = newest.values_list("pk", flat=True)[settings.CRONTY_EVENTS_PER_PERSON :].first()
        if last_pruned:
            pruned += _delete_in_steps(Event.objects.filter(owner=owner_id, pk__lte=last_pruned))
    return pruned


def _owners(rows: QuerySet[Any]) -> list[Any]:
    # Without DISTINCT, for which SQLite would read all rows in the order of owners.
    return sorted(set(rows.values_list("owner", flat=True).iterator()))


def _pruned_so_far() -> tuple[int, int]:
    """Return the newest run and event checked so far, or zeros if the limits have changed since."""
    installation = Installation.objects.filter(pk=Installation.ONLY, pruned_to=_limits()).first()
    return (installation.pruned_runs, installation.pruned_events) if installation else (0, 0)


def _keep_progress(runs: int, events: int) -> None:
    values = {"pruned_runs": runs, "pruned_events": events, "pruned_to": _limits()}
    Installation.objects.update_or_create(pk=Installation.ONLY, defaults=values)


def _newest(model: type[Execution] | type[Event]) -> int:
    return model._default_manager.order_by("-pk").values_list("pk", flat=True).first() or 0


def _limits() -> str:
    names = ("CRONTY_HISTORY_PER_JOB", "CRONTY_HISTORY_PER_PERSON", "CRONTY_EVENTS_PER_PERSON")
    return " ".join(str(getattr(settings, name)) for name in names)


def _prune_old_events(oldest: datetime) -> int:
    """Delete events in batches, oldest first, until a batch has no old ones."""
    # Primary keys grow with time, so no index on `at` is needed.
    pruned, last = 0, 0
    while batch := Event.objects.filter(pk__gt=last).order_by("pk").values_list("pk", "at")[:BATCH]:
        old = [pk for pk, at in batch if at < oldest]
        if not old:
            break
        pruned += Event.objects.filter(pk__in=old).delete()[0]
        last = max(pk for pk, _ in batch)
    return pruned


def _delete_in_steps(rows: QuerySet[Any]) -> int:
    """Delete rows in batches; rows that another session has locked, such as a job that is being restored, stay."""
    deleted = 0
    while True:
        with transaction.atomic():
            batch = list(rows.select_for_update(skip_locked=True).values_list("pk", flat=True)[:BATCH])
            if not batch:
                return deleted
            deleted += rows.model._default_manager.filter(pk__in=batch).delete()[0]


def expired(oldest: datetime) -> ExecutionQuerySet:
    """Return the finished runs before a moment; a gap is as old as its last slot."""
    return _finished().filter(Q(last_slot=None) | Q(last_slot__lt=oldest), scheduled_for__lt=oldest)


def beyond_limit_of_job(job_id: int, limit: int) -> ExecutionQuerySet:
    """Return the finished runs of a job that are older than its newest ones."""
    runs = _finished().filter(job=job_id)
    return _up_to_edge(runs, runs, limit)


def beyond_limit_of_owner(owner_id: int, limit: int) -> ExecutionQuerySet:
    """Return the finished runs of an owner that are older than the newest ones; unfinished runs also count."""
    # Without the status, so that an index alone finds the edge.
    return _up_to_edge(Execution.objects.filter(owner=owner_id), _finished().filter(owner=owner_id), limit)


def _finished() -> ExecutionQuerySet:
    return Execution.objects.filter(status__in=Execution.FINAL).order_by("scheduled_for")


def _up_to_edge(counted: ExecutionQuerySet, pruned: ExecutionQuerySet, limit: int) -> ExecutionQuerySet:
    moments = counted.order_by("-scheduled_for").values_list("scheduled_for", flat=True)
    edge = next(iter(moments[limit : limit + 1]), None)
    if edge is None:
        return pruned.none()
    return pruned.filter(Q(last_slot=None) | Q(last_slot__lte=edge), scheduled_for__lte=edge)


def delete_batches(runs: ExecutionQuerySet) -> Iterator[int]:
    """Delete runs, oldest first, in short transactions; yield the number of rows of each."""
    while keys := list(runs.values_list("pk", flat=True)[:RUNS_AT_ONCE]):
        yield _delete(keys)
        if len(keys) < RUNS_AT_ONCE:
            return


def _delete(keys: list[int]) -> int:
    RunOutput.objects.filter(execution__in=keys).delete()
    AgentRun.objects.filter(execution__in=keys).delete()
    Approval.objects.filter(execution__in=keys).delete()
    Reminder.objects.filter(execution__in=keys).delete()
    Question.objects.filter(execution__in=keys).delete()
    return Execution.objects.filter(pk__in=keys, status__in=Execution.FINAL).delete()[0]


class RunPruner:
    """Prunes runs all day: it counts new rows, and visits the jobs and owners that have many."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._counted_up_to: int | None = None
        self._new_of_job: Counter[int] = Counter()
        self._new_of_owner: Counter[int] = Counter()
        self._prune_old_at: datetime | None = None
        self._selected: list[int] = []

    def prune(self, now: datetime) -> Iterator[int]:
        """Prune everything beyond the limits; yield after each short transaction, so that the caller can pause or stop."""
        if not self._is_my_turn(now):
            return
        while self._count_new_rows():
            yield 0
        while True:
            while self._selected:
                # If the caller stops or the database fails, the next call deletes the rest.
                deleted = _delete(self._selected[:RUNS_AT_ONCE])
                self._selected = self._selected[RUNS_AT_ONCE:]
                yield deleted
            for _ in self._find(now):
                yield 0
            if not self._selected:
                return

    def _find(self, now: datetime) -> Iterator[None]:
        """Collect rows to delete, of many jobs together; yield after each query that finds nothing."""
        for query in self._queries(now):
            if rows := list(query().values_list("pk", flat=True)[: SELECT_ROWS - len(self._selected)]):
                # Sorted, because rows that were written together are close together in the table and its indexes.
                self._selected = sorted({*self._selected, *rows})
            else:
                yield
            if len(self._selected) >= SELECT_ROWS:
                return

    def _is_my_turn(self, now: datetime) -> bool:
        """Return whether this cluster is the one that prunes: the oldest that is alive."""
        return (
            self._cluster_id == Cluster.objects.fresh(now).order_by("pk").values_list("pk", flat=True).first()
        )

    def _count_new_rows(self) -> bool:
        """Count rows that are new since the last call, by job and owner; return whether there may be more."""
        if self._counted_up_to is None:
            newest = Execution.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            self._counted_up_to = max(0, newest - COUNT_EXISTING)
        rows = list(
            Execution.objects.filter(pk__gt=self._counted_up_to)
            .order_by("pk")
            .values_list("pk", "job", "owner")[:COUNT_ROWS]
        )
        if rows:
            self._counted_up_to = rows[-1][0]
            self._new_of_job.update(job for _, job, _ in rows if job)
            self._new_of_owner.update(owner for _, _, owner in rows)
        return len(rows) == COUNT_ROWS

    def _queries(self, now: datetime) -> Iterator[Callable[[], ExecutionQuerySet]]:
        """Yield queries for rows to prune; the caller executes each before it requests the next."""
        per_job, per_owner = settings.CRONTY_HISTORY_PER_JOB, settings.CRONTY_HISTORY_PER_PERSON
        for job_id in _frequent(self._new_of_job, max(SLACK, per_job // 20)):
            yield partial(beyond_limit_of_job, job_id, per_job)
            del self._new_of_job[job_id]
        for owner_id in _frequent(self._new_of_owner, max(SLACK, per_owner // 100)):
            yield partial(beyond_limit_of_owner, owner_id, per_owner)
            del self._new_of_owner[owner_id]
        if self._prune_old_at is None or not timedelta() < self._prune_old_at - now <= PRUNE_OLD_EVERY:
            yield partial(expired, now - timedelta(days=settings.CRONTY_HISTORY_DAYS))
            self._prune_old_at = now + PRUNE_OLD_EVERY


def _frequent(counts: Counter[int], min_count: int) -> list[int]:
    return [key for key, count in counts.most_common() if count >= min_count]
