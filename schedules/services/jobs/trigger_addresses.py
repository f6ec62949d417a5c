"""Trigger addresses of jobs: open one, give it a new key, and close it; a key is shown only once."""

import hashlib
import secrets
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction

from schedules import clock
from schedules.models import Job, Secret, TriggerAddress
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.jobs.rows import locked_job
from schedules.services.permissions import Actor, record
from schedules.tasks.heartbeat import HEARTBEAT

TRIGGER_PATH = "/trigger/"
# How long the old key is still accepted beside a new one.
OVERLAP = timedelta(days=7)

Scheme = TriggerAddress.Scheme


class OpenedTrigger(NamedTuple):
    """A trigger address with its key, which nobody can read later."""

    job: Job
    url: str


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def open_trigger(
    actor: Actor, job_id: str, *, scheme: str = "", secret_name: str = ""
) -> Result[OpenedTrigger]:
    """Give a job a trigger address, or a new key for it; the old key is accepted until the overlap ends."""
    now = clock.now()
    if actor.is_agent:
        return Err(Code.SECRETS_HIDDEN_FROM_AGENTS)
    if scheme not in Scheme.values:
        return invalid(
            "scheme", f"Choose one of: {', '.join(filter(None, Scheme.values))}, or leave it empty."
        )
    if scheme and not Secret.objects.filter(owner=actor.user.pk, name=secret_name).exists():
        return invalid("secret", "Name one of your secrets: it verifies the signatures.")
    key = secrets.token_urlsafe(24)
    with transaction.atomic():
        job = locked_job(actor, job_id, may=lambda own: own.owner_id == actor.user.pk)
        if isinstance(job, Err):
            return job
        if job.task == HEARTBEAT:
            return Err(Code.JOB_RUNS_ELSEWHERE, job_id)
        address = TriggerAddress.objects.filter(job=job).first()
        is_new = address is None
        if address is None:
            address = TriggerAddress(job=job, owner_id=job.owner_id, created_at=now)
        else:
            address.old_digest, address.old_until, address.rotated_at = address.digest, now + OVERLAP, now
        address.digest, address.scheme = digest_of(key), scheme
        address.secret_name = secret_name if scheme else ""
        address.save()
        after = {"scheme": scheme} if scheme else {}
        if is_new:
            record(actor, "open trigger", now, job=job, after=after)
        else:
            record(actor, "rotate trigger", now, job=job, after=after)
    return Ok(OpenedTrigger(job, f"{settings.CRONTY_URL.rstrip('/')}{TRIGGER_PATH}{key}"))


def close_trigger(actor: Actor, job_id: str) -> Result[Job]:
    """Remove a job's trigger address; both keys stop working at once."""
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if not TriggerAddress.objects.filter(job=job).delete()[0]:
            return Err(Code.TRIGGER_NOT_FOUND)
        record(actor, "close trigger", clock.now(), job=job)
    return Ok(job)


def trigger_of_job(job: Job) -> TriggerAddress | None:
    return TriggerAddress.objects.filter(job=job.pk).first()
