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
from schedules.engine.gaps import account_for, take_back_ahead
from schedules.engine.pausing import note
from schedules.engine.runs import Outcome, conclude, hand_back, rescue
from schedules.models import FRESH_FOR, Execution, Job, Worker
from schedules.models.prepared import Prepared
from schedules.triggers import TriggerError

logger = logging.getLogger(__name__)

Status = Execution.Status

BATCH = 1000
# How long one sweep may think about pauses that are over, in seconds.
RESUMING = 1.0
# How far the clocks of two hosts may differ before that looks like a clock set back; and how many jobs, for how long,
# one sweep looks at after it.
SETBACK = timedelta(seconds=60)
LOOKED_AT = 200
LOOKING = 0.05


def wake_up_at(now: datetime, *, but_not: Sequence[str] = ()) -> datetime | None:
    """The earliest moment at which something will be due, other than tasks in `but_not`."""
    due, ready = (_NEXT_DUE, _NEXT_READY) if not but_not else (_next_due(but_not), _next_ready(but_not))
    return min((at for at in (due.first(), ready.first()) if at), default=None)


def _next_due(but_not: Sequence[str]) -> QuerySet[Job, datetime | None]:
    due = Job.objects.armed().exclude(task__in=but_not).filter(next_run_at__isnull=False)
    return due.order_by("next_run_at").values_list("next_run_at", flat=True)[:1]


def _next_ready(but_not: Sequence[str]) -> QuerySet[Execution, datetime | None]:
    queued = Execution.objects.filter(status=Status.QUEUED, available_at__isnull=False)
    return (
        queued.exclude(task__in=but_not).order_by("available_at").values_list("available_at", flat=True)[:1]
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
    _after_setback.look(now)


def _take_over_from_dead_workers(now: datetime) -> None:
    """A cluster that stopped beating is retired, and its claims are free again."""
    silent = Worker.objects.filter(stopped_at=None, last_seen_at__lt=now - FRESH_FOR)
    for worker_id in list(silent.values_list("pk", flat=True)[:10]):
        hand_back(worker_id, now)
        silent.filter(pk=worker_id).update(stopped_at=F("last_seen_at"), note="It fell silent.")


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
            status=Status.QUEUED, worker=None, lease_until=None, available_at=now
        )


def _expire_prompts(now: datetime) -> None:
    """A prompt that no agent finished in time has failed, and says so."""
    oldest = now - timedelta(hours=settings.CRONTY_INBOX_HOURS)
    with transaction.atomic():
        # Since it began to wait: the slot of a run that was caught up is old already.
        expired = (
            Execution.objects.claimable(now)
            .alias(since=Coalesce("started_at", "scheduled_for"))
            .filter(since__lt=oldest)
        )
        if not expired.exists():
            return
        # The job before its execution, like every verb of the inbox: two orders would be a deadlock.
        held = Job.objects.filter(pk__in=expired.values("job")).select_for_update(skip_locked=True)
        rows = list(
            expired.filter(Q(job__in=[job.pk for job in held.only("pk")]) | Q(job=None))
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
        note(job, "complete", now, {"reason": "Nothing was left to run when the pause was over."})


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


class _AfterSetback:
    """Arms jobs for now that wait for the moment a clock had reached before it was set back.

    It looks at every job once after such a jump, and once after the start, for it may have happened meanwhile.
    """

    def __init__(self) -> None:
        self._clock = float("inf")
        self._last_looked_at: int | None = None

    def look(self, now: datetime) -> None:
        clock_ahead_of_ticks = now.timestamp() - time.monotonic()
        if clock_ahead_of_ticks < self._clock - SETBACK.total_seconds():
            self._last_looked_at = 0
            _bring_back(now)
        self._clock = clock_ahead_of_ticks
        deadline = time.monotonic() + LOOKING
        while self._last_looked_at is not None and time.monotonic() < deadline:
            self._look_at_some(now)

    def _look_at_some(self, now: datetime) -> None:
        jobs = Job.objects.armed().filter(pk__gt=self._last_looked_at, next_run_at__gt=now + SETBACK)
        some = list(jobs.order_by("pk")[:LOOKED_AT])
        for job in some:
            _arm_for_now(job, now)
        self._last_looked_at = some[-1].pk if len(some) == LOOKED_AT else None


_after_setback = _AfterSetback()


def _bring_back(now: datetime) -> None:
    """Bring moments back that a clock wrote while it was ahead: until it is there again, nobody would act on them."""
    lease_until = now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    Worker.objects.filter(stopped_at=None, last_seen_at__gt=now).update(last_seen_at=now)
    Execution.objects.held().filter(lease_until__gt=lease_until).update(lease_until=lease_until)
    # Later attempts wait as long as they were told to.
    first_attempts = Execution.objects.filter(status=Status.QUEUED, attempt=0, scheduled_for__lte=now)
    first_attempts.filter(available_at__gt=now).update(available_at=now)


def _arm_for_now(job: Job, now: datetime) -> None:
    """Move a job back to its next slot, where it was moved past slots that are still to come."""
    try:
        following = job.next_slot(now)
    except TriggerError:
        # The claim says so when its moment comes.
        return
    if following is None or job.next_run_at is None or following + SETBACK >= job.next_run_at:
        return
    with transaction.atomic():
        unchanged = Job.objects.armed().filter(pk=job.pk, revision=job.revision, next_run_at=job.next_run_at)
        if unchanged.update(next_run_at=following):
            take_back_ahead(job, now)
            logger.warning("The clock was set back: job %s is armed for %s again", job.pk, following)
