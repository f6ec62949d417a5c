"""Repeated requests: idempotency keys, and the result of creating a job."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from schedules.models import Job
from schedules.result import Code, Err, Ok, Result
from schedules.services.jobs.lookalikes import SimilarJob, look_alike, similar_to
from schedules.services.permissions import Actor


@dataclass(frozen=True)
class Scheduled:
    """A new job, or the one that an earlier, identical request created."""

    actor: Actor
    job: Job
    existing: bool = False

    # Looked up when somebody asks: whoever creates many jobs does not, and others need not wait for it.
    @cached_property
    def similar(self) -> SimilarJob | None:
        """An active job that does the same as a new one."""
        return None if self.existing else similar_to(self.job)

    @cached_property
    def look_alike(self) -> SimilarJob | None:
        """An active job whose name looks like that of a new one."""
        return None if self.existing else look_alike(self.actor, self.job)


def digest_of(fields: Mapping[str, Any]) -> str:
    """Return the digest of a request; equal requests have equal digests."""
    text = json.dumps(fields, sort_keys=True, cls=DjangoJSONEncoder, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def answer_of_key(actor: Actor, key: str, digest: str) -> Result[Scheduled] | None:
    """Return the result of an earlier request with this key, or None for a new key."""
    job = Job.objects.owned_by(actor.user).filter(idempotency_key=key).first()
    if job is None:
        return None
    if job.request_digest != digest:
        return Err(
            Code.CONFLICT, f"The idempotency_key {key!r} was used for another request: choose a new one."
        )
    if job.deleted_at:
        return Err(
            Code.CONFLICT, f"The job that the idempotency_key {key!r} made was deleted: choose a new one."
        )
    return Ok(Scheduled(actor, job, existing=True))
