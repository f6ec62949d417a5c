"""Format jobs and runs as rows of a table, and results as text."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from schedules import limits
from schedules.agents.definitions import dollars
from schedules.models import AgentRun, Execution, Job
from schedules.services.documents import (
    OUTCOMES,
    agent_json,
    iso_in,
    job_json,
    next_run_of,
    ping_url_of,
    run_json,
    settings_of,
)
from schedules.services.jobs.forecasts import words_of
from schedules.templatetags.cronty_times import relative
from schedules.when import durations
from schedules.when.zones import local

__all__ = ["agent_json", "iso_in", "job_json", "ping_url_of", "run_json", "settings_of"]

JOB_COLUMNS = ("#", "name", "schedule", "next", "last", "status")
MAX_DENIALS = 20
RUN_COLUMNS = ("#", "at", "status", "took", "what")


def clock_text(moment: datetime | None, zone: str) -> str:
    """Format a moment for a table: "Mon 2026-11-16 08:30", with seconds only if there are any."""
    if moment is None:
        return ""
    shown = local(moment, zone)
    return f"{shown:%a %Y-%m-%d %H:%M:%S}" if shown.second else f"{shown:%a %Y-%m-%d %H:%M}"


def distance(moment: datetime | None, now: datetime) -> str:
    return relative(moment, now) if moment else ""


def job_row(job: Job, now: datetime) -> Sequence[Any]:
    """Return the cells of JOB_COLUMNS."""
    outcome = OUTCOMES.get(job.recent[-1:], "")
    last = f"{outcome} {distance(job.last_run_at, now)}" if job.last_run_at else ""
    status = "deleted" if job.deleted_at else job.state
    return job.pk, job.name, words_of(job), distance(next_run_of(job), now), last.strip(), status


def next_run_note(job: Job) -> str:
    """Return the next run of a job, to append to a message about it, or an empty text."""
    next_run = next_run_of(job)
    return f", next run {clock_text(next_run, job.timezone)}" if next_run else ""


def skipped(text: str, zone: str) -> str:
    """Format a skipped run as a time in the zone of its job; a skipped day stays as it is."""
    return clock_text(datetime.fromisoformat(text), zone) if "T" in text else text


def run_row(run: Execution, zone: str, *, with_job: bool = False) -> Sequence[Any]:
    """Return the cells of RUN_COLUMNS; with `with_job`, the last one begins with the name of the job."""
    text = run.error or run.reason or limits.shortened(result_text(run.result), 200)
    what = f"{run.job_name}: {text}".removesuffix(": ") if with_job else text
    took = durations.short(run.took) if run.took else ""
    return run.pk, clock_text(run.scheduled_for, zone), run.status, took, what


def result_text(result: Any) -> str:
    """Return a text result as it is, the output of a command, and anything else as JSON."""
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


def agent_lines(agent: AgentRun) -> list[str]:
    """Return how an agent's run ended, what it used, and the calls that it was not permitted to make."""
    facts = [
        f"{agent.get_verdict_display() or 'No verdict'}, by runner {agent.runner}",
        f"{agent.turns:,} {'turn' if agent.turns == 1 else 'turns'}",
        f"{agent.tokens_in:,} tokens read, {agent.tokens_out:,} written" if agent.tokens else "",
        "" if agent.cost is None else dollars(float(agent.cost)),
    ]
    denials = [f"Not permitted: {use['name']} {use['input']}".rstrip() for use in agent.denials[:MAX_DENIALS]]
    return [f"{', '.join(filter(None, facts))}.", *denials]


def _is_of_command(result: Any) -> bool:
    keys = {"exit_code", "signal", "cpu_seconds", "peak_memory_bytes", "output"}
    return isinstance(result, dict) and keys <= set(result)
