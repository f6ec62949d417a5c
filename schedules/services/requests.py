"""Was this asked for before? Idempotency keys, and jobs that are twins."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from schedules.models import Job
from schedules.models.prepared import Given, Prepared
from schedules.result import Code, Err, Ok, Result
from schedules.services.actors import Actor

SAME_TIME = timedelta(minutes=1)


def _twins_by(kind: Job.TriggerType) -> Prepared[Job]:
    """Look for the active jobs of one task and one schedule; the other triggers' columns are empty in all of them."""
    column = getattr(Job, kind.column).field
    same: dict[str, Any] = {
        "task": Given("task"),
        "timezone": Given("timezone"),
        kind.column: Given(kind.column, column),
    }
    if kind == Job.TriggerType.ONCE:
        # A moment is the same in every zone, and "in an hour", said twice, is not the same moment.
        same = {
            "task": Given("task"),
            "run_at__gt": Given("after", column),
            "run_at__lt": Given("before", column),
        }
    # Unordered: in the list's order the database would walk through every job the owner ever had.
    return Prepared(
        lambda: (
            Job.objects.owned_by(Given("owner"))
            .active()
            .filter(trigger_type=kind, **same)
            .order_by()
            .only("public_id", "name", "args", "kwargs")
        ),
        # How best to look for a schedule depends on how many have it.
        keeps_plan=False,
    )


_TWINS = {kind: _twins_by(kind) for kind in Job.TriggerType}


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
    if job.request_digest != digest:
        return Err(
            Code.CONFLICT, f"The idempotency_key {key!r} was used for another request: choose a new one."
        )
    if job.deleted_at:
        return Err(
            Code.CONFLICT, f"The job that the idempotency_key {key!r} made was deleted: choose a new one."
        )
    return Ok(Scheduled(job, existing=True))


def similar_to(job: Job) -> Job | None:
    """Find an active job that does the same thing on the same schedule."""
    kind = Job.TriggerType(job.trigger_type)
    same = {"task": job.task, "timezone": job.timezone, kind.column: getattr(job, kind.column)}
    if job.run_at:
        # In a zone it would be added to what the clock shows, which comes twice when clocks are set back.
        moment = job.run_at.astimezone(UTC)
        same |= {"after": moment - SAME_TIME, "before": moment + SAME_TIME}
    twins = _TWINS[kind].all(owner=job.owner_id, **same)
    return next((twin for twin in twins if (twin.args, twin.kwargs) == (job.args, job.kwargs)), None)
