"""The source of a job, which is the file that describes it: the columns that it sets, and whether the job has drifted."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from schedules.models import Job
from schedules.services.jobs.masked_arguments import named_arguments
from schedules.services.permissions import Actor
from schedules.tasks.heartbeat import HEARTBEAT

CHANGED = "changed since it was applied"
COLUMNS = (
    "name",
    "task",
    *Job.TRIGGER_FIELDS,
    *Job.POLICY_FIELDS,
    "label",
    "tags",
    "grants",
)


def sources_of(actor: Actor) -> list[str]:
    """Return the files and folders that describe jobs of this person, including deleted jobs."""
    named = actor.visible(Job.objects.owned_by(actor.user.pk)).exclude(source="")
    return list(named.order_by("source").values_list("source", flat=True).distinct())


def source_note(job: Job) -> str:
    """Return which file manages a job, and whether the job was changed elsewhere; empty if no file does."""
    if not job.source:
        return ""
    return f"{job.source} ({CHANGED})" if has_drifted(job) else job.source


def has_drifted(job: Job) -> bool:
    """Return whether a job differs from what its file said when it was applied."""
    return bool(job.source) and job.source_digest != digest_of_job(job)


def digest_of_job(job: Job) -> str:
    """Return a digest of the columns that a file sets; whether the job is paused is not included."""
    values: dict[str, Any] = {name: _comparable(getattr(job, name)) for name in COLUMNS}
    if job.task == HEARTBEAT:
        # Every ping restarts its interval.
        del values["anchor_at"]
    values["arguments"] = named_arguments(job.task, job.args, job.kwargs)
    values["is_gone"] = is_gone(job)
    text = json.dumps(values, cls=DjangoJSONEncoder, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_gone(job: Job) -> bool:
    """Return whether somebody deleted or cancelled a job."""
    return job.deleted_at is not None or job.status == Job.Status.CANCELLED


def _comparable(value: Any) -> Any:
    # A stored moment is in UTC; one from a file is in its own zone.
    return value.astimezone(UTC) if isinstance(value, datetime) else value
