"""Pruning of finished runs in small steps, so that the history stays within its limits however many jobs fire.

A run is pruned when it is older than the history limit, or when its job or owner has as many newer runs as allowed.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db.models import Q

from schedules.models import AgentRun, Approval, Cluster, Execution, Question, Reminder, RunOutput
from schedules.models.executions import ExecutionQuerySet

# How many rows one DELETE removes: on SQLite, claims wait for it.
BATCH = 200
# How many rows are counted, and selected for deletion, at a time.
COUNT_ROWS = SELECT_ROWS = 5000
# A new pruner also counts this many existing rows, to find the jobs that run often.
COUNT_EXISTING = 100_000
# A job or owner is pruned only after this many new rows, because pruning more often would be slow. A history may exceed
# its limit by this much, or by a twentieth of a job's limit and a hundredth of an owner's.
SLACK = 50
PRUNE_OLD_EVERY = timedelta(minutes=1)


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
    while keys := list(runs.values_list("pk", flat=True)[:BATCH]):
        yield _delete(keys)
        if len(keys) < BATCH:
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
                deleted = _delete(self._selected[:BATCH])
                self._selected = self._selected[BATCH:]
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
