"""How a run is kept, settled and handed back: conditional on still being ours, so a zombie changes nothing."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Subquery

from schedules.engine.failures import answer_failures
from schedules.engine.outcomes import Outcome, remember
from schedules.engine.overlap import release_next
from schedules.engine.sql import integers, update_rows
from schedules.engine.start import Started
from schedules.models import Cluster, Execution, Job
from schedules.models.executions import ExecutionQuerySet

Status = Execution.Status

# How often a run is taken up again after its worker died under it, beyond the attempts of its policy.
RESCUES = 2
LONGEST_BACKOFF = timedelta(hours=1)
LONGEST_WAIT = timedelta(days=30)

# Written out, like the start of a run: it is asked for every run that ends. `LIMIT 1` keeps PostgreSQL from making a
# join of it: in a burst it knows nothing yet of the thousand live rows, and would read them all for each job.
_END_FINISHED = """
    UPDATE schedules_job SET status =
        CASE WHEN trigger_type = 'once' AND id IN ({failed}) THEN 'failed' ELSE 'completed' END
    WHERE id IN ({ids}) AND status = 'running' AND (
        SELECT 1 FROM schedules_execution live
        WHERE live.job_id = schedules_job.id AND live.finished_at IS NULL
            AND live.status IN ('queued', 'claimed', 'running', 'waiting')
        LIMIT 1) IS NULL
"""


def renew_claims(cluster_id: int, now: datetime) -> None:
    """Keep the claims that still lie in the cluster's queue: no probe sent after them has come round yet.

    A claim older than that was taken by a worker that died before it could start it; its lease runs out.
    """
    probe_returned_at = Cluster.objects.filter(pk=cluster_id).values("probe_returned_at")
    Execution.objects.held().filter(
        status=Status.CLAIMED, cluster_id=cluster_id, claimed_at__gte=Subquery(probe_returned_at)
    ).update(lease_until=now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS))


def renew(cluster_id: int, execution_ids: Iterable[int], now: datetime) -> None:
    """Keep the lease of what is being run; whoever runs it renews it."""
    Execution.objects.filter(pk__in=list(execution_ids), status=Status.RUNNING, cluster_id=cluster_id).update(
        lease_until=now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    )


def retry_at(run: Started, now: datetime, after: timedelta | None = None) -> datetime | None:
    """When a failed attempt may be repeated: exponential, with jitter; None when the attempts are spent."""
    if run.attempt >= run.attempts:
        return None
    growth: timedelta = min(run.backoff * 2 ** (run.attempt - 1), max(LONGEST_BACKOFF, run.backoff))
    asked = min(after or timedelta(), LONGEST_WAIT)
    return now + max(growth * random.uniform(0.75, 1.25), asked)  # noqa: S311  # nosec B311


def settle_runs(cluster_id: int, outcomes: Sequence[Outcome]) -> int:
    """Write how attempts ended, for those that are still ours; returns how many were."""
    with transaction.atomic():
        mine = _still_mine(cluster_id, outcomes)
        kept = [
            _honouring_a_stop(outcome, *mine[outcome.execution_id])
            for outcome in outcomes
            if outcome.execution_id in mine
        ]
        update_rows(
            Execution,
            "status = {status}, finished_at = {finished_at}, result = {result}, error = {error},"
            " traceback = {traceback}, reason = {reason}, available_at = {available_at}, lease_until = NULL",
            ("id", "status", "finished_at", "result", "error", "traceback", "reason", "available_at"),
            [
                (
                    outcome.execution_id,
                    Status.QUEUED if outcome.retry_at else outcome.status,
                    None if outcome.retry_at or outcome.status == Status.WAITING else outcome.finished_at,
                    outcome.result,
                    outcome.error,
                    outcome.traceback,
                    outcome.reason,
                    outcome.retry_at,
                )
                for outcome in kept
            ],
        )
        conclude([outcome for outcome in kept if not outcome.retry_at and outcome.status != Status.WAITING])
    return len(kept)


def _still_mine(
    cluster_id: int, outcomes: Sequence[Outcome]
) -> dict[int, tuple[str, str | None, datetime | None]]:
    """Map the executions this worker still holds to their cause and their job's status and end."""
    attempts = {outcome.execution_id: outcome.attempt for outcome in outcomes}
    rows = (
        Execution.objects.filter(pk__in=list(attempts), status=Status.RUNNING, cluster_id=cluster_id)
        .select_for_update(of=("self",))
        .values_list("pk", "attempt", "cause", "job__status", "job__deleted_at")
    )
    return {
        pk: (cause, status, deleted_at)
        for pk, attempt, cause, status, deleted_at in rows
        if attempts[pk] == attempt
    }


def may_go_on(cause: str, job_status: str | None, job_deleted_at: datetime | None) -> bool:
    """Tell whether anything may follow for a run of such a job: a pause stops all but what was asked for by hand."""
    if job_status is None or job_deleted_at is not None or job_status == Job.Status.CANCELLED:
        return False
    return job_status != Job.Status.PAUSED or cause == Execution.Cause.MANUAL


