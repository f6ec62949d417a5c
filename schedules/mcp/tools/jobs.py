"""Family A: jobs, scheduled by task name and trigger."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.auth import current_actor
from schedules.mcp.triggers import read_trigger, refuse
from schedules.models import Execution, Job
from schedules.models.jobs import JobQuerySet, state_of
from schedules.result import Code, Err, Ok
from schedules.services.people import profile_of
from schedules.tasks import registry

PAGE = 100
LONGEST_PAGE = 1000
EXECUTIONS = 10
STATUSES = [*Job.Status.values, None]

JobId = Annotated[str, Field(description="The public id, as a creating tool or list_jobs returned it.")]
TriggerType = Annotated[
    str,
    Field(description="once, interval or cron.", json_schema_extra={"enum": ["once", "interval", "cron"]}),
]
TriggerConfig = Annotated[
    dict[str, Any],
    Field(
        description='once: {"run_at": "2026-02-05T15:00:00"}. interval: any of seconds, minutes, hours, days, '
        'like {"hours": 1}. cron: {"expression": "0 9 * * 1-5"} (five fields, or @daily and the like).'
    ),
]
Timezone = Annotated[
    str | None,
    Field(
        description="IANA zone that times are meant in, like Europe/Berlin. Default: the user's own; ask if unsure."
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Field(
        description="Any text unique to this request: repeating it returns the first job instead of a second one."
    ),
]

PageLimit = Annotated[
    answers.Whole | None, Field(description="At most this many, 1 to 1000; 100 if not given.")
]
PageOffset = Annotated[
    answers.Whole | None, Field(description="Skip this many, to page through a long list.")
]


class ErrorOut(answers.WaitOut):
    """Why nothing was done."""

    error: str
    hint: NotRequired[str]
    available_tasks: NotRequired[list[str]]


class JobOut(answers.ScheduleOut):
    """A job as it stands."""

    job_id: str
    name: str
    next_run: str | None
    status: str


class ScheduledOut(JobOut, answers.AdviceOut):
    """The job that was made."""


class SummaryOut(TypedDict):
    """One line of the list."""

    job_id: str
    name: str
    status: str
    trigger_type: str
    next_run: str | None
    run_count: int
    last_run: str | None


class JobsOut(TypedDict):
    """One page of the list, and how many jobs match in all."""

    jobs: list[SummaryOut]
    total: int


class CancelOut(answers.WaitOut):
    """Whether the job is cancelled now."""

    cancelled: bool
    job_id: str
    error: NotRequired[str]


class StatusOut(JobOut):
    """Everything about one job."""

    trigger_type: str
    created_at: str
    last_run: str | None
    run_count: int
    max_runs: int | None
    error: str | None
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    made_by: str
    paused_until: str | None
    pause_reason: str | None
    executions: list[answers.ExecutionOut]


def schedule_job(
    name: Annotated[str, Field(description="A name the user will recognise in a list.")],
    task: Annotated[
        str, Field(description="A registered task; tasks://registered lists them with their arguments.")
    ],
    trigger_type: TriggerType,
    trigger_config: TriggerConfig,
    args: Annotated[list[Any] | None, Field(description="Positional arguments of the task.")] = None,
    kwargs: Annotated[dict[str, Any] | None, Field(description="Named arguments of the task.")] = None,
    max_runs: Annotated[
        answers.Whole | None, Field(description="Stop after this many runs; null is no limit.")
    ] = None,
    timezone: Timezone = None,
    idempotency_key: IdempotencyKey = None,
) -> ScheduledOut | ErrorOut:
    """Schedule a registered task: once, at an interval, or by cron.

    Use it for webhooks and other tasks; for reminders use the notification tools, for prompts to yourself `schedule`.
    Preview an unusual schedule first (preview_schedule). Tell the user `description` and the first of `next_runs`,
    so that a wrong translation is noticed. Each call makes a new job unless idempotency_key is repeated.
    """
    actor = current_actor()
    given = {
        "task": task,
        "trigger_type": trigger_type,
        "trigger_config": trigger_config,
        "max_runs": max_runs,
    }
    what: dict[str, Any] = {"name": name, "args": args or [], "kwargs": kwargs or {}}
    profile = profile_of(actor.user)
    zone = timezone if timezone is not None else profile.zone
    when = read_trigger(trigger_type, trigger_config, zone, clock.now())
    if isinstance(when, Err):
        # What runs matters more than when: say first what is wrong with the task.
        return refused(when if task in registry.names() else unknown_task(task), given | {"timezone": zone})
    made = services.schedule(
        actor,
        profile=profile,
        idempotency_key=idempotency_key,
        request=given | what | {"timezone": timezone},
        **what,
        task=task,
        max_runs=max_runs,
        **when.value,
    )
    match made:
        case Ok(scheduled):
            return {**job_out(scheduled.job), **answers.advice_on(scheduled)}
        case error:
            return refused(error, given | {"timezone": zone})


def list_jobs(
    status: Annotated[
        str | None, Field(description="Only jobs in this state.", json_schema_extra={"enum": STATUSES})
    ] = None,
    limit: PageLimit = None,
    offset: PageOffset = None,
) -> JobsOut | ErrorOut:
    """List the user's jobs, soonest first, whichever tool or page made them.

    Use it to find the id of a job the user speaks of. `total` counts all that match, also beyond the page.
    """
    size, start = PAGE if limit is None else limit, offset or 0
    if status is not None and status not in Job.Status.values:
        return refused(refuse("status", "unknown"), {"status": status})
    if problem := page_problem(size, start):
        return refused(problem, {})
    jobs = in_state(current_actor().jobs(), status)
    page = jobs.with_activity().values_list(*SUMMARY_COLUMNS, named=True)[start : start + size]
    # Naming every state lets SQLite count inside its index of states.
    total = jobs.filter(status__in=Job.Status.values).count()
    return {"jobs": [_summary(row) for row in page], "total": total}


def cancel_job(job_id: JobId) -> CancelOut:
    """Cancel a job: it never runs again; a run under way finishes. This cannot be undone.

    Make sure it is the job the user means. To stop it only for a while, use pause_job.
    Cancelling twice is harmless; `cancelled` is false if there is no such job or it had already ended.
    """
    actor = current_actor()
    match services.cancel(actor, job_id):
        case Ok():
            return {"cancelled": True, "job_id": job_id}
        case Err(code=Code.WRONG_STATE):
            status = actor.jobs().called(job_id).values_list("status", flat=True).first()
            if status == Job.Status.CANCELLED:
                return {"cancelled": True, "job_id": job_id}
            return {"cancelled": False, "job_id": job_id, "error": f"Job already {status}: {job_id}"}
        case error:
            return refused_cancel(error, {"job_id": job_id})


def job_status(job_id: JobId) -> StatusOut | ErrorOut:
    """Show one job in full: state, schedule in words, next runs, what it does, and its last ten executions.

    Use it to answer "did it run?" and "what went wrong?"; `error` is the last error, or null.
    """
    job = current_actor().job(job_id)
    if job is None:
        return refused(services.actors.not_found(job_id), {"job_id": job_id})
    return status_out(job)


def refused(error: Err, given: Mapping[str, Any]) -> ErrorOut:
    """Turn a refusal into this family's shape, in the contract's words."""
    match error.code:
        case Code.NOT_FOUND:
            return {"error": f"Job not found: {_echo(given.get('job_id'))}"}
        case Code.QUOTA | Code.TOO_FAST:
            out: ErrorOut = {"error": f"Quota exceeded: {error.message}"}
            return answers.with_wait(out, error)
        case Code.INVALID:
            return _invalid(error, given)
        case Code.NEVER_RUNS:
            return {"error": f"Invalid trigger_config: {answers.line(error.message, 300)}"}
        case _:
            return {"error": error.message}


def refused_cancel(error: Err, given: Mapping[str, Any]) -> CancelOut:
    """The same for cancel_job, where an unknown id is no error."""
    out: CancelOut = {"cancelled": False, "job_id": _echo(given.get("job_id"))}
    if error.code == Code.NOT_FOUND:
        return out
    out["error"] = refused(error, given)["error"]
    return answers.with_wait(out, error)


def unknown_task(name: str) -> Err:
    return refuse("task", f"Unknown task: {name}")


def job_out(job: Job) -> JobOut:
    """Show a job as the tools that make and change jobs do."""
    return {
        "job_id": job.public_id,
        "name": answers.line(job.name, 200),
        "next_run": answers.iso_or_none(job.next_run_at, job.timezone),
        "status": job.state,
        **answers.schedule_of(job, clock.now()),
    }


def status_out(job: Job) -> StatusOut:
    """Show a job, read with its activity, and its last executions."""
    rows = Execution.objects.filter(job=job).values_list(*answers.EXECUTION_COLUMNS, named=True)
    return {
        **job_out(job),
        "trigger_type": job.trigger_type,
        "created_at": answers.iso(job.created_at, job.timezone),
        "last_run": answers.iso_or_none(job.last_run_at, job.timezone),
        "run_count": job.run_count,
        "max_runs": job.max_runs,
        "error": answers.readable(job.last_error) or None,
        "task": job.task,
        "args": answers.readable(job.args),
        "kwargs": answers.readable(job.kwargs),
        "made_by": job.made_by,
        "paused_until": answers.iso_or_none(job.paused_until, job.timezone),
        "pause_reason": answers.readable(job.pause_reason) or None,
        "executions": [answers.execution_out(row, job.timezone) for row in rows[:EXECUTIONS]],
    }


def page_problem(size: int, start: int) -> Err | None:
    """Refuse a page that cannot be."""
    if not 1 <= size <= LONGEST_PAGE:
        return refuse("limit", f"choose 1 to {LONGEST_PAGE}")
    return None if 0 <= start <= 10**9 else refuse("offset", "choose 0 or more")


def in_state(jobs: JobQuerySet, status: str | None) -> JobQuerySet:
    """Filter by state, unless there is none to filter by."""
    return jobs if status is None else jobs.in_state(status)


SUMMARY_COLUMNS = (
    "public_id",
    "name",
    "status",
    "trigger_type",
    "timezone",
    "next_run_at",
    "run_count",
    "last_run_at",
    "is_running",
)


def _summary(job: Any) -> SummaryOut:
    return {
        "job_id": job.public_id,
        "name": answers.line(job.name, 200),
        "status": state_of(job.status, job.is_running),
        "trigger_type": job.trigger_type,
        "next_run": answers.iso_or_none(job.next_run_at, job.timezone),
        "run_count": job.run_count,
        "last_run": answers.iso_or_none(job.last_run_at, job.timezone),
    }


def _invalid(error: Err, given: Mapping[str, Any]) -> ErrorOut:
    name, why = answers.first_problem(error)
    match name:
        case "task":
            return {"error": f"Unknown task: {_echo(given.get('task'))}", "available_tasks": registry.names()}
        case "trigger_type":
            return {"error": f"Unknown trigger type: {_echo(given.get('trigger_type'))}"}
        case "cron":
            expression = given.get("trigger_config", {}).get("expression", "")
            return {"error": f"Invalid cron expression: {_echo(expression)}", "hint": why}
        case "timezone":
            return {"error": f"Unknown timezone: {_echo(given.get('timezone'))}"}
        case "args" | "kwargs":
            why = why.removeprefix(f"invalid arguments for task {given.get('task')}: ")
            return {"error": f"Invalid arguments for task {_echo(given.get('task'))}: {why}"}
        case "max_runs":
            return {"error": f"Invalid max_runs: {_echo(given.get('max_runs'))}", "hint": why}
        case "status":
            return {"error": f"Unknown status: {_echo(given.get('status'))}"}
        case "run_at" | "every" | "trigger_config" | "interval" | "once":
            return {"error": f"Invalid trigger_config: {answers.line(why, 300)}"}
        case _:
            return {"error": f"Invalid {name}: {answers.line(why, 300)}"}


def _echo(value: Any) -> str:
    return answers.line(str(value), 200)
