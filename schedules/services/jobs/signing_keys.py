"""Signing keys of webhooks: show them to the job's owner, and rotate them."""

from datetime import datetime

from django.db import transaction

from schedules import clock
from schedules.models import Job
from schedules.result import Code, Err, Ok, Result
from schedules.services.jobs.rows import change_row, locked_job
from schedules.services.permissions import Actor, record
from schedules.tasks.outbound.signing import current_keys


def rotate_signing_key(actor: Actor, job_id: str, *, shown: str) -> Result[Job]:
    """Give the actor's job a new signing key; requests are signed with both keys until the overlap ends.

    Refuse this if the shown version is outdated: a second rotation would end the overlap of the first.
    """
    now = clock.now()
    with transaction.atomic():
        job = locked_job(actor, job_id, may=lambda own: own.owner_id == actor.user.pk)
        if isinstance(job, Err):
            return job
        if shown != str(job.signing_version):
            return Err(Code.SIGNING_KEY_ALREADY_ROTATED, job.name)
        change_row(job, now, signing_version=job.signing_version + 1, signing_changed_at=now)
        record(actor, "rotate key", now, job=job)
    return Ok(job)


def signing_keys_of(actor: Actor, job: Job, now: datetime) -> tuple[str, ...]:
    """Return the current signing keys of a webhook, newest first, or none to anybody but its owner."""
    if job.owner_id != actor.user.pk or job.task != "webhook":
        return ()
    owner_key = actor.read_profile().signing_key
    return current_keys(owner_key, job.public_id, job.signing_version, job.signing_changed_at, now)
