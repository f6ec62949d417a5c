"""What is tidied in passing: runs of dead workers, prompts nobody took, pauses that are over, old history."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Min, QuerySet

from schedules import clock
from schedules.engine.gaps import account_for
from schedules.engine.pausing import note
from schedules.engine.runs import Outcome, conclude, hand_back, rescue
from schedules.models import FRESH_FOR, Execution, Job, Worker

Status = Execution.Status

BATCH = 1000
TRASH_DAYS = 30


def wake_up_at(now: datetime) -> datetime | None:
    """The earliest moment at which something will be due."""
    job = Job.objects.armed().aggregate(at=Min("next_run_at"))["at"]
    queued = Execution.objects.filter(status=Status.QUEUED).aggregate(at=Min("available_at"))["at"]
    return min(filter(None, (job, queued)), default=None)


def sweep(now: datetime) -> None:
    """Do every step of the tidying once; each is bounded and cheap when there is nothing to do."""
    _take_over_from_dead_workers(now)
    _take_over_expired_leases(now)
    _expire_prompts(now)
    _resume_paused(now)


def _take_over_from_dead_workers(now: datetime) -> None:
    """A cluster that stopped beating is retired, and its claims are free again."""
    silent = Worker.objects.filter(stopped_at=None, last_seen_at__lt=now - FRESH_FOR)
    for worker_id in silent.values_list("pk", flat=True)[:10]:
        hand_back(worker_id, now)


def _take_over_expired_leases(now: datetime) -> None:
    with transaction.atomic():
        expired = Execution.objects.abandoned(now)
        rescue(expired.filter(status=Status.RUNNING), now, "Its worker died or froze while it ran.")
        unstarted = list(
            expired.filter(status=Status.CLAIMED)
            .select_for_update(skip_locked=True)
            .values_list("pk", flat=True)[:BATCH]
        )
        Execution.objects.filter(pk__in=unstarted).update(
            status=Status.QUEUED, worker=None, lease_until=None, available_at=now
        )


def _expire_prompts(now: datetime) -> None:
    """A prompt that no agent finished in time has failed, and says so."""
    oldest = now - timedelta(hours=settings.CRONTY_INBOX_HOURS)
    with transaction.atomic():
        rows = list(
            Execution.objects.claimable(now)
            .filter(scheduled_for__lt=oldest)
            .select_for_update(skip_locked=True, of=("self",))
            .only("pk", "attempt", "job_id")[:BATCH]
        )
        words = f"No agent completed this prompt within {settings.CRONTY_INBOX_HOURS} hours."
        Execution.objects.filter(pk__in=[row.pk for row in rows]).update(
            status=Status.FAILED, finished_at=now, lease_until=None, error=words, reason="expired"
        )
        conclude(
            [
                Outcome(row.pk, row.attempt, row.job_id, Status.FAILED, now, error=words)
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
        for job in jobs:
            if rearm(job, now):
                note(job, "resume", now, {"reason": "The pause was over."})
            else:
                Job.objects.filter(pk=job.pk).update(status=Job.Status.COMPLETED, paused_until=None)
                note(job, "complete", now, {"reason": "Nothing was left to run when the pause was over."})


def rearm(job: Job, now: datetime) -> bool:
    """Set a paused job going again, accounting for the slots of the pause; False when none is left."""
    following = job.next_slot(now)
    account_for(job, job.paused_at, now, f"Paused: {job.pause_reason or 'no reason given'}"[:300])
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


def prune_history() -> dict[str, int]:
    """Delete what lies beyond the limits of the history, in bounded steps."""
    now = clock.now()
    final = Execution.objects.filter(status__in=Execution.FINAL)
    old = final.filter(scheduled_for__lt=now - timedelta(days=settings.CRONTY_HISTORY_DAYS))
    pruned = _delete_in_steps(old)
    for job_id in Job.objects.filter(run_count__gt=settings.CRONTY_HISTORY_PER_JOB).values_list(
        "pk", flat=True
    ):
        newest = final.filter(job=job_id).order_by("-scheduled_for")[settings.CRONTY_HISTORY_PER_JOB :]
        edge = newest.values_list("scheduled_for", flat=True).first()
        if edge:
            pruned += _delete_in_steps(final.filter(job=job_id, scheduled_for__lte=edge))
    trash = Job.objects.trashed().filter(deleted_at__lt=now - timedelta(days=TRASH_DAYS))
    purged = trash.delete()[1].get("schedules.Job", 0)
    workers = Worker.objects.filter(last_seen_at__lt=now - timedelta(days=settings.CRONTY_HISTORY_DAYS))
    workers.delete()
    return {"executions": pruned, "jobs": purged}


def _delete_in_steps(rows: QuerySet[Execution]) -> int:
    deleted = 0
    while batch := list(rows.values_list("pk", flat=True)[:BATCH]):
        deleted += Execution.objects.filter(pk__in=batch).delete()[0]
    return deleted
