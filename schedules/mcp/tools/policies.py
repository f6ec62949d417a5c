"""Policy arguments of tools: how they become the columns of a job, and how a job is created with them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import Columns
from schedules.models import Job
from schedules.result import Err, Ok, Result, invalid
from schedules.services.jobs.validation import with_given
from schedules.spec.job import JobSpec

NAME_LENGTH = 80


def read_policies(options: Mapping[str, Any], timezone: str, now: datetime) -> Result[Columns]:
    """Turn the policies among these options into columns of a job."""
    given = {name: value for name, value in options.items() if name in JobSpec.of_columns()}
    if "calendars" in given:
        given |= _calendars(given["calendars"])
    return JobSpec.read(given, now=now, zone=timezone)


def _calendars(entries: list[str] | None) -> Columns:
    """Return the columns for calendars, and for what happens to the runs that they close, if an entry names it."""
    entries = [entry for entry in entries or [] if entry]
    names = [entry for entry in entries if entry not in Job.OnClosed.values]
    policies = [entry for entry in entries if entry in Job.OnClosed.values]
    return {"calendars": names, "on_closed": policies[-1] if policies else Job.OnClosed.SKIP.value}


def once(moment: Result[datetime], timezone: str) -> Result[Columns]:
    """Return the columns of a trigger that fires once."""
    if isinstance(moment, Err):
        return moment
    return Ok({"trigger_type": Job.TriggerType.ONCE, "run_at": moment.value, "timezone": timezone})


def create(
    trigger: Result[Columns], options: Mapping[str, Any], timezone: str, **job: Any
) -> Result[services.Scheduled]:
    """Create a job, unless its trigger or one of its policies is refused."""
    if isinstance(trigger, Err):
        return trigger
    if options.get("max_runs") == 0:
        # To update_job, 0 removes the limit.
        return invalid("max_runs", "choose 1 or more, or leave it out")
    policies = read_policies(options, timezone, clock.now())
    if isinstance(policies, Err):
        return policies
    fields = with_given(trigger.value, policies.value)
    return fields if isinstance(fields, Err) else services.schedule(current_actor(), **fields.value, **job)


def derived_name(job: Job) -> str | None:
    """Return the default name of a job with these arguments, or None if its caller must name it."""
    match job.task:
        case "notify":
            text = job.label or job.argument("title") or job.argument("message")
            return answers.line(str(text or ""), NAME_LENGTH) or "Notification"
        case "prompt":
            return answers.line(str(job.argument("prompt") or ""), NAME_LENGTH) or "Prompt"
    return None
