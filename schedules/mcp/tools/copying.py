"""The tool that copies a job."""

from typing import Annotated, Any

from pydantic import Field

from schedules.mcp import answers
from schedules.mcp.answers.job_refusals import ErrorOut, refusal_of
from schedules.mcp.answers.jobs import ScheduledOut, job_out
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import IdempotencyKey, JobId, TextList, ZoneText
from schedules.mcp.tools.policies import derived_name
from schedules.mcp.tools.triggers import Config, changed_trigger
from schedules.models import Job
from schedules.result import Err, Ok, invalid
from schedules.secrets import masking
from schedules.services.jobs.copying import copy_job as copy
from schedules.services.jobs.masked_arguments import merged_arguments
from schedules.services.permissions import not_found


def copy_job(
    job_id: JobId,
    name: Annotated[str | None, Field(description="Name of the copy.")] = None,
    kwargs: Annotated[
        dict[str, Any] | None, Field(description='Changed arguments, like {"topic": "anna"}.')
    ] = None,
    trigger_type: Annotated[str | None, Field(description="once, interval or cron.")] = None,
    trigger_config: Annotated[Config | None, Field(description="As in schedule_job.")] = None,
    timezone: Annotated[ZoneText | None, Field(description="Another zone.")] = None,
    tags: Annotated[TextList | None, Field(description="Other tags.")] = None,
    idempotency_key: IdempotencyKey = None,
) -> ScheduledOut | ErrorOut:
    """Make a new job like another one ("copy it for my partner"); what is left out is the same. Report the
    description. Change the rest with update_job.
    """
    actor = current_actor()
    job = actor.jobs().find(job_id)
    if job is None:
        return refusal_of(not_found(job_id), {"job_id": job_id})
    zone = job.timezone if timezone is None else timezone
    request: dict[str, Any] = {
        "job_id": job.public_id,
        "name": name,
        "kwargs": kwargs,
        "trigger_type": trigger_type,
        "trigger_config": trigger_config or {},
        "timezone": timezone,
        "tags": tags,
    }
    details = {**request, "task": job.task, "timezone": zone}
    if masking.has_mask(kwargs):
        return refusal_of(invalid("kwargs", f"write the real value instead of {masking.MASK}"), details)
    columns = changed_trigger(job, trigger_type, trigger_config, zone)
    if isinstance(columns, Err):
        return refusal_of(columns, details)
    plain = {"timezone": timezone, "tags": tags}
    changes: dict[str, Any] = {field: value for field, value in plain.items() if value is not None}
    changes |= columns.value
    if kwargs is not None:
        changes["args"], changes["kwargs"] = merged_arguments(job, None, kwargs)
    changes["name"] = name or _name_of_copy(job, changes)
    match copy(actor, job, changes, idempotency_key=idempotency_key, request=request):
        case Ok(copied):
            return {**job_out(copied.job), **answers.advice_on(copied)}
        case error:
            return refusal_of(error, details)


def _name_of_copy(job: Job, changes: dict[str, Any]) -> str:
    """Return a name that distinguishes the copy: the new text of a reminder, else the job's name with "(copy)"."""
    new = {field: changes.get(field, getattr(job, field)) for field in ("args", "kwargs")}
    derived = derived_name(Job(task=job.task, label=job.label, **new))
    if derived and derived != job.name == derived_name(job):
        return derived
    return f"{answers.line(job.name, 190)} (copy)"
