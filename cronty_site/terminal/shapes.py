"""Jobs and runs as rows of a table and as JSON."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from schedules import limits
from schedules.models import Execution, Job
from schedules.models.executions import OUTCOME_LETTERS
from schedules.services.jobs.forecasts import policies_of, shown_next_run, words_of
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.runs.explanations import explain
from schedules.templatetags.cronty_times import local, relative
from schedules.when import durations

OUTCOMES = {letter: outcome for outcome, letter in OUTCOME_LETTERS.items()}
JOB_COLUMNS = ("#", "name", "schedule", "next", "last", "status")
RUN_COLUMNS = ("#", "at", "status", "took", "what")


def clock_text(moment: datetime | None, zone: str) -> str:
    """Format a moment for a table: "Mon 2026-11-16 08:30"; with its seconds if it has some."""
    if moment is None:
        return ""
    there = local(moment, zone)
    return f"{there:%a %Y-%m-%d %H:%M:%S}" if there.second else f"{there:%a %Y-%m-%d %H:%M}"


def distance(moment: datetime | None, now: datetime) -> str:
    return relative(moment, now) if moment else ""


def iso_in(moment: datetime | None, zone: str) -> str | None:
    return local(moment, zone).isoformat(timespec="seconds") if moment else None


def job_row(job: Job, now: datetime) -> Sequence[Any]:
    """Return the cells of JOB_COLUMNS."""
    outcome = OUTCOMES.get(job.recent[-1:], "")
    last = f"{outcome} {distance(job.last_run_at, now)}" if job.last_run_at else ""
    status = "deleted" if job.deleted_at else job.state
    return job.pk, job.name, words_of(job), distance(next_run_of(job), now), last.strip(), status


def next_run_of(job: Job) -> datetime | None:
    """Return when a job runs next; one in the trash does not run."""
    return None if job.deleted_at else shown_next_run(job)


def next_run_note(job: Job) -> str:
    """Return what follows the name of a changed job: when it runs next, if it does."""
    next_run = next_run_of(job)
    return f", next run {clock_text(next_run, job.timezone)}" if next_run else ""


def job_json(job: Job) -> dict[str, Any]:
    """Return a job for programs; secrets in its arguments are masked."""
    args, kwargs = shown_arguments(job)
    return {
        "id": job.public_id,
        "number": job.pk,
        "name": job.name,
        "status": job.state,
        "task": job.task,
        "args": args,
        "kwargs": kwargs,
        "schedule": words_of(job),
        "trigger_type": job.trigger_type,
        "timezone": job.timezone,
        "next_run": iso_in(next_run_of(job), job.timezone),
        "last_run": iso_in(job.last_run_at, job.timezone),
        "outcome": OUTCOMES.get(job.recent[-1:]),
        "run_count": job.run_count,
        "error": job.last_error or None,
        "paused_until": iso_in(job.paused_until, job.timezone),
        "pause_reason": job.pause_reason or None,
        "label": job.label or None,
        "tags": job.tags,
        "made_by": job.made_by,
        "source": job.source or None,
    }


def settings_of(job: Job) -> dict[str, Any]:
    """Return the policies of a job, and when it ends and what it leaves out."""
    return {
        **policies_of(job),
        "spread": durations.typed(job.spread),
        "max_runs": job.max_runs,
        "ends_at": iso_in(job.ends_at, job.timezone),
        "skips": job.skips.split(),
        "calendars": job.calendars,
        "on_closed": job.on_closed,
    }


def skipped(text: str, zone: str) -> str:
    """Return a skipped day as it is, and a skipped run as the time in the zone of its job."""
    return clock_text(datetime.fromisoformat(text), zone) if "T" in text else text


def run_row(run: Execution, zone: str, *, with_job: bool = False) -> Sequence[Any]:
    """Return the cells of RUN_COLUMNS; the last one has the job's name if asked for."""
    text = run.error or run.reason or limits.shortened(result_text(run.result), 200)
    what = f"{run.job_name}: {text}".removesuffix(": ") if with_job else text
    took = durations.short(run.took) if run.took else ""
    return run.pk, clock_text(run.scheduled_for, zone), run.status, took, what


def result_text(result: Any) -> str:
    """Return a result for people: text as it is, what a command printed, and anything else as JSON."""
    if result is None or isinstance(result, str):
        return result or ""
    if _is_of_command(result):
        return str(result["output"])
    return json.dumps(result, ensure_ascii=False)


def usage_text(result: Any) -> str:
    """Return how a command ended and what it used, or an empty text for other tasks."""
    if not _is_of_command(result):
        return ""
    end = f"signal {result['signal']}" if result["signal"] else f"exit code {result['exit_code']}"
    return f"{end}, {result['cpu_seconds']:g} s of CPU, {result['peak_memory_bytes'] / 1e6:,.0f} MB"


def _is_of_command(result: Any) -> bool:
    keys = {"exit_code", "signal", "cpu_seconds", "peak_memory_bytes", "output"}
    return isinstance(result, dict) and keys <= set(result)


def run_json(run: Execution, zone: str) -> dict[str, Any]:
    return {
        "run": run.pk,
        "job": run.job_name,
        "scheduled_for": iso_in(run.scheduled_for, zone),
        "cause": run.cause,
        "status": run.status,
        "attempt": run.attempt,
        "started_at": iso_in(run.started_at, zone),
        "finished_at": iso_in(run.finished_at, zone),
        "seconds": run.took.total_seconds() if run.took else None,
        "result": run.result,
        "error": run.error or None,
        "reason": run.reason or None,
        "explanation": explain(run, zone),
    }
