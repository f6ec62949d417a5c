"""Was this asked for before? Idempotency keys, and jobs that are twins."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from schedules.models import Job
from schedules.result import Code, Err, Ok, Result
from schedules.services.actors import Actor


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A job that was made, or the one that the same request made before."""

    job: Job
    existing: bool = False
    similar: Job | None = None


def digest_of(fields: Mapping[str, Any]) -> str:
    """Stand for a request: the same values give the same digest."""
    text = json.dumps(fields, sort_keys=True, cls=DjangoJSONEncoder, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def answer_of_key(actor: Actor, key: str, digest: str) -> Result[Scheduled] | None:
    """What this key was answered before, or None for a new one."""
    job = Job.objects.owned_by(actor.user).filter(idempotency_key=key).first()
    if job is None:
        return None
    if job.request_digest == digest and job.deleted_at is None:
        return Ok(Scheduled(job, existing=True))
    return Err(Code.CONFLICT, f"The idempotency_key {key!r} was used for another request: choose a new one.")


def similar_to(job: Job) -> Job | None:
    """Find an active job that does the same thing on the same schedule."""
    same = {
        name: getattr(job, name) for name in ("task", "trigger_type", "run_at", "every", "cron", "timezone")
    }
    # Unordered: in the list's order the database would walk through every job the owner ever had.
    candidates = Job.objects.owned_by(job.owner).active().filter(**same).order_by()
    twins = candidates.only("public_id", "name", "args", "kwargs")[:50]
    return next((twin for twin in twins if (twin.args, twin.kwargs) == (job.args, job.kwargs)), None)
