"""Recovery after a clock was set back: correct the moments that were written while it was ahead."""

import logging
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from schedules.engine.gaps import gap_between
from schedules.engine.history import release_next, uncount
from schedules.models import Cluster, Execution, Job
from schedules.tasks.heartbeat import HEARTBEAT, grace_of
from schedules.when.triggers import TriggerError

logger = logging.getLogger(__name__)

# A smaller step may only be the difference between the clocks of two hosts.
ROLLBACK = timedelta(seconds=60)
# How many jobs are checked at a time after a rollback, and for how many seconds in one call.
BATCH = 200
CHECKING_SECONDS = 0.05

Status = Execution.Status


def recover_from_clock_rollback(now: datetime) -> None:
    """Detect a clock that was set back, and correct what it wrote; call this every few seconds."""
    _recovery.step(now)


class _Recovery:
    """Checks every job once after a rollback and once after the start, because the clock may have changed before that."""

    def __init__(self) -> None:
        self._offset = float("inf")
        self._last_checked: int | None = None
        self._must_repeat = False

    def step(self, now: datetime) -> None:
        offset = now.timestamp() - time.monotonic()
        if offset < self._offset - ROLLBACK.total_seconds():
            self._last_checked = 0
            _correct_timestamps(now, is_start=self._offset == float("inf"))
        self._offset = offset
        deadline = time.monotonic() + CHECKING_SECONDS
        while self._last_checked is not None and time.monotonic() < deadline:
            self._check_batch(now)

    def _check_batch(self, now: datetime) -> None:
        jobs = Job.objects.armed().filter(pk__gt=self._last_checked, next_run_at__gt=now + ROLLBACK)
        batch = list(jobs.order_by("pk")[:BATCH])
        for job in batch:
            self._must_repeat |= not _arm_again(job, now)
        if len(batch) == BATCH:
            self._last_checked = batch[-1].pk
        else:
            self._last_checked = 0 if self._must_repeat else None
            self._must_repeat = False


_recovery = _Recovery()


def _correct_timestamps(now: datetime, *, is_start: bool) -> None:
    """Reset the signs of life of clusters, and leases and waits that are longer than any can be."""
    lease_until = now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    Cluster.objects.filter(stopped_at=None, last_seen_at__gt=now).update(last_seen_at=now)
    held = Execution.objects.held().exclude(task=HEARTBEAT)
    held.filter(lease_until__gt=lease_until).update(lease_until=lease_until)
    _shorten_graces(now)
    waiting = Execution.objects.filter(status=Status.QUEUED, available_at__gt=now)
    released = waiting.filter(attempt=0, scheduled_for__lte=now).exclude(task=HEARTBEAT)
    if is_start:
        # At a start, nothing shows that the clock was ahead, and planned runs may wait on purpose.
        released = released.filter(cause__in=Execution.STARTED)
    released.update(available_at=now)
    # Later attempts keep their backoff, which began when the attempt before them ended.
    for run in waiting.filter(attempt__gt=0).only("available_at", "earlier_attempts"):
        ended = (
            datetime.fromisoformat(run.earlier_attempts[-1]["finished_at"]) if run.earlier_attempts else now
        )
        if run.available_at and ended > now:
            waiting.filter(pk=run.pk).update(available_at=now + (run.available_at - ended))


def _shorten_graces(now: datetime) -> None:
    """Let no slot of a heartbeat wait for its ping longer than its grace time, counted from now."""
    far = Execution.objects.live().filter(task=HEARTBEAT, job__isnull=False, scheduled_for__lte=now)
    far = far.filter(Q(available_at__gt=now) | Q(lease_until__gt=now)).order_by()
    for pk, args, kwargs in far.values_list("pk", "job__args", "job__kwargs").iterator():
        until = now + grace_of(args, kwargs)
        Execution.objects.filter(pk=pk, available_at__gt=until).update(available_at=until)
        Execution.objects.filter(pk=pk, lease_until__gt=until).update(lease_until=until)


def _arm_again(job: Job, now: datetime) -> bool:
    """Move a job back to its next slot if it was moved past slots that are still in the future.

    Return False if the job is locked, so that it has to be checked again.
    """
    try:
        following = job.next_slot(now)
    except TriggerError:
        # The claim pauses such a job when it falls due.
        return True
    if following is None or job.next_run_at is None or following + ROLLBACK >= job.next_run_at:
        return True
    with transaction.atomic():
        unchanged = Job.objects.armed().filter(pk=job.pk, revision=job.revision, next_run_at=job.next_run_at)
        if not unchanged.select_for_update(skip_locked=True, no_key=True).values_list("pk"):
            return not unchanged.exists()
        unchanged.update(next_run_at=following)
        delete_future_rows(job, now)
        logger.warning("The clock was set back: job %s is armed for %s again", job.pk, following)
    return True


def delete_future_rows(job: Job, now: datetime) -> bool:
    """Delete rows of future slots that were queued, skipped or missed while the clock was ahead.

    Rows of slots that have run stay, so those slots do not run again. Return whether there was any future row, because
    deleting queued ones changes the job's counts.
    """
    if not Execution.objects.filter(_is_ahead(now), job=job).exists():
        return False
    _delete_future_queued(job, now)
    unrun = Execution.objects.filter(job=job, status__in=[Status.MISSED, Status.SKIPPED])
    unrun.filter(scheduled_for__gt=now).delete()
    columns = ("pk", "scheduled_for", "last_slot", "slots")
    for row in unrun.filter(last_slot__gt=now).values_list(*columns, named=True):
        last, count = _cut(job, row, now)
        unrun.filter(pk=row.pk).update(last_slot=last if count > 1 else None, slots=count)
    return True


def jobs_with_future_rows(jobs: Sequence[Job], now: datetime) -> list[Job]:
    """Return those of several jobs that have rows of future slots."""
    ahead = Execution.objects.filter(_is_ahead(now), job__in=[job.pk for job in jobs])
    keys = set(ahead.order_by().values_list("job", flat=True).distinct())
    return [job for job in jobs if job.pk in keys]


def _is_ahead(now: datetime) -> Q:
    return Q(scheduled_for__gt=now) | Q(last_slot__gt=now)


def _delete_future_queued(job: Job, now: datetime) -> None:
    """Delete queued runs of future slots, because they would delay earlier ones."""
    queued = (
        Execution.objects.live()
        .filter(job=job, status=Status.QUEUED, attempt=0, scheduled_for__gt=now)
        .exclude(cause__in=Execution.UNPLANNED)
    )
    queued_ids = list(queued.select_for_update().values_list("pk", flat=True))
    if queued_ids:
        Execution.objects.filter(pk__in=queued_ids).delete()
        uncount([job.pk] * len(queued_ids))
        release_next([job.pk], now)


def _cut(job: Job, gap: Any, now: datetime) -> tuple[datetime | None, int]:
    """Return the last slot of a gap up to now, and the number of its slots."""
    first, last = gap.scheduled_for, gap.last_slot
    try:
        whole = gap_between(job, first, last, Status.MISSED, "")
        if whole and (whole.at, whole.last, whole.count) == (first, last, gap.slots):
            until_now = gap_between(job, first, now, Status.MISSED, "")
            return (until_now.last, until_now.count) if until_now else (None, 1)
    except TriggerError:
        pass
    # The schedule has changed since then, so its old slots are unknown: assume equal distances between them.
    step = (last - first) / max(1, gap.slots - 1)
    count = 1 + (now - first) // step
    return first + (count - 1) * step, count
