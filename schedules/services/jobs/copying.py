"""Copy a job: create a new one like it, except for what the caller changes."""

from collections.abc import Mapping
from typing import Any

from schedules.models import Job
from schedules.result import Err, Result
from schedules.services.jobs.creation import Scheduled, policy_defaults, schedule
from schedules.services.jobs.masked_arguments import fill_in
from schedules.services.jobs.validation import EDITABLE, default_of, editable_only
from schedules.services.permissions import Actor


def copy_job(
    actor: Actor,
    source: Job,
    changes: Mapping[str, Any],
    *,
    idempotency_key: str | None = None,
    request: Mapping[str, Any] | None = None,
) -> Result[Scheduled]:
    """Create a copy of a job with some columns changed; it starts without history.

    Masked arguments are copied only if the copy sends them to the same address.
    """
    filled = fill_in(source, editable_only(changes))
    if isinstance(filled, Err):
        return filled
    new = filled.value
    fields = _chosen(source) | new
    if {"every", "trigger_type"} & new.keys() and "anchor_at" not in new:
        # The anchor of the old interval means nothing to another schedule.
        fields.pop("anchor_at", None)
    repeats = fields["trigger_type"] != Job.TriggerType.ONCE
    if not repeats:
        for name in Job.REPEATING_FIELDS:
            fields.pop(name, None)
    return schedule(
        actor,
        idempotency_key=idempotency_key,
        request=request,
        skips=source.skips if repeats else "",
        **fields,
    )


def _chosen(job: Job) -> dict[str, Any]:
    """Return the columns of a job that differ from the defaults for its task, and its time zone."""
    defaults = {name: default_of(name) for name in EDITABLE} | policy_defaults(job.task)
    values = {name: getattr(job, name) for name in EDITABLE}
    return {name: value for name, value in values.items() if name == "timezone" or value != defaults[name]}
