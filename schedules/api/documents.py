"""Jobs and runs as JSON, for the API and for `cronty --json`; secrets in them are masked."""

from datetime import datetime
from typing import Any

from schedules.models import Event, Execution, Job
from schedules.models.executions import OUTCOME_LETTERS
from schedules.secrets import masking
from schedules.services.activity import changes_of_event
from schedules.services.files.plans import Plan
from schedules.services.files.sources import source_note
from schedules.services.jobs.forecasts import policies_of, preview_of, shown_next_run, words_of
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.runs.explanations import Why, explain
from schedules.templatetags.cronty_times import local
from schedules.when import durations

OUTCOMES = {letter: outcome for outcome, letter in OUTCOME_LETTERS.items()}


def iso_in(moment: datetime | None, zone: str) -> str | None:
    return local(moment, zone).isoformat(timespec="seconds") if moment else None


def next_run_of(job: Job) -> datetime | None:
    """Return when a job runs next; one in the trash does not run."""
    return None if job.deleted_at else shown_next_run(job)


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
    }


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


def listed_job(job: Job) -> dict[str, Any]:
    """Return a job of a list, with the number that its edits increase."""
    return job_json(job) | {"revision": job.revision, "deleted_at": iso_in(job.deleted_at, job.timezone)}


def whole_job(job: Job, now: datetime) -> dict[str, Any]:
    """Return everything about a job but its runs."""
    ahead = preview_of(job, now)
    return {
        **listed_job(job),
        **settings_of(job),
        "managed_by": source_note(job) or None,
        "next_runs": [iso_in(run, job.timezone) for run in ahead.next_runs],
        "warnings": ahead.warnings,
    }


def masked_run(run: Execution, zone: str) -> dict[str, Any]:
    """Return a run with the id of its job; secrets in its result are masked."""
    job_id = run.job.public_id if run.job else None
    return run_json(run, zone) | {"job_id": job_id, "task": run.task, "result": masking.masked(run.result)}


def why_json(why: Why) -> dict[str, Any]:
    zone = why.job.timezone
    return {
        "id": why.job.public_id,
        "at": iso_in(why.at, zone),
        "verdict": why.verdict,
        "explanation": why.explanation,
        "detail": why.detail or None,
        "run": masked_run(why.execution, zone) if why.execution else None,
    }


def event_json(event: Event, zone: str) -> dict[str, Any]:
    """Return an event with its changes in words; the values that it keeps are masked already."""
    return {
        "id": event.pk,
        "at": iso_in(event.at, zone),
        "actor": event.actor,
        "door": event.door,
        "verb": event.verb,
        "job_id": event.job.public_id if event.job else None,
        "subject": event.subject,
        "undoes": event.undoes,
        "changes": [change.text for change in changes_of_event(event, zone)],
        "before": event.before,
        "after": event.after,
    }


def plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "source": plan.source,
        "unchanged": plan.unchanged,
        "left_out": plan.left_out,
        "unlisted": [job.source_key for job in plan.unlisted],
        "steps": [
            {
                "action": step.action.value,
                "key": step.key,
                "id": step.job.public_id,
                "changes": [
                    {"field": each.field, "before": each.before, "after": each.after}
                    for each in step.differences
                ],
                "adopted": step.is_adopted,
                "restored": step.is_restored,
            }
            for step in plan.steps
        ],
    }
