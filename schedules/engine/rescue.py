"""Recovery: rescue the runs of stopped and dead clusters, expire prompts, and end pauses."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import OperationalError, transaction
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce, Least

from schedules.engine.clusters import STOPPED_RESPONDING
from schedules.engine.history import Outcome
from schedules.engine.incident_watch import raise_dead_hosts
from schedules.engine.incidents import raise_unreadable
from schedules.engine.pauses import end_pauses
from schedules.engine.pings import end_unpinged
from schedules.engine.progress import end_agent_runs
from schedules.engine.queued_runs import end_late_runs, is_too_late
from schedules.engine.settle import AT_MOST_ONCE, conclude, lose
from schedules.engine.sql.statements import is_lock_timeout
from schedules.models import FRESH_FOR, Cluster, Execution, Job
from schedules.models.executions import ExecutionQuerySet, job_was_stopped
from schedules.tasks.heartbeat import HEARTBEAT

logger = logging.getLogger(__name__)

Status = Execution.Status

BATCH = 1000
# How many extra attempts a run gets, beyond those of its job, when its workers die.
RESCUES = 2
NOT_AGAIN = "The worker crashed during this run; it wasn't started again."


def sweep(now: datetime) -> None:
    """Run every recovery step once; each is bounded. Usually, a few short queries find nothing to do."""
    if not _may_need_sweep(now):
        return
    for step in (_retire_dead_clusters, _recover_expired_leases, _expire_prompts, _end_pauses):
        try:
            step(now)
        except OperationalError as error:
            if not is_lock_timeout(error):
                raise
            logger.warning("A row or table is locked; the next sweep tries again: %s", error)


def _may_need_sweep(now: datetime) -> bool:
    """Return whether a cluster is silent, a lease or a pause is over, or any prompt waits for an agent."""
    return (
        _silent_clusters(now).exists()
        or Execution.objects.filter(lease_until__lt=now).exists()
        or Execution.objects.filter(status=Status.WAITING).exists()
        or Job.objects.filter(paused_until__lte=now).exists()
    )


def _silent_clusters(now: datetime) -> QuerySet[Cluster]:
    return Cluster.objects.filter(stopped_at=None, last_seen_at__lt=now - FRESH_FOR)


def _retire_dead_clusters(now: datetime) -> None:
    """Mark clusters without a heartbeat as stopped, and release their claims."""
    silent = _silent_clusters(now)
    dead = list(silent.values_list("pk", flat=True)[:10])
    for cluster_id in dead:
        hand_back(cluster_id, now)
        with transaction.atomic():
            row = silent.filter(pk=cluster_id).select_for_update(skip_locked=True, no_key=True).first()
            if row:
                row.stopped_at, row.note = row.last_seen_at, STOPPED_RESPONDING
                row.save(update_fields=["stopped_at", "note"])
    if dead:
        raise_dead_hosts(now)


def _end_pauses(now: datetime) -> None:
    with transaction.atomic():
        raise_unreadable(end_pauses(now), now)


def _recover_expired_leases(now: datetime) -> None:
    with transaction.atomic():
        expired = Execution.objects.abandoned(now)
        rescue(expired.filter(status=Status.RUNNING), now, "The worker crashed or froze during this run.")
        unstarted = list(
            expired.filter(status=Status.CLAIMED)
            .order_by("pk")
            .select_for_update(skip_locked=True)
            .values_list("pk", flat=True)[:BATCH]
        )
        unclaim(Execution.objects.filter(pk__in=unstarted), now)


def _expire_prompts(now: datetime) -> None:
    """Fail prompts that no agent finished in time, and end those that must not run again."""
    hours = settings.CRONTY_INBOX_HOURS
    # Count from when it began to wait, or from the end of a pause: the slot of a catch-up run is already old.
    since = Coalesce("available_at", "started_at", "scheduled_for")
    old = Execution.objects.claimable(now).alias(since=since).filter(since__lt=now - timedelta(hours=hours))
    _end_prompts(old, Status.FAILED, now, error=f"No agent completed this prompt within {hours} hours.")
    lost = f"The agent didn't complete it in time. {AT_MOST_ONCE}"
    _end_prompts(Execution.objects.lost_prompts(now), Status.LOST, now, error=lost, reason=lost)
    stopped = "The job was stopped before an agent finished this prompt."
    _end_prompts(Execution.objects.left_over(now), Status.CANCELLED, now, reason=stopped)


def _end_prompts(
    prompts: ExecutionQuerySet, status: Execution.Status, now: datetime, *, error: str = "", reason: str = ""
) -> None:
    with transaction.atomic():
        if not prompts.exists():
            return
        # Lock the job before its execution, as the inbox does, to avoid a deadlock.
        locked = Job.objects.filter(pk__in=prompts.values("job")).select_for_update(skip_locked=True)
        rows = list(
            prompts.filter(Q(job__in=[job.pk for job in locked.only("pk")]) | Q(job=None))
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
    count = unclaim(mine if only is None else mine.filter(task__in=only), now)
    if also_running:
        # A separate transaction, because it locks jobs: a process that holds a job may wait for the claims above.
        with transaction.atomic():
            count += rescue(
                mine.filter(status=Status.RUNNING), now, "The worker was stopped during this run."
            )
    return count


def release_claims(cluster_id: int, execution_ids: Sequence[int], now: datetime) -> int:
    """Release these claims of a cluster, so that another worker can start them sooner."""
    return unclaim(Execution.objects.held().filter(pk__in=execution_ids, cluster_id=cluster_id), now)


def release_uncalled(cluster_id: int, execution_ids: Sequence[int], now: datetime) -> int:
    """Requeue runs that were started together with others but whose tasks were never called."""
    mine = Execution.objects.held().filter(
        pk__in=execution_ids, status=Status.RUNNING, cluster_id=cluster_id, attempt=1
    )
    with transaction.atomic():
        return mine.unlocked().update(
            status=Status.QUEUED,
            cluster=None,
            lease_until=None,
            available_at=now,
            attempt=0,
            started_at=None,
            lateness=None,
        )


def unclaim(mine: ExecutionQuerySet, now: datetime) -> int:
    """Requeue claimed runs, and return how many there were."""
    with transaction.atomic():
        # A row that another transaction holds is released when its lease expires.
        return (
            mine.filter(status=Status.CLAIMED)
            .unlocked()
            .update(
                status=Status.QUEUED,
                cluster=None,
                lease_until=None,
                # Not after its lease: the catch-up limit counts from when no worker held the run any more.
                available_at=Least(Value(now), "lease_until"),
            )
        )


def rescue(abandoned: ExecutionQuerySet, now: datetime, reason: str) -> int:
    """Queue the runs of dead workers again, or end them as lost if their job or the catch-up limit requires it.

    After an expired lease, a task can run twice; the attempt number and the idempotency key show that.
    """
    rows = list(
        abandoned.select_for_update(skip_locked=True, of=("self",))
        .select_related("job")
        .order_by("pk")[:1000]
    )
    rows = _with_unlocked_job(rows) if rows else []
    end_agent_runs(rows, now, reason)
    lost: dict[str, list[tuple[int, int, int | None]]] = defaultdict(list)
    again: list[Execution] = []
    late: list[tuple[Execution, Job]] = []
    unpinged: list[Execution] = []
    for row in rows:
        job = row.job
        if job and row.task == HEARTBEAT:
            unpinged.append(row)
        elif job is None or job_was_stopped(row.cause, job.status, job.deleted_at) or _is_spent(row, job):
            lost[NOT_AGAIN].append((row.pk, row.attempt, row.job_id))
        elif job.at_most_once:
            lost[f"{reason} {AT_MOST_ONCE}"].append((row.pk, row.attempt, row.job_id))
        elif is_too_late(row, job, row.lease_until or now, now):
            late.append((row, job))
        else:
            row.earlier_attempts = row.attempt_ended(now, reason)
            again.append(row)
    # Clear the error of an earlier attempt: an error means that the last attempt reported its failure.
    Execution.objects.bulk_update(again, ["earlier_attempts"])
    Execution.objects.filter(pk__in=[row.pk for row in again]).update(
        status=Status.QUEUED,
        cluster=None,
        lease_until=None,
        available_at=now,
        reason=reason,
        error="",
        traceback="",
    )
    for why_lost, ended in lost.items():
        lose(ended, now, why_lost)
    end_late_runs(late, now)
    end_unpinged(unpinged, now)
    return len(rows)


def _is_spent(row: Execution, job: Job) -> bool:
    return row.attempt >= job.attempts + RESCUES


def _with_unlocked_job(rows: list[Execution]) -> list[Execution]:
    """Lock the jobs of these runs; skip those that another transaction has locked, which the next sweep will find."""
    jobs = Job.objects.filter(pk__in={row.job_id for row in rows if row.job_id})
    free = set(jobs.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
    return [row for row in rows if row.job_id is None or row.job_id in free]
