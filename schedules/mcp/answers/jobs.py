"""Answers of the job tools: how a job, a list of jobs and a refusal look to an agent."""

import json
from collections.abc import Mapping
from typing import Any, NotRequired

from django.db.models import Subquery, TextField
from django.db.models.functions import Cast, Left
from typing_extensions import TypedDict

from schedules import clock, limits
from schedules.mcp import answers
from schedules.mcp.answers.triggers import trigger_config_of
from schedules.mcp.messages import message_of
from schedules.models import Execution, Job
from schedules.models.counting import COUNTED
from schedules.models.executions import OUTCOME_LETTERS
from schedules.models.jobs import JobQuerySet, state_of
from schedules.models.standings import ORDER
from schedules.result import Code, Err, Kind
from schedules.services.files.sources import source_note
from schedules.services.job_list import JobPage
from schedules.services.jobs.forecasts import shown_next_run
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.run_list import newest_rows
from schedules.services.runs.question_words import reminder_words
from schedules.tasks import registry
from schedules.tasks.builtin import WEBHOOK_METHOD
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
    trigger_config: dict[str, Any]
    timezone: str
    next_run: str | None
    run_count: int
    last_run: str | None
    task: str
    outcome: str | None
    error: str | None
    label: str | None
    tags: list[str]
    skips: NotRequired[list[str]]
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
    hint: NotRequired[str]


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
    trigger_config: dict[str, Any]
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
    fixed_backoff: bool
    timeout: str
    overlap: str
    catch_up: str
    alerts: str
    skips: list[str]
    calendars: NotRequired[list[str]]
    made_by: str
    managed_by: str | None
    paused_until: str | None
    pause_reason: str | None
    executions: list[ExecutionOut]
    method: str | None
    reminder: NotRequired[str]
    deleted: NotRequired[str]


def refused(error: Err, given: Mapping[str, Any]) -> ErrorOut:
    """Turn an error into the shape and the words of the job tools."""
    match error.kind:
        case Kind.NOT_FOUND:
            out: ErrorOut = {"error": f"Job not found: {_echo(given.get('job_id'))}"}
            if hint := answers.near_miss(given.get("job_id")):
                out["hint"] = hint
            return out
        case Kind.QUOTA | Kind.TOO_FAST:
            out = {"error": f"Quota exceeded: {message_of(error)}"}
            return answers.with_wait(out, error)
        case Kind.INVALID if error.code == Code.NEVER_RUNS:
            return {"error": f"Invalid trigger_config: {answers.line(message_of(error), 300)}"}
        case Kind.INVALID:
            return _invalid(error, given)
        case Kind.WRONG_STATE if error.code in _WAYS_ON:
            return {"error": message_of(error), "hint": _WAYS_ON[error.code]}
        case _:
            return {"error": message_of(error)}


_ENDED = "It has ended: make a new one with schedule_job."
_WAYS_ON = {
    Code.JOB_ALREADY_COMPLETED: _ENDED,
    Code.JOB_ALREADY_FAILED: _ENDED,
    Code.JOB_ALREADY_CANCELLED: "restore_job brings it back.",
}


def refused_cancel(error: Err, given: Mapping[str, Any]) -> CancelOut:
    """Turn an error into the shape of cancel_job."""
    refusal = refused(error, given)
    out: CancelOut = {
        "cancelled": False,
        "job_id": _echo(given.get("job_id")),
        "error": refusal["error"],
    }
    if error.kind == Kind.NOT_FOUND and "hint" in refusal:
        out["hint"] = refusal["hint"]
    return answers.with_wait(out, error)


def job_out(job: Job) -> JobOut:
    """Return a job as the tools that create and change jobs show it."""
    return {
        "job_id": job.public_id,
        "name": answers.line(job.name, 200),
        "next_run": answers.iso_or_none(shown_next_run(job), job.timezone),
        "status": Job.Status.PENDING.value if job.waits_for_agent(clock.now()) else job.state,
        **answers.schedule_of(job, clock.now()),
    }


def status_out(job: Any) -> StatusOut:
    """Return everything about a job, which must be read with its activity and rank, and its last executions."""
    rows = newest_rows(job, EXECUTION_COLUMNS, EXECUTIONS)
    # The job's own columns are written when a run ends, but a run that waits for a retry has failed already.
    retried = next((row for row in rows if row.status == Execution.Status.QUEUED and row.attempt), None)
    last_run_at = retried.started_at if retried and retried.started_at else job.last_run_at
    error = retried.error if retried and retried.error else job.last_error
    args, kwargs = shown_arguments(job)
    now_out = job_out(job)
    if job.deleted_at:
        # Nothing fires any more; the columns are kept for restoring it.
        now_out |= {"status": Job.Status.CANCELLED.value, "next_run": None, "next_runs": []}
    return {
        **now_out,
        "standing": ORDER[job.rank],
        "trigger_type": job.trigger_type,
        "trigger_config": trigger_config_of(job),
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
        "fixed_backoff": job.fixed_backoff,
        "timeout": durations.typed(job.timeout),
        "overlap": job.overlap,
        "catch_up": job.catch_up,
        "alerts": job.alerts or "default",
        "skips": answers.skips_of(job),
        "made_by": job.made_by,
        # What is changed elsewhere lasts until the file is applied again.
        "managed_by": answers.line(source_note(job), 250) or None,
        "paused_until": answers.iso_or_none(job.paused_until, job.timezone),
        "pause_reason": answers.readable(job.pause_reason) or None,
        "executions": [execution_out(row, job.timezone) for row in rows],
        # Most webhooks leave it to the default.
        "method": str(job.argument("method") or WEBHOOK_METHOD) if job.task == "webhook" else None,
        **reminder_out(job),
        **deleted_out(job),
        **calendars_out(job),
    }


