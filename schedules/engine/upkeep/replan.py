"""Move the stored next runs of jobs when the zone data changes, because governments change clocks at short notice."""

import logging
import time
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from schedules.engine.pauses import note
from schedules.models import Cluster, Installation, Job
from schedules.when import zones
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import UNKNOWN_START

logger = logging.getLogger(__name__)

BATCH = 200
_JOB_COLUMNS = (
    "owner_id",
    "public_id",
    "name",
    "revision",
    "next_run_at",
    "slot_count",
    "created_at",
    "closed_by",
    *Job.TRIGGER_FIELDS,
)


def follow_zone_data(now: datetime) -> int:
    """Move jobs to the slots that this host's zone data gives them, if it is newer than what they were planned with.

    Return the number of moved jobs. Older zone data moves nothing: otherwise hosts with different releases would move
    jobs back and forth.
    """
    release = zones.release()
    installation, _ = Installation.objects.get_or_create(pk=Installation.ONLY)
    current = installation.zone_data
    if not release:
        return 0
    if release < current:
        logger.warning(
            "This host's zone data is %s, but jobs were planned with %s: update it.", release, current
        )
        return 0
    # Clusters with an older release may have planned jobs after the new one was recorded.
    older = Cluster.objects.filter(zone_data__gt="", zone_data__lt=release)
    if release == current and not older.exists():
        return 0
    moved = _replan_all(now, release)
    if current:
        logger.warning(
            "The zone data changed from %s to %s: %s jobs were planned anew.", current, release, moved
        )
    Installation.objects.filter(zone_data=current).update(zone_data=release)
    older.exclude(pk__in=Cluster.objects.fresh(now).values("pk")).update(zone_data="")
    return moved


def _replan_all(now: datetime, release: str) -> int:
    """Replan all pending jobs that follow a zone's clock, in batches; due slots are left to the claim."""
    on_wall_clock = Q(trigger_type=Job.TriggerType.CRON) | ~Q(calendar_unit="")
    pending = Job.objects.armed().filter(on_wall_clock, next_run_at__gt=now, next_run_at__lt=UNKNOWN_START)
    jobs = pending.exclude(timezone="UTC").only(*_JOB_COLUMNS).order_by("pk")
    moved, last, begin = 0, 0, time.monotonic()
    while batch := list(jobs.filter(pk__gt=last)[:BATCH]):
        # The current moment: with that of the beginning, a job that has fired since then would be moved back.
        at = now + timedelta(seconds=time.monotonic() - begin)
        with transaction.atomic():
            moved += sum(_replan(job, at, release) for job in batch)
        last = batch[-1].pk
    return moved


def _replan(job: Job, now: datetime, release: str) -> bool:
    """Move a job to its next slot, with an event; return whether it changed."""
    try:
        following = job.next_slot(now)
    except TriggerError:
        # The claim pauses such a job when it falls due.
        return False
    planned = job.next_run_at
    if planned is None or following is None or following == planned:
        return False
    unchanged = Job.objects.armed().filter(pk=job.pk, revision=job.revision, next_run_at=planned)
    if not unchanged.update(next_run_at=following):
        return False
    reason = f"The zone data changed to {release}."
    note(
        job,
        "edit",
        now,
        {"next_run_at": following.isoformat(), "reason": reason},
        before={"next_run_at": planned.isoformat()},
    )
    return True
