"""Repeated requests: idempotency keys, and active jobs with the same task and schedule."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any, NamedTuple

from django.core.serializers.json import DjangoJSONEncoder

from schedules.models import Job
from schedules.result import Code, Err, Ok, Result
from schedules.services.actors import Actor

SAME_TIME = timedelta(minutes=1)


class SimilarJob(NamedTuple):
    """An active job that does the same on the same schedule, or whose name looks the same."""

    public_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A new job, or the one that an earlier, identical request created."""

    job: Job
    existing: bool = False
    similar: SimilarJob | None = None
    look_alike: SimilarJob | None = None
    """An active job whose name looks like this one's."""


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
    return Ok(Scheduled(job, existing=True))


def similar_to(job: Job) -> SimilarJob | None:
    """Return an active job with the same task, arguments and schedule, or None."""
    if job.run_at:
        # A repeated "in an hour" gives another second. Compare in UTC, because wall times are ambiguous when clocks
        # are set back.
        moment = job.run_at.astimezone(UTC)
        same: dict[str, Any] = {"run_at__gt": moment - SAME_TIME, "run_at__lt": moment + SAME_TIME}
    else:
        # Only jobs of one trigger type fill in this column.
        column = Job.TriggerType(job.trigger_type).column
        same = {"timezone": job.timezone, column: getattr(job, column)}
    # Unordered, because the database would read every job of the owner to sort them.
    twins = (
        Job.objects.active()
        .filter(owner=job.owner_id, task=job.task, **same)
        .order_by()
        .values_list("public_id", "name", "args", "kwargs")
    )
    for public_id, name, args, kwargs in twins:
        if (args, kwargs) == (job.args, job.kwargs):
            return SimilarJob(public_id, name)
    return None