class CalendarsOut(TypedDict):
    """The calendars of a job that has some, as `update_job` takes them."""

    calendars: NotRequired[list[str]]


def calendars_out(job: Job) -> CalendarsOut:
    moved = [] if job.on_closed == Job.OnClosed.SKIP else [job.on_closed]
    return {"calendars": answers.readable([*job.calendars, *moved])} if job.calendars else {}


class ReminderOut(TypedDict):
    """What became of the last message that asked for an answer."""

    reminder: NotRequired[str]


def reminder_out(job: Job) -> ReminderOut:
    words = reminder_words(job)
    return {"reminder": answers.line(words, 400)} if words else {}


class DeletedOut(TypedDict):
    """When a job was deleted, and what brings it back."""

    deleted: NotRequired[str]


def deleted_out(job: Job) -> DeletedOut:
    if job.deleted_at is None:
        return {}
    return {
        "deleted": f"Deleted on {answers.local(job.deleted_at, job.timezone)}; restore_job brings it back."
    }


SUMMARY_COLUMNS = (
    "pk",
    "public_id",
    "name",
    "status",
    "trigger_type",
    "run_at",
    "every",
    "calendar_unit",
    "anchor_at",
    "cron",
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
    "closed_by",
    "on_closed",
)


def summary_rows(jobs: JobQuerySet, **more: Subquery) -> Any:
    """Read jobs as rows of SUMMARY_COLUMNS and more values."""
    # The start of the error, because a whole one may be long. The tags as text, because most jobs have none, and an
    # empty list is decoded more slowly than compared.
    texts = {"short_error": Left("last_error", ERROR_LENGTH), "tag_text": Cast("tags", TextField())}
    return jobs.annotate(**texts, **more).values_list(*SUMMARY_COLUMNS, *more, named=True)


def jobs_out(page: JobPage) -> JobsOut:
    """Return one page, which must have been read as `summary_rows`, and say what was not looked through."""
    shown = [summary_out(row, page) for row in page.rows]
    out: JobsOut = {"jobs": shown, "total": min(page.total, COUNTED)}
    if page.next_start is not None:
        out["next_offset"] = page.next_start
    notes = [answers.more_than(COUNTED, "jobs")] if page.total > COUNTED else []
    if page.are_jobs_cut:
        notes.append(f"Only the first {COUNTED:,} jobs were looked through: give a status to see others.")
    if page.are_runs_cut:
        notes.append(answers.OLDER_RUNS)
    if notes:
        out["note"] = " ".join(notes)
    return out


def summary_out(job: Any, page: JobPage) -> SummaryOut:
    """Return a row of SUMMARY_COLUMNS."""
    standing = page.standings[job.pk]
    state = state_of(job.status, standing.is_running)
    out: SummaryOut = {
        "job_id": job.public_id,
        "name": answers.line(job.name, 200),
        "status": Job.Status.PENDING.value if job.pk in page.unclaimed else state,
        "standing": standing.name,
        "trigger_type": job.trigger_type,
        "trigger_config": trigger_config_of(job),
        "timezone": job.timezone,
        "next_run": answers.iso_or_none(shown_next_run(job), job.timezone),
        "run_count": job.run_count,
        "last_run": answers.iso_or_none(job.last_run_at, job.timezone),
        "task": job.task,
        "outcome": OUTCOMES.get(job.recent[-1:]),
        "error": answers.line(job.short_error, ERROR_LENGTH) or None,
        "label": answers.line(job.label, 200) or None,
        "tags": [] if job.tag_text == "[]" else answers.readable(json.loads(job.tag_text)),
    }
    if job.skips:
        out["skips"] = answers.skips_of(job)
    if matches := page.matching.get(job.pk):
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
    if row.status == Execution.Status.QUEUED and row.attempt and row.available_at:
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
            named = _echo(given.get("trigger_type"))
            return {"error": f"Unknown trigger type: {named}", "hint": _instead_of(named)}
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
            return {
                "error": f"Unknown status: {_echo(given.get('status'))}",
                "hint": f"Choose one of: {', '.join(Job.Status.values)}.",
            }
        case "run_at" | "every" | "trigger_config" | "interval" | "once":
            return {"error": f"Invalid trigger_config: {answers.line(why, 300)}"}
        case _:
            return {"error": f"Invalid {name}: {answers.line(why, 300)}"}


# What people call a kind of schedule, with the interval and the cron expression that it would be.
_KINDS = {
    "minutely": ('{"minutes": 1}', "* * * * *"),
    "hourly": ('{"hours": 1}', "0 * * * *"),
    "daily": ('{"days": 1, "start": "2027-03-02T09:00"}', "0 9 * * *"),
    "weekly": ('{"weeks": 1, "start": "2027-03-02T09:00"}', "0 9 * * 2"),
    "monthly": ('{"months": 1, "start": "2027-03-02T09:00"}', "0 9 2 * *"),
    "yearly": ('{"months": 12, "start": "2027-03-02T09:00"}', "0 9 2 3 *"),
}


def _instead_of(kind: str) -> str:
    interval, cron = _KINDS.get(kind.lower(), _KINDS["weekly"])
    return (
        'Use once with trigger_config {"run_at": "tomorrow at 9:00"}, '
        f'interval with {interval}, or cron with {{"expression": "{cron}"}}.'
    )


def _echo(value: Any) -> str:
    return answers.line(str(value), 200)
