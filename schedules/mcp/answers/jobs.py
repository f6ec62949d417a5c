"""Answers of the job tools about one job."""

import json
from datetime import timedelta
from typing import Any, NotRequired

from django.db.models import Subquery, TextField
from django.db.models.functions import Cast, Left
from typing_extensions import TypedDict

from schedules import limits
from schedules.mcp import answers
from schedules.models import Execution, Job
from schedules.models.counting import COUNTED
from schedules.models.executions import OUTCOME_LETTERS
from schedules.models.jobs import JobQuerySet, state_of
from schedules.models.standings import ORDER
from schedules.models.triggers import CalendarUnit, TriggerType
from schedules.services.files.sources import source_note
from schedules.services.job_list import JobPage
from schedules.services.jobs.addresses import ping_address_of
from schedules.services.jobs.forecasts import shown_next_run
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.people.incidents import open_incidents_of_job
from schedules.services.run_list import newest_rows
from schedules.services.runs.question_words import reminder_words
from schedules.tasks.builtin import WEBHOOK_METHOD
from schedules.when import durations

EXECUTIONS_SHOWN = 10


class ScheduledOut(answers.JobOut, answers.AdviceOut):
    """The new job."""


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


class StatusOut(answers.JobOut):
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
    ping_url: NotRequired[str]
    reminder: NotRequired[str]
    deleted: NotRequired[str]


def status_out(job: Any) -> StatusOut:
    """Return everything about a job, which must be annotated with its activity and rank, and its last executions."""
    rows = newest_rows(job, EXECUTION_COLUMNS, EXECUTIONS_SHOWN)
    # The job's own columns are written when a run ends, but a run that waits for a retry has already failed.
    retried = next((row for row in rows if row.status == Execution.Status.QUEUED and row.attempt), None)
    last_run_at = retried.started_at if retried and retried.started_at else job.last_run_at
    error = retried.error if retried and retried.error else job.last_error
    args, kwargs = shown_arguments(job)
    now_out = answers.job_out(job)
    if job.deleted_at:
        # Nothing fires any more; the columns are only for restoring it.
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
        # Changes made elsewhere last only until the file is applied again.
        "managed_by": answers.line(source_note(job), 250) or None,
        "paused_until": answers.iso_or_none(job.paused_until, job.timezone),
        "pause_reason": answers.readable(job.pause_reason) or None,
        "executions": [execution_out(row, job.timezone) for row in rows],
        # Most webhooks use the default.
        "method": str(job.argument("method") or WEBHOOK_METHOD) if job.task == "webhook" else None,
        **_ping_url_out(job),
        **reminder_out(job, with_incidents=True),
        **answers.deleted_out(job),
        **calendars_out(job),
    }


class PingUrlOut(TypedDict):
    """Where the pings of a heartbeat go."""

    ping_url: NotRequired[str]


def _ping_url_out(job: Job) -> PingUrlOut:
    address = ping_address_of(job)
    return {"ping_url": address.url} if address else {}


class CalendarsOut(TypedDict):
    """The calendars of a job that has some, as `update_job` takes them."""

    calendars: NotRequired[list[str]]


def calendars_out(job: Job) -> CalendarsOut:
    moved = [] if job.on_closed == Job.OnClosed.SKIP else [job.on_closed]
    return {"calendars": answers.readable([*job.calendars, *moved])} if job.calendars else {}


class ReminderOut(TypedDict):
    """What became of the last message that asked for an answer."""

    reminder: NotRequired[str]


def reminder_out(job: Job, *, with_incidents: bool = False) -> ReminderOut:
    """Return what became of the last question, and perhaps the open incidents with the alerts about them."""
    sentences = [reminder_words(job), open_incidents_of_job(job) if with_incidents else ""]
    reminder = " ".join(filter(None, sentences))
    return {"reminder": answers.line(reminder, 600)} if reminder else {}


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


# Units of elapsed time; days and weeks with a start would step on the wall clock.
_UNITS = {"hours": timedelta(hours=1), "minutes": timedelta(minutes=1), "seconds": timedelta(seconds=1)}


def trigger_config_of(job: Any) -> dict[str, Any]:
    """Return the trigger_config that makes the schedule of a job, or of a row with its columns, again."""
    config = _undelayed_config_of(job)
    return {**config, "spread": durations.typed(job.spread)} if job.spread else config


def _undelayed_config_of(job: Any) -> dict[str, Any]:
    match job.trigger_type:
        case TriggerType.ONCE:
            return {"run_at": answers.iso(job.run_at, job.timezone, "auto")}
        case TriggerType.CRON:
            return {"expression": job.cron}
    start = {"start": answers.iso(job.anchor_at, job.timezone, "auto")} if job.anchor_at else {}
    if job.calendar_unit:
        count = job.every // CalendarUnit(job.calendar_unit).length
        if job.calendar_unit == CalendarUnit.DAYS and count % 7 == 0:
            return {"weeks": count // 7, **start}
        return {job.calendar_unit: count, **start}
    for unit, length in _UNITS.items():
        if not job.every % length:
            return {unit: job.every // length, **start}
    return {"seconds": job.every.total_seconds(), **start}


OUTCOMES = {letter: outcome for outcome, letter in OUTCOME_LETTERS.items()}
ERROR_LENGTH = 200
SUMMARY_COLUMNS = (
    "pk",
    "public_id",
    "name",
    "status",
    *Job.SLOT_FIELDS,
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
)


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


def summary_rows(jobs: JobQuerySet, **annotations: Subquery) -> Any:
    """Read jobs as rows of SUMMARY_COLUMNS and these annotations."""
    # Only the start of the error, which may be long. Tags as text: most jobs have none, and comparing with "[]" is
    # faster than decoding it.
    texts = {"short_error": Left("last_error", ERROR_LENGTH), "tag_text": Cast("tags", TextField())}
    return jobs.annotate(**texts, **annotations).values_list(*SUMMARY_COLUMNS, *annotations, named=True)


def jobs_out(page: JobPage) -> JobsOut:
    """Return one page of `summary_rows`, with a note about what was not searched."""
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
    """Return one job from a row of SUMMARY_COLUMNS."""
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