def _honouring_a_stop(
    outcome: Outcome, cause: str, job_status: str | None, job_deleted_at: datetime | None
) -> Outcome:
    """A pause or cancel during a run keeps the run and stops what follows."""
    if may_go_on(cause, job_status, job_deleted_at):
        return outcome
    if outcome.retry_at:
        return replace(outcome, retry_at=None, reason="The job was stopped before the next attempt.")
    if outcome.status == Status.WAITING:
        words = "The job was stopped before an agent took this prompt."
        return replace(outcome, status=Status.CANCELLED, reason=words)
    return outcome


def call_off(queued: Iterable[tuple[int, int, int | None]], now: datetime, reason: str) -> None:
    """End queued runs (id, attempt, job) that must not start any more; one between attempts has failed."""
    ended: dict[Execution.Status, list[Outcome]] = defaultdict(list)
    for execution_id, attempt, job_id in queued:
        status = Status.FAILED if attempt else Status.CANCELLED
        ended[status].append(Outcome(execution_id, attempt, job_id or 0, status, now, reason=reason))
    for status, outcomes in ended.items():
        rows = Execution.objects.filter(pk__in=[outcome.execution_id for outcome in outcomes])
        rows.update(status=status, finished_at=now, available_at=None, lease_until=None, reason=reason)
        errors = dict(rows.values_list("pk", "error"))
        conclude([replace(outcome, error=errors[outcome.execution_id]) for outcome in outcomes])


def conclude(outcomes: Sequence[Outcome]) -> None:
    """Tell the jobs about runs that ended for good: history strip, streak, end of one-offs, next in line."""
    if not outcomes:
        return
    by_job = remember(outcomes)
    _end_finished_jobs(by_job)
    release_next(by_job)
    answer_failures(by_job, outcomes[0].finished_at)


def _end_finished_jobs(by_job: dict[int, list[Outcome]]) -> None:
    """A job whose last slot has ended is over: a one-off by its outcome, a recurring one completed."""
    # A one-off that was called off before it began has done as little as one that failed.
    failed = [job_id for job_id, ended in by_job.items() if ended[-1].is_failure or not ended[-1].attempt]
    with connection.cursor() as cursor:
        cursor.execute(_END_FINISHED.format(ids=integers(by_job), failed=integers(failed) or "NULL"))


def hand_back(
    cluster_id: int, now: datetime, *, also_running: bool = False, only: Sequence[str] | None = None
) -> int:
    """Give up what this worker claimed (`only` these tasks) and, once it is surely dead, what it was running."""
    mine = Execution.objects.held().filter(cluster_id=cluster_id)
    count = _unclaim(mine if only is None else mine.filter(task__in=only), now)
    if also_running:
        # Apart from the claims: whoever holds a job waits for its claims, and this waits for jobs.
        with transaction.atomic():
            count += rescue(mine.filter(status=Status.RUNNING), now, "Its worker was stopped.")
    return count


def let_go(cluster_id: int, execution_ids: Sequence[int], now: datetime) -> int:
    """Give up these claims of this worker: somebody else may come to them sooner."""
    return _unclaim(Execution.objects.held().filter(pk__in=execution_ids, cluster_id=cluster_id), now)


def _unclaim(mine: ExecutionQuerySet, now: datetime) -> int:
    return mine.filter(status=Status.CLAIMED).update(
        status=Status.QUEUED, cluster=None, lease_until=None, available_at=now
    )


def rescue(abandoned: Any, now: datetime, reason: str) -> int:
    """Queue again what a dead worker was running; give it up as lost when it keeps killing its workers.

    A rescue by time can run a task twice: the attempt number and the idempotency key make that visible.
    """
    rows = list(
        abandoned.select_for_update(skip_locked=True, of=("self",))
        .select_related("job")
        .order_by("pk")[:1000]
    )
    lost: list[Execution] = []
    again: list[Execution] = []
    for row in rows:
        job = row.job
        is_wanted = job is not None and may_go_on(row.cause, job.status, job.deleted_at)
        is_spent = job is None or row.attempt >= job.attempts + RESCUES
        (again if is_wanted and not is_spent else lost).append(row)
    Execution.objects.filter(pk__in=[row.pk for row in again]).update(
        status=Status.QUEUED, cluster=None, lease_until=None, available_at=now, reason=reason
    )
    words = "Its worker died while it ran; it was not started again."
    Execution.objects.filter(pk__in=[row.pk for row in lost]).update(
        status=Status.LOST, lease_until=None, finished_at=now, reason=words, error=words
    )
    conclude(
        [
            Outcome(row.pk, row.attempt, row.job_id, Status.LOST, now, error=words)
            for row in lost
            if row.job_id is not None
        ]
    )
    return len(rows)
