"""Documents of jobs and runs as rows of a table, and moments and results as text."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from schedules import limits
from schedules.agents.definitions import dollars
from schedules.models import AgentRun
from schedules.templatetags.cronty_times import relative
from schedules.when import durations
from schedules.when.zones import local

Document = Mapping[str, Any]
JOB_COLUMNS = ("#", "name", "schedule", "next", "last", "status")
RUN_COLUMNS = ("#", "at", "status", "took", "what")
MAX_DENIALS = 20


def clock_text(moment: str | None, zone: str) -> str:
    """Format a moment for a table: "Mon 2026-11-16 08:30", with seconds only if there are any."""
    if not moment:
        return ""
    shown = local(datetime.fromisoformat(moment), zone)
    return f"{shown:%a %Y-%m-%d %H:%M:%S}" if shown.second else f"{shown:%a %Y-%m-%d %H:%M}"


def distance(moment: str | None, now: datetime) -> str:
    return relative(datetime.fromisoformat(moment), now) if moment else ""


def job_row(job: Document, now: datetime) -> Sequence[Any]:
    """Return the cells of JOB_COLUMNS."""
    last = f"{job['outcome'] or ''} {distance(job['last_run'], now)}" if job["last_run"] else ""
    status = "deleted" if job["deleted_at"] else job["status"]
    return (
        *(job["number"], job["name"], job["schedule"]),
        *(distance(job["next_run"], now), last.strip(), status),
    )


def next_run_note(job: Document) -> str:
    """Return the next run of a job, to append to a message about it, or an empty text."""
    return f", next run {clock_text(job['next_run'], job['timezone'])}" if job["next_run"] else ""


def skipped(text: str, zone: str) -> str:
    """Format a skipped run as a time in the zone of its job; a skipped day stays as it is."""
    return clock_text(text, zone) if "T" in text else text


def run_row(run: Document, zone: str, *, with_job: bool = False) -> Sequence[Any]:
    """Return the cells of RUN_COLUMNS; with `with_job`, the last one begins with the name of the job."""
    text = run["error"] or run["reason"] or limits.shortened(result_text(run["result"]), 200)
    what = f"{run['job']}: {text}".removesuffix(": ") if with_job else text
    took = durations.short(timedelta(seconds=run["seconds"])) if run["seconds"] else ""
    return run["run"], clock_text(run["scheduled_for"], zone), run["status"], took, what


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


def agent_lines(agent: Document) -> list[str]:
    """Return how an agent's run ended, what it used, and the calls that it was not permitted to make."""
    verdict = AgentRun.Verdict(agent["verdict"]).label if agent["verdict"] else "No verdict"
    has_tokens = agent["tokens_in"] or agent["tokens_out"]
    facts = [
        f"{verdict}, by runner {agent['runner']}",
        f"{agent['turns']:,} {'turn' if agent['turns'] == 1 else 'turns'}",
        f"{agent['tokens_in']:,} tokens read, {agent['tokens_out']:,} written" if has_tokens else "",
        "" if agent["money"] is None else dollars(agent["money"]),
    ]
    denials = [
        f"Not permitted: {use['tool']} {use['input']}".rstrip() for use in agent["denials"][:MAX_DENIALS]
    ]
    return [f"{', '.join(filter(None, facts))}.", *denials]


def _is_of_command(result: Any) -> bool:
    keys = {"exit_code", "signal", "cpu_seconds", "peak_memory_bytes", "output"}
    return isinstance(result, dict) and keys <= set(result)
