"""Tools for jobs: schedule, list, cancel and show registered tasks."""

from typing import Annotated, Any

from pydantic import Field

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.answers.jobs import (
    JobsOut,
    ScheduledOut,
    StatusOut,
    jobs_out,
    status_out,
    summary_rows,
)
from schedules.mcp.answers.refusals import CancelOut, ErrorOut, RefusedCallError
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import (
    FILTERS,
    LIMITED_POLICIES,
    IdempotencyKey,
    JobId,
    PageLimit,
    PageOffset,
    TextList,
    Timezone,
    page_of,
    read_filter,
)
from schedules.mcp.tools.history import known_job
from schedules.mcp.tools.triggers import (
    TriggerConfig,
    TriggerType,
    create,
    local_text,
    read_trigger,
    zone_notes,
)
from schedules.result import Code, Err, RefusedError, invalid
from schedules.services.job_list import read_jobs
from schedules.services.jobs.validation import usable_tasks
from schedules.services.permissions import read_activity


def schedule_job(
    name: Annotated[str, Field(description="A name the user will recognise.")],
    task: Annotated[
        str,
        Field(description="webhook, notify, prompt, or another of tasks://registered."),
    ],
    trigger_type: TriggerType,
    trigger_config: TriggerConfig,
    args: Annotated[list[Any] | None, Field(description="Positional arguments.")] = None,
    kwargs: Annotated[
        dict[str, Any] | None,
        Field(
            description="Its arguments; for webhook "
            '{"url": "https://example.org", "method": "GET"} (default: POST).'
        ),
    ] = None,
    timezone: Timezone = None,
    tags: Annotated[TextList | None, Field(description="Tags to find it by.")] = None,
    idempotency_key: IdempotencyKey = None,
    **policies: Annotated[Any, LIMITED_POLICIES],
) -> ScheduledOut | ErrorOut:
    """Schedule a task, like a webhook, once, at an interval or by cron. Ask for an unknown zone; report the
    description. For a reminder on the user's phone, use schedule_notification. For one prompt to an agent, use
    `schedule`.
    """
    actor, now = current_actor(), clock.now()
    profile = actor.read_profile()
    zone = profile.zone if timezone is None else timezone
    request: dict[str, Any] = {
        "name": name,
        "task": task,
        "args": args or [],
        "kwargs": kwargs or {},
        "trigger_type": trigger_type,
        "trigger_config": trigger_config,
        "timezone": timezone,
        "max_runs": None,
        **policies,
        **({"tags": tags} if tags else {}),
    }
    when = read_trigger(trigger_type, trigger_config, zone, now)
    if isinstance(when, Err) and task not in _usable_names(actor):
        # Report an unknown task rather than its trigger.
        when = invalid("task", f"Unknown task: {task}")
    fields = {name: request[name] for name in ("name", "task", "args", "kwargs", "tags") if name in request}
    fields["kwargs"] = profile.with_default_place(task, fields["args"], fields["kwargs"])
    made = create(
        when, policies, zone, profile=profile, idempotency_key=idempotency_key, request=request, **fields
    )
    if isinstance(made, Err):
        raise RefusedCallError(made, {"timezone": zone, "tasks": _usable_names(actor)})
    notes = zone_notes(profile, timezone, local_text(trigger_type, trigger_config))
    return {**answers.job_out(made.value.job), **answers.advice_on(made.value, *notes)}


def list_jobs(
    limit: PageLimit = None,
    offset: PageOffset = None,
    **filters: Annotated[Any, FILTERS],
) -> JobsOut | ErrorOut:
    """Find the user's jobs, the next to run first. "What failed this week?" is outcome
    "failed" since "7 days ago". `outcome` and `error` are those of the last run. To see coming runs, use
    `upcoming`.
    """
    actor = current_actor()
    query = read_filter(actor, filters)
    size, start = page_of(limit, offset)
    return jobs_out(read_jobs(actor, query, summary_rows, size=size, start=start))


def cancel_job(job_id: JobId) -> CancelOut:
    """End a job for good; a run in progress finishes. To stop it for a while, use pause_job. restore_job
    undoes this.
    """
    cancelled = services.cancel(current_actor(), job_id)
    if isinstance(cancelled, Err) and cancelled.code != Code.JOB_ALREADY_CANCELLED:
        raise RefusedError(cancelled)
    return {"cancelled": True, "job_id": job_id}


def job_status(job_id: JobId) -> StatusOut | ErrorOut:
    """Show one job: schedule, next runs, arguments, policies, last error, and its last ten runs ("did it
    run?"). To explain one run, use `why`.
    """
    job = known_job(current_actor(), job_id)
    read_activity(job)
    return status_out(job)


def _usable_names(actor: services.Actor) -> list[str]:
    return [task.name for task in usable_tasks(actor)]
