"""Answers with a list of jobs."""

import json
from typing import Any, NotRequired

from django.db.models import Subquery, TextField
from django.db.models.functions import Cast, Left
from typing_extensions import TypedDict

from schedules.mcp import answers
from schedules.mcp.answers.triggers import trigger_config_of
from schedules.models import Job
from schedules.models.counting import COUNTED
from schedules.models.executions import OUTCOME_LETTERS
from schedules.models.jobs import JobQuerySet, state_of
from schedules.services.job_list import JobPage
from schedules.services.jobs.forecasts import shown_next_run

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
