"""Active jobs of the same owner that a job could be confused with: they do the same, or their names look alike."""

import hashlib
import json
from datetime import UTC, timedelta
from typing import Any, NamedTuple

from django.db.models import Q

from schedules.models import Job
from schedules.services.permissions import Actor

SAME_TIME = timedelta(minutes=1)
# Unordered, so that an index alone finds the jobs.
_ACTIVE = Job.objects.active().order_by().values_list("public_id", "name")


class SimilarJob(NamedTuple):
    """An active job that does the same on the same schedule, or whose name looks the same."""

    public_id: str
    name: str


def similar_to(job: Job) -> SimilarJob | None:
    """Return another active job of the owner with the same task, arguments and schedule, or None."""
    same = _ACTIVE.filter(owner=job.owner_id, likeness=job.likeness)
    if job.run_at:
        # A repeated "in an hour" gives another second. Compare in UTC, because wall times are ambiguous when clocks
        # are set back.
        moment = job.run_at.astimezone(UTC)
        same = same.filter(run_at__gt=moment - SAME_TIME, run_at__lt=moment + SAME_TIME)
    return _first(same, job)


def look_alike(actor: Actor, job: Job) -> SimilarJob | None:
    """Return an active job of the owner with another name that looks like this job's, or None."""
    is_other = ~Q(name=job.name) & actor.within_tasks()
    return _first(_ACTIVE.filter(is_other, owner=job.owner_id, name_skeleton=job.name_skeleton), job)


def _first(found: Any, job: Job) -> SimilarJob | None:
    """Return the first of these rows that is not the job itself."""
    others = (SimilarJob(*row) for row in found[:2] if row[0] != job.public_id)
    return next(others, None)


def likeness_of(job: Job) -> str:
    """Return a digest of what a job does and on which schedule; the moment of a one-time job is left out."""
    schedule = None if job.run_at else [job.timezone, job.cron, str(job.every), job.calendar_unit]
    text = json.dumps([job.task, job.args, job.kwargs, job.trigger_type, schedule], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
