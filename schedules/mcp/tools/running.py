"""Tools that run something now: a job, or a task without a job."""

import asyncio
import math
from collections.abc import Callable
from typing import Annotated, Any, NotRequired

from mcp.server.mcpserver import Context
from pydantic import Field
from typing_extensions import TypedDict

from schedules import limits, services
from schedules.mcp import answers
from schedules.mcp.answers.job_refusals import ErrorOut, refusal_of
from schedules.mcp.auth import current_actor
from schedules.mcp.orm import orm
from schedules.mcp.tools.arguments import JobId, Number
from schedules.mcp.tools.policies import derived_name
from schedules.models import Execution, Job
from schedules.result import Err, Ok, Result, invalid
from schedules.services.jobs.validation import usable_tasks
from schedules.services.run_list import read_again, status_of

MAX_WAIT_SECONDS = 50
POLL_SECONDS = 0.2
# Statuses after which a caller need not wait longer.
SETTLED_STATUSES = {*Execution.FINAL, Execution.Status.WAITING}

Wait = Annotated[Number | None, Field(description="Wait for the result, up to 50. Default: 0.")]


class RunOut(TypedDict):
    """A run that was started by hand, and its current status."""

    job_id: str
    execution_id: int
    status: str
    result: Any
    error: str | None
    warning: NotRequired[str]


async def run_job(job_id: JobId, context: Context[Any, Any], wait_seconds: Wait = None) -> RunOut | ErrorOut:
    """Run a job once, now, even if it is paused; its schedule stays. Every call starts another run. Ask job_status
    for a result that takes longer.
    """

    def start() -> RunOut | Err:
        return _started(services.run_now(current_actor(), job_id))

    return await _run(start, {"job_id": job_id}, wait_seconds, context)


async def run_task(
    task: Annotated[str, Field(description="A task as in schedule_job.")],
    context: Context[Any, Any],
    kwargs: Annotated[dict[str, Any] | None, Field(description="Its arguments.")] = None,
    wait_seconds: Wait = None,
) -> RunOut | ErrorOut:
    """Run a task once, now, without a schedule ("run the backup now"). If it has a job, use run_job. Every call
    starts another run.
    """
    request: dict[str, Any] = {"task": task}

    def start() -> RunOut | Err:
        actor = current_actor()
        request["tasks"] = [usable.name for usable in usable_tasks(actor)]
        arguments = actor.read_profile().with_default_place(task, (), kwargs or {})
        name = derived_name(Job(task=task, kwargs=arguments)) or task
        return _started(services.run_task(actor, {"name": name, "task": task, "kwargs": arguments}))

    return await _run(start, request, wait_seconds, context)


async def _run(
    start: Callable[[], RunOut | Err],
    request: dict[str, Any],
    wait_seconds: float | None,
    context: Context[Any, Any],
) -> RunOut | ErrorOut:
    """Start a run, and wait for its result if that is requested."""
    wait = 0.0 if wait_seconds is None else wait_seconds
    if not 0 <= wait <= MAX_WAIT_SECONDS:
        return refusal_of(invalid("wait_seconds", f"choose 0 to {MAX_WAIT_SECONDS}"), request)
    started = await orm(start)()
    if isinstance(started, Err):
        return await orm(refusal_of)(started, request)
    if not wait:
        return started
    execution_id, job_id = started["execution_id"], started["job_id"]
    for step in range(math.ceil(wait / POLL_SECONDS)):
        status = await orm(status_of)(execution_id)
        if status in SETTLED_STATUSES:
            break
        await context.report_progress(step * POLL_SECONDS, wait, f"The run is {status}.")
        await asyncio.sleep(POLL_SECONDS)
    return await orm(_read_run)(execution_id, job_id)


def _started(result: Result[Execution]) -> RunOut | Err:
    match result:
        case Ok(run):
            return _run_out(run, run.job.public_id if run.job else "")
        case error:
            return error


def _read_run(execution_id: int, job_id: str) -> RunOut:
    return _run_out(read_again(execution_id), job_id)


def _run_out(row: Execution, job_id: str) -> RunOut:
    out: RunOut = {
        "job_id": job_id,
        "execution_id": row.pk,
        "status": row.status,
        "result": answers.readable(row.result),
        "error": limits.strip_unprintable(row.error) or None,
    }
    return out if answers.is_worker_running() else {**out, "warning": answers.NO_WORKER}
