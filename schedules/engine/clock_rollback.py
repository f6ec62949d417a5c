"""What did a clock leave behind that was ahead, and was set back?"""

import logging
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from schedules.engine.gaps import take_back_ahead
from schedules.models import Cluster, Execution, Job
from schedules.when.triggers import TriggerError

logger = logging.getLogger(__name__)

# How far the clocks of two hosts may differ before that looks like a clock set back; and how many jobs, for how long,
# one turn looks at after it.
SETBACK = timedelta(seconds=60)
LOOKED_AT = 200
LOOKING = 0.05


def recover_from_clock_rollback(now: datetime) -> None:
    """Notice a clock that was set back, and see to what it had written; to be called every few seconds."""
    _after_setback.look(now)


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
    Cluster.objects.filter(stopped_at=None, last_seen_at__gt=now).update(last_seen_at=now)
    Execution.objects.held().filter(lease_until__gt=lease_until).update(lease_until=lease_until)
    # Later attempts wait as long as they were told to.
    first_attempts = Execution.objects.filter(
        status=Execution.Status.QUEUED, attempt=0, scheduled_for__lte=now
    )
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
