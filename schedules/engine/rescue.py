"""What is tidied in passing: runs of dead workers, prompts nobody took, pauses that are over."""

import logging
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from schedules import limits
from schedules.engine.failures import note
from schedules.engine.gaps import account_for, take_back_ahead
from schedules.engine.outcomes import Outcome
from schedules.engine.settle import conclude, hand_back, rescue
from schedules.models import FRESH_FOR, Cluster, Execution, Job
from schedules.models.executions import ExecutionQuerySet
from schedules.models.prepared import Prepared
from schedules.when.triggers import TriggerError

logger = logging.getLogger(__name__)

Status = Execution.Status

BATCH = 1000
# How long one sweep may think about pauses that are over, in seconds.
RESUMING = 1.0


def wake_up_at(now: datetime, *, exclude_tasks: Sequence[str] = ()) -> datetime | None:
    """The earliest moment at which something will be due, other than tasks in `exclude_tasks`."""
    due, ready = (
        (_NEXT_DUE, _NEXT_READY)
        if not exclude_tasks
        else (_next_due(exclude_tasks), _next_ready(exclude_tasks))
    )
    return min((at for at in (due.first(), ready.first()) if at), default=None)


def _next_due(exclude_tasks: Sequence[str]) -> QuerySet[Job, datetime | None]:
    due = Job.objects.armed().exclude(task__in=exclude_tasks).filter(next_run_at__isnull=False)
    return due.order_by("next_run_at").values_list("next_run_at", flat=True)[:1]


def _next_ready(exclude_tasks: Sequence[str]) -> QuerySet[Execution, datetime | None]:
    queued = Execution.objects.filter(status=Status.QUEUED, available_at__isnull=False)
    return (
        queued.exclude(task__in=exclude_tasks)
        .order_by("available_at")
        .values_list("available_at", flat=True)[:1]
    )


# An idle cluster asks nothing else, ten times a second.
_NEXT_DUE = Prepared(lambda: _next_due(()))
_NEXT_READY = Prepared(lambda: _next_ready(()))


def sweep(now: datetime) -> None:
    """Do every step of the tidying once; each is bounded and cheap when there is nothing to do."""
    _take_over_from_dead_workers(now)
    _take_over_expired_leases(now)
    _expire_prompts(now)
    _resume_paused(now)


def _take_over_from_dead_workers(now: datetime) -> None:
    """A cluster that stopped beating is retired, and its claims are free again."""
    silent = Cluster.objects.filter(stopped_at=None, last_seen_at__lt=now - FRESH_FOR)
    for cluster_id in list(silent.values_list("pk", flat=True)[:10]):
        hand_back(cluster_id, now)
        silent.filter(pk=cluster_id).update(stopped_at=F("last_seen_at"), note="It fell silent.")


def _take_over_expired_leases(now: datetime) -> None:
    with transaction.atomic():
        expired = Execution.objects.abandoned(now)
        rescue(expired.filter(status=Status.RUNNING), now, "Its worker died or froze while it ran.")
        unstarted = list(
            expired.filter(status=Status.CLAIMED)
            .order_by("pk")
            .select_for_update(skip_locked=True)
            .values_list("pk", flat=True)[:BATCH]
        )
        Execution.objects.filter(pk__in=unstarted).update(
            status=Status.QUEUED, cluster=None, lease_until=None, available_at=now
        )


def _expire_prompts(now: datetime) -> None:
    """A prompt that no agent finished in time has failed, and says so; one of a job that is over is taken back."""
    hours = settings.CRONTY_INBOX_HOURS
    # Since it began to wait: the slot of a run that was caught up is old already.
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
        # The job before its execution, like every verb of the inbox: two orders would be a deadlock.
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


def _resume_paused(now: datetime) -> None:
    with transaction.atomic():
        jobs = list(
            Job.objects.kept()
            .filter(status=Job.Status.PAUSED, paused_until__lte=now)
            .select_for_update(skip_locked=True)[:BATCH]
        )
        deadline = time.monotonic() + RESUMING
        for job in jobs:
            _resume(job, now)
            if time.monotonic() > deadline:
                break


def _resume(job: Job, now: datetime) -> None:
    """End one pause; a row that no longer makes sense stays paused, says why, and harms nobody else."""
    try:
        is_armed = rearm(job, now)
    except TriggerError as error:
        logger.exception("Job %s cannot be resumed", job.pk)
        words = f"Its schedule cannot be read: {error}"[: limits.NAME_LENGTH]
        Job.objects.filter(pk=job.pk).update(
            paused_until=None,
            pause_reason=words,
            last_error=words,
            revision=F("revision") + 1,
            updated_at=now,
        )
        note(job, "pause", now, {"reason": words})
        return
    if is_armed:
        note(job, "resume", now, {"reason": "The pause was over."})
    else:
        Job.objects.filter(pk=job.pk).update(
            status=Job.Status.COMPLETED, paused_until=None, revision=F("revision") + 1, updated_at=now
        )
        note(job, "finish", now, {"reason": "Nothing was left to run when the pause was over."})


def rearm(job: Job, now: datetime) -> bool:
    """Set a paused job going again, accounting for the slots of the pause; False when none is left."""
    following = job.next_slot(now)
    account_for(job, job.paused_at, now, f"Paused: {job.pause_reason or 'no reason given'}"[:300])
    take_back_ahead(job, now)
    if following is None:
        return False
    return bool(
        Job.objects.filter(pk=job.pk, status=Job.Status.PAUSED, revision=job.revision).update(
            status=Job.Status.PENDING,
            next_run_at=following,
            paused_at=None,
            paused_until=None,
            pause_reason="",
            failure_streak=0,
            revision=F("revision") + 1,
            updated_at=now,
        )
    )
