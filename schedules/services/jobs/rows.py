"""Rows of jobs: lock one for an actor who may change it, and update it."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from schedules.models import Job
from schedules.result import Err
from schedules.services.permissions import Actor, forbidden, not_found


def locked_job(actor: Actor, job_id: str, *, may: Callable[[Job], bool] | None = None) -> Job | Err:
    """Lock a job that the actor may change; `may` replaces this permission with another."""
    job = actor.jobs().select_for_update(of=("self",)).find(job_id)
    if job is None:
        return not_found(job_id)
    return job if (may or actor.may_change)(job) else forbidden(job)


def change_row(job: Job, now: datetime, **changes: Any) -> None:
    """Update a locked row; its revision must be the one that was read."""
    changed = Job.objects.filter(pk=job.pk, revision=job.revision).update(
        **changes, revision=job.revision + 1, updated_at=now
    )
    assert changed == 1
    job.apply_changes(changes, now)
