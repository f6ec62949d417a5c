"""Answers of the job tools: how a job, a list of jobs and a refusal look to an agent."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NotRequired

from django.db.models import Subquery, TextField
from django.db.models.functions import Cast, Left
from typing_extensions import TypedDict

from schedules import clock, limits
from schedules.mcp import answers
from schedules.models import Execution, Job
from schedules.models.counting import COUNTED
from schedules.models.executions import OUTCOME_LETTERS
from schedules.models.jobs import JobQuerySet, state_of
from schedules.models.standings import ORDER, Standing
from schedules.result import Code, Err
from schedules.services import waits_for_agent
from schedules.services.files.sources import source_note
from schedules.services.filters import Runs
from schedules.services.jobs.forecasts import shown_next_run
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.tasks import registry
from schedules.when import durations

EXECUTIONS = 10
ERROR_LENGTH = 200
OUTCOMES = {letter: outcome for outcome, letter in OUTCOME_LETTERS.items()}


class ErrorOut(answers.WaitOut):
    """The reason for a refusal."""

    error: str
    hint: NotRequired[str]
    available_tasks: NotRequired[list[str]]


class JobOut(answers.ScheduleOut):
    """A job as it is now."""

    job_id: str
    name: str
    next_run: str | None
    status: str


class ScheduledOut(JobOut, answers.AdviceOut):
    """The new job."""


class SummaryOut(TypedDict):
    """One job in a list, with the outcome of its last run and the start of its error."""

    job_id: str
    name: str
    status: str
    standing: str
    trigger_type: str
    next_run: str | None
    run_count: int
    last_run: str | None
    task: str
    outcome: str | None
    error: str | None
    label: str | None
    tags: list[str]
    matching_runs: NotRequired[int]
    last_match: NotRequired[str]


class JobsOut(TypedDict):
    """One page of jobs, the number of all matching jobs, and the offset of the next page, if there is one."""

    jobs: list[SummaryOut]
    total: int
    next_offset: NotRequired[int]
    note: NotRequired[str]


class CancelOut(answers.WaitOut):
    """Whether the job is cancelled now."""

    cancelled: bool
    job_id: str
    error: NotRequired[str]


class ExecutionOut(TypedDict):
    """One execution; one that stands for several missed slots has their number, and the last of them."""

    id: int
    scheduled_for: str
    started_at: str | None
    finished_at: str | None
    status: str
    attempt: int
    error: str | None
    result: Any
    reason: str | None
    slots: NotRequired[int]
    last_slot: NotRequired[str]
    next_attempt_at: NotRequired[str]


class StatusOut(JobOut):
    """Everything about one job; run_count has all runs, scheduled_runs those that count towards max_runs."""

    standing: str
    trigger_type: str
    created_at: str
    last_run: str | None
    run_count: int
    scheduled_runs: int
    max_runs: int | None
    error: str | None
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    label: str | None
    tags: list[str]
    ends_at: str | None
    attempts: int
    backoff: str
    timeout: str
    overlap: str
    catch_up: str
    skips: list[str]
    made_by: str
    managed_by: str | None
    paused_until: str | None
    pause_reason: str | None
    executions: list[ExecutionOut]


def refused(error: Err, given: Mapping[str, Any]) -> ErrorOut:
    """Turn an error into the shape and the words of the job tools."""
    match error.code:
        case Code.NOT_FOUND:
            return {"error": f"Job not found: {_echo(given.get('job_id'))}"}
        case Code.QUOTA | Code.TOO_FAST:
            out: ErrorOut = {"error": f"Quota exceeded: {error.message}"}
            return answers.with_wait(out, error)
        case Code.INVALID | Code.TOO_FAR:
            return _invalid(error, given)
        case Code.NEVER_RUNS:
            return {"error": f"Invalid trigger_config: {answers.line(error.message, 300)}"}
        case _:
            return {"error": error.message}


def refused_cancel(error: Err, given: Mapping[str, Any]) -> CancelOut:
    """Turn an error into the shape of cancel_job, where an unknown id is not an error."""
    out: CancelOut = {"cancelled": False, "job_id": _echo(given.get("job_id"))}
    if error.code == Code.NOT_FOUND:
        return out
    out["error"] = refused(error, given)["error"]
    return answers.with_wait(out, error)


def job_out(job: Job) -> JobOut:
    """Return a job as the tools that create and change jobs show it."""
    return {
        "job_id": job.public_id,
        "name": answers.line(job.name, 200),
        "next_run": answers.iso_or_none(shown_next_run(job), job.timezone),
        "status": Job.Status.PENDING.value if waits_for_agent(job, clock.now()) else job.state,
        **answers.schedule_of(job, clock.now()),
    }


def status_out(job: Any) -> StatusOut:
    """Return everything about a job, which must be read with its activity and rank, and its last executions."""
    rows = list(Execution.objects.filter(job=job).values_list(*EXECUTION_COLUMNS, named=True)[:EXECUTIONS])
    # The job's own columns are written when a run ends, but a run that waits for a retry has failed already.
    retried = next((row for row in rows if row.status == Execution.Status.QUEUED and row.attempt), None)
    last_run_at = retried.started_at if retried and retried.started_at else job.last_run_at
    error = retried.error if retried and retried.error else job.last_error
    args, kwargs = shown_arguments(job)
    return {
        **job_out(job),
        "standing": ORDER[job.rank],
        "trigger_type": job.trigger_type,
        "created_at": answers.iso(job.created_at, job.timezone),
        "last_run": answers.iso_or_none(last_run_at, job.timezone),
        "run_count": job.run_count,
        "scheduled_runs": job.slot_count,
        "max_runs": job.max_runs,
        "error": answers.readable(error) or None,
        "task": job.task,
        "args": answers.readable(args),
        "kwargs": answers.readable(kwargs),
        "label": answers.readable(job.label) or None,
        "tags": answers.readable(job.tags),
        "ends_at": answers.iso_or_none(job.ends_at, job.timezone),
        "attempts": job.attempts,
        "backoff": durations.typed(job.backoff),
        "timeout": durations.typed(job.timeout),
        "overlap": job.overlap,
        "catch_up": job.catch_up,
        "skips": answers.skips_of(job),
        "made_by": job.made_by,
        # What is changed elsewhere lasts until the file is applied again.
        "managed_by": answers.line(source_note(job), 250) or None,
        "paused_until": answers.iso_or_none(job.paused_until, job.timezone),
        "pause_reason": answers.readable(job.pause_reason) or None,
        "executions": [execution_out(row, job.timezone) for row in rows],
    }


SUMMARY_COLUMNS = (
    "pk",
    "public_id",
    "name",
    "status",
    "trigger_type",
    "timezone",
    "next_run_at",
    "run_count",
    "last_run_at",
    "failure_streak",
    "pause_after_failures",
    "has_unreadable_schedule",
    "task",
    "recent",
    "short_error",
    "label",
    "tag_text",
    "skips",
)


def summary_rows(jobs: JobQuerySet, **more: Subquery) -> Any:
    """Read jobs as rows of SUMMARY_COLUMNS and more values."""
    # The start of the error, because a whole one may be long. The tags as text, because most jobs have none, and an
    # empty list is decoded more slowly than compared.
    texts = {"short_error": Left("last_error", ERROR_LENGTH), "tag_text": Cast("tags", TextField())}
    return jobs.annotate(**texts, **more).values_list(*SUMMARY_COLUMNS, *more, named=True)


def jobs_out(shown: list[SummaryOut], total: int, start: int, cut: Sequence[str]) -> JobsOut:
    """Return one page; `cut` says what a filter did not look through."""
    out: JobsOut = {"jobs": shown, "total": min(total, COUNTED)}
    if shown and start + len(shown) < total:
        out["next_offset"] = start + len(shown)
    notes = [answers.more_than(COUNTED, "jobs"), *cut] if total > COUNTED else cut
    if notes:
        out["note"] = " ".join(notes)
    return out


def summary_out(
    job: Any, standing: Standing, unclaimed: Collection[int], matches: Runs | None = None
) -> SummaryOut:
    """Return a row of SUMMARY_COLUMNS; `unclaimed` are the jobs whose prompt no agent has claimed."""
    state = state_of(job.status, standing.is_running)
    out: SummaryOut = {
        "job_id": job.public_id,
        "name": answers.line(job.name, 200),
        "status": Job.Status.PENDING.value if job.pk in unclaimed else state,
        "standing": standing.name,
        "trigger_type": job.trigger_type,
        "next_run": answers.iso_or_none(shown_next_run(job), job.timezone),
        "run_count": job.run_count,
        "last_run": answers.iso_or_none(job.last_run_at, job.timezone),
        "task": job.task,
        "outcome": OUTCOMES.get(job.recent[-1:]),
        "error": answers.line(job.short_error, ERROR_LENGTH) or None,
        "label": answers.line(job.label, 200) or None,
        "tags": [] if job.tag_text == "[]" else answers.readable(json.loads(job.tag_text)),
    }
    if matches:
        out["matching_runs"] = matches.count
        out["last_match"] = answers.iso(matches.last, job.timezone)
    return out


EXECUTION_COLUMNS = (
    "pk",
    "scheduled_for",
    "started_at",
    "finished_at",
    "status",
    "attempt",
    "error",
    "result",
    "reason",
    "slots",
    "last_slot",
    "available_at",
)


def execution_out(row: Any, timezone: str) -> ExecutionOut:
    """Return an execution, of which only EXECUTION_COLUMNS are needed."""
    out: ExecutionOut = {
        "id": row.pk,
        "scheduled_for": answers.iso(row.scheduled_for, timezone),
        "started_at": answers.iso_or_none(row.started_at, timezone, "milliseconds"),
        "finished_at": answers.iso_or_none(row.finished_at, timezone, "milliseconds"),
        "status": row.status,
        "attempt": row.attempt,
        "error": limits.strip_unprintable(row.error) or None,
        "result": answers.readable(row.result),
        "reason": row.reason or None,
    }
    if row.slots > 1:
        out |= {"slots": row.slots, "last_slot": answers.iso(row.last_slot, timezone)}
    if row.attempt and row.available_at:
        out["next_attempt_at"] = answers.iso(row.available_at, timezone)
    return out


def _invalid(error: Err, given: Mapping[str, Any]) -> ErrorOut:
    name, why = answers.first_problem(error)
    match name:
        case "task":
            return {
                "error": f"Unknown task: {_echo(given.get('task'))}",
                "available_tasks": given.get("tasks") or registry.names(),
            }
        case "trigger_type":
            return {"error": f"Unknown trigger type: {_echo(given.get('trigger_type'))}"}
        case "cron":
            expression = given.get("trigger_config", {}).get("expression", "")
            return {"error": f"Invalid cron expression: {_echo(expression)}", "hint": why}
        case "timezone":
            return {
                "error": f"Unknown timezone: {_echo(given.get('timezone'))}",
                "hint": answers.line(why, 300),
            }
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
