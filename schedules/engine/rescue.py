"""Recovery of runs from stopped and dead clusters, and expiry of prompts and pauses."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce, Least

from schedules.engine.history import Outcome
from schedules.engine.pauses import end_pauses
from schedules.engine.settle import conclude
from schedules.engine.too_late import end_late_runs, is_too_late
from schedules.models import FRESH_FOR, Cluster, Execution, Job
from schedules.models.executions import ExecutionQuerySet, job_was_stopped

Status = Execution.Status

BATCH = 1000
# How many attempts a run gets in addition to those of its job after its worker died.
RESCUES = 2


def sweep(now: datetime) -> None:
    """Run every recovery step once; each is bounded, and cheap when there is nothing to do."""
    _retire_dead_clusters(now)
    _recover_expired_leases(now)
    _expire_prompts(now)
    end_pauses(now)


def _retire_dead_clusters(now: datetime) -> None:
    """Mark clusters without a heartbeat as stopped, and release their claims."""
    silent = Cluster.objects.filter(stopped_at=None, last_seen_at__lt=now - FRESH_FOR)
    for cluster_id in list(silent.values_list("pk", flat=True)[:10]):
        hand_back(cluster_id, now)
        silent.filter(pk=cluster_id).update(stopped_at=F("last_seen_at"), note="It fell silent.")


def _recover_expired_leases(now: datetime) -> None:
    with transaction.atomic():
        expired = Execution.objects.abandoned(now)
        rescue(expired.filter(status=Status.RUNNING), now, "Its worker died or froze while it ran.")
        unstarted = list(
            expired.filter(status=Status.CLAIMED)
            .order_by("pk")
            .select_for_update(skip_locked=True)
            .values_list("pk", flat=True)[:BATCH]
        )
        _unclaim(Execution.objects.filter(pk__in=unstarted), now)


def _expire_prompts(now: datetime) -> None:
    """Fail prompts that no agent finished in time; withdraw those whose job was stopped."""
    hours = settings.CRONTY_INBOX_HOURS
    # Count from the start of the wait, because the slot of a catch-up run is already old.
    since = Coalesce("started_at", "scheduled_for")
    old = Execution.objects.claimable(now).alias(since=since).filter(since__lt=now - timedelta(hours=hours))
    _end_prompts(old, Status.FAILED, now, error=f"No agent completed this prompt within {hours} hours.")
    stopped = "The job was stopped before an agent finished this prompt."
    _end_prompts(Execution.objects.left_over(now), Status.CANCELLED, now, reason=stopped)


def _end_prompts(
    found: ExecutionQuerySet, status: Execution.Status, now: datetime, *, error: str = "", reason: str = ""
) -> None:
    with transaction.atomic():
        if not found.exists():
            return
        # Lock the job before its execution, as the inbox does, to avoid a deadlock.
        held = Job.objects.filter(pk__in=found.values("job")).select_for_update(skip_locked=True)
        rows = list(
            found.filter(Q(job__in=[job.pk for job in held.only("pk")]) | Q(job=None))
            .select_for_update(skip_locked=True, of=("self",))
            .only("pk", "attempt", "job_id")[:BATCH]
        )
        Execution.objects.filter(pk__in=[row.pk for row in rows]).update(
            status=status, finished_at=now, lease_until=None, error=error, reason=reason
        )
        conclude(
            [
                Outcome(row.pk, row.attempt, row.job_id, status, now, error=error, reason=reason)
                for row in rows
                if row.job_id
            ]
        )


def hand_back(
    cluster_id: int, now: datetime, *, also_running: bool = False, only: Sequence[str] | None = None
) -> int:
    """Release the claims of a cluster (`only` of these tasks) and, once it is known to be dead, rescue its runs."""
    mine = Execution.objects.held().filter(cluster_id=cluster_id)
    count = _unclaim(mine if only is None else mine.filter(task__in=only), now)
    if also_running:
        # In its own transaction, because it locks jobs: another process that holds a job may wait for the claims above.
        with transaction.atomic():
            count += rescue(mine.filter(status=Status.RUNNING), now, "Its worker was stopped.")
    return count


def release_claims(cluster_id: int, execution_ids: Sequence[int], now: datetime) -> int:
    """Release these claims of a cluster, so that another worker can start them sooner."""
    return _unclaim(Execution.objects.held().filter(pk__in=execution_ids, cluster_id=cluster_id), now)


def _unclaim(mine: ExecutionQuerySet, now: datetime) -> int:
    # Not later than its lease: the catch-up limit counts from when nobody held it any more.
    return mine.filter(status=Status.CLAIMED).update(
        status=Status.QUEUED, cluster=None, lease_until=None, available_at=Least(Value(now), "lease_until")
    )


def rescue(abandoned: ExecutionQuerySet, now: datetime, reason: str) -> int:
    """Queue the runs of dead workers again; mark them as lost if their workers keep dying, or if it is too late.

    After an expired lease, a task can run twice; the attempt number and the idempotency key reveal that.
    """
    rows = list(
        abandoned.select_for_update(skip_locked=True, of=("self",))
        .select_related("job")
        .order_by("pk")[:1000]
    )
    lost: list[Execution] = []
    again: list[Execution] = []
    late: list[tuple[Execution, Job]] = []
    for row in rows:
        job = row.job
        is_wanted = job is not None and not job_was_stopped(row.cause, job.status, job.deleted_at)
        if job is None or not is_wanted or row.attempt >= job.attempts + RESCUES:
            lost.append(row)
        elif is_too_late(row, job, row.lease_until or now, now):
            late.append((row, job))
        else:
            again.append(row)
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
    end_late_runs(late, now)
    return len(rows)
