"""JSON documents of jobs, runs, events and settings, for the API and `cronty --json`; secrets are masked."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from schedules.models import (
    AgentRun,
    Approval,
    Execution,
    Job,
)
from schedules.models.executions import OUTCOME_LETTERS
from schedules.secrets import masking
from schedules.services.files.plans import Plan, notes_of_step
from schedules.services.files.sources import source_note
from schedules.services.jobs.addresses import ping_address_of, trigger_of_job
from schedules.services.jobs.chains import chain_of
from schedules.services.jobs.forecasts import preview_of, shown_next_run, whole_words_of, words_of
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.people.incidents import open_incidents_of_job
from schedules.services.permissions import Actor
from schedules.services.run_list import newest_runs
from schedules.services.runs.approvals import state_words
from schedules.services.runs.explanations import Why, explain
from schedules.services.runs.question_words import describe_question, last_reminder
from schedules.spec.job import JobSpec
from schedules.when import durations
from schedules.when.zones import local, short_words

# What lists of jobs show already.
_IN_LISTS = ("timezone", "label", "tags")
RUNS_SHOWN = 5
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
    """Return the policies of a job, its end, and the days and runs that it skips."""
    values = {name: getattr(job, name) for name in JobSpec.of_columns() if name not in _IN_LISTS}
    return {name: _shown(value, job.timezone) for name, value in values.items()} | {
        "skips": job.skips.split()
    }


def _shown(value: Any, zone: str) -> Any:
    if isinstance(value, timedelta):
        return durations.typed(value)
    return iso_in(value, zone) if isinstance(value, datetime) else value


def reminder_json(job: Job) -> dict[str, Any]:
    """Return the state of the last reminder of a job, in words and for programs; both are None without one."""
    question, zone = last_reminder(job), job.timezone
    if question is None:
        return {"reminder": None, "reminder_state": None}
    return {
        "reminder": describe_question(question, job),
        "reminder_state": {
            "run": question.pk,
            "status": question.status,
            "asked_at": iso_in(question.asked_at, zone),
            "reminders": question.reminders,
            "next_at": None if job.status == Job.Status.PAUSED else iso_in(question.due_at, zone),
            "answered_at": iso_in(question.answered_at, zone),
            "answered_by": question.answered_by or None,
        },
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


def agent_json(agent: AgentRun | None) -> dict[str, Any] | None:
    """Return what the agent of a run did, as its page shows it; None for runs without a runner."""
    if agent is None:
        return None
    return {
        "runner": agent.runner,
        "kind": agent.kind,
        "attempt": agent.attempt,
        "verdict": agent.verdict or None,
        "why": agent.words or agent.cap or None,
        "turns": agent.turns,
        "tokens_in": agent.tokens_in,
        "tokens_out": agent.tokens_out,
        "money": None if agent.cost is None else float(agent.cost),
        "tool_calls": agent.tool_calls,
        "denials": [{"tool": use["name"], "input": use["input"]} for use in agent.denials],
    }


def approval_json(approval: Approval) -> dict[str, Any]:
    zone = approval.job.timezone if approval.job else "UTC"
    return {
        "id": approval.pk,
        "run": approval.execution_id,
        "job": approval.execution.job_name,
        "job_id": approval.job.public_id if approval.job else "",
        "kind": "question" if approval.is_question else "call",
        "status": approval.status,
        "state": state_words(approval),
        "summary": approval.call_summary,
        "runner": approval.runner,
        "tool": approval.tool,
        "arguments": {} if approval.is_question else dict(approval.shown_arguments),
        "folder": approval.folder,
        "question": approval.question,
        "choices": approval.choices,
        "why": approval.why,
        "grant": approval.grant,
        "digest": approval.digest,
        "asked_at": iso_in(approval.asked_at, zone),
        "expires_at": iso_in(approval.expires_at, zone),
        "expires_in_words": short_words(approval.expires_at, zone),
    }


def listed_job(job: Job) -> dict[str, Any]:
    """Return a job for a list, with its revision."""
    return job_json(job) | {"revision": job.revision, "deleted_at": iso_in(job.deleted_at, job.timezone)}


def whole_job(job: Job, now: datetime) -> dict[str, Any]:
    """Return everything about a job except its runs."""
    ahead = preview_of(job, now)
    return {
        **listed_job(job),
        **settings_of(job),
        "managed_by": source_note(job) or None,
        "description": whole_words_of(job),
        "waits_for": ahead.waits_for or None,
        "next_runs": [iso_in(run, job.timezone) for run in ahead.next_runs],
        "warnings": ahead.warnings,
        **reminder_json(job),
        "ping_url": ping_url_of(job),
    }


def shown_job(actor: Actor, job: Job, now: datetime) -> dict[str, Any]:
    """Return everything about a job, with its neighbours, its trigger address, its alert and its last runs."""
    chain = chain_of(actor, job, now)
    return whole_job(job, now) | {
        "trigger_address": trigger_address_json(job),
        "runs_after": _named(chain.upstream) if chain.upstream else None,
        "followers": [
            _named(link.job) | {"number": link.job.pk, "schedule": link.words} for link in chain.followers
        ],
        "alert": open_incidents_of_job(job) or None,
        "runs": [masked_run(run, job.timezone) for run in newest_runs(job, RUNS_SHOWN, with_results=True)],
    }


def trigger_address_json(job: Job) -> dict[str, Any] | None:
    """Return a trigger address without its key, which is not stored."""
    address = trigger_of_job(job)
    if address is None:
        return None
    return {
        "scheme": address.scheme,
        "opened_at": iso_in(address.created_at, job.timezone),
        "rotated_at": iso_in(address.rotated_at, job.timezone),
    }


def named_jobs(jobs: Iterable[Any]) -> list[dict[str, Any]]:
    return [_named(job) for job in jobs]


def _named(job: Any) -> dict[str, Any]:
    return {"id": job.public_id, "name": job.name}


def ping_url_of(job: Job) -> str | None:
    """Return the ping address of a heartbeat; None for any other job."""
    address = ping_address_of(job)
    return address.url if address else None


def masked_run(run: Execution, zone: str) -> dict[str, Any]:
    """Return a run with the id of its job; secrets in its result are masked."""
    job_id = run.job.public_id if run.job else None
    return run_json(run, zone) | {"job_id": job_id, "task": run.task, "result": masking.masked(run.result)}


def why_json(why: Why) -> dict[str, Any]:
    zone = why.job.timezone
    return {
        "id": why.job.public_id,
        "timezone": zone,
        "at": iso_in(why.at, zone),
        "verdict": why.verdict,
        "explanation": why.explanation,
        "detail": why.detail or None,
        "run": masked_run(why.execution, zone) if why.execution else None,
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
                "notes": notes_of_step(step),
                "adopted": step.is_adopted,
                "restored": step.is_restored,
                "warnings": list(step.warnings),
            }
            for step in plan.steps
        ],
    }
