"""Tools that run something now, a job or a task without a job, and the one that stops all agents of the user."""

import asyncio
import math
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from pydantic import Field

from schedules import services
from schedules.mcp import answers
from schedules.mcp.answers.refusals import expect
from schedules.mcp.auth import current_actor, orm
from schedules.mcp.tools.arguments import JobId, Number, derived_name
from schedules.models import Execution
from schedules.result import RefusedError, invalid
from schedules.services.documents import masked_run
from schedules.services.jobs.validation import usable_tasks
from schedules.services.run_list import read_again, status_of
from schedules.services.runs import agent_stops

MAX_WAIT_SECONDS = 50
POLL_SECONDS = 0.2
# Statuses after which a caller need not wait longer.
SETTLED_STATUSES = {*Execution.FINAL, Execution.Status.WAITING}

Wait = Annotated[Number | None, Field(description="Wait for the result, up to 50. Default: 0.")]


async def run_job(job_id: JobId, context: Context[Any, Any], wait_seconds: Wait = None) -> Any:
    """Run a job once, now, even if it is paused; its schedule stays. Every call starts another run. Ask job_status
    for a result that takes longer.
    """
    return await _run(lambda: expect(services.run_now(current_actor(), job_id)), wait_seconds, context)


async def run_task(
    task: Annotated[str, Field(description="A task as in schedule_job.")],
    context: Context[Any, Any],
    kwargs: Annotated[dict[str, Any] | None, Field(description="Its arguments.")] = None,
    wait_seconds: Wait = None,
) -> Any:
    """Run a task once, now, without a schedule ("run the backup now"). If it has a job, use run_job. Every call
    starts another run.
    """

    def start() -> Execution:
        actor = current_actor()
        arguments = actor.read_profile().with_default_place(task, (), kwargs or {})
        name = derived_name(task, arguments) or task
        made = services.run_task(actor, {"name": name, "task": task, "kwargs": arguments})
        return expect(made, tasks=[usable.name for usable in usable_tasks(actor)])

    return await _run(start, wait_seconds, context)


async def _run(
    start: Callable[[], Execution],
    wait_seconds: float | None,
    context: Context[Any, Any],
) -> Any:
    """Start a run, and wait for its result if that is requested."""
    wait = 0.0 if wait_seconds is None else wait_seconds
    if not 0 <= wait <= MAX_WAIT_SECONDS:
        raise RefusedError(invalid("wait_seconds", f"choose 0 to {MAX_WAIT_SECONDS}"))
    run_id, answer = await orm(lambda: _started(start()))()
    if not wait:
        return answer
    for step in range(math.ceil(wait / POLL_SECONDS)):
        status = await orm(status_of)(run_id)
        if status in SETTLED_STATUSES:
            break
        await context.report_progress(step * POLL_SECONDS, wait, f"The run is {status}.")
        await asyncio.sleep(POLL_SECONDS)
    return await orm(lambda: _run_out(read_again(run_id)))()


def _started(run: Execution) -> tuple[int, dict[str, Any]]:
    return run.pk, _run_out(run)


def _run_out(run: Execution) -> dict[str, Any]:
    out: dict[str, Any] = answers.printable(masked_run(run, run.job.timezone if run.job else "UTC"))
    return out if answers.is_worker_running() else {**out, "warning": answers.NO_WORKER}


def stop_agents() -> Any:
    """Stop all agents of the user at once ("stop everything!"): prompts that they work on end, and none is started. Only a person
    can let them work again, on the page Agents.
    """
    stopped = expect(agent_stops.stop_agents(current_actor()))
    return {"runs_ended": stopped.runs + stopped.leases}
