"""Answers of the prompt tools; most are sentences, as their contract requires."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired

from typing_extensions import TypedDict

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.answers import refusals
from schedules.models import Execution, Job
from schedules.models.job_table import Argument
from schedules.models.jobs import JobQuerySet, argument_of
from schedules.result import Code, Err, Kind
from schedules.services.jobs.forecasts import shown_next_run, words_by_key
from schedules.when.durations import HORIZON_IN_WORDS
from schedules.when.unplanned import UNKNOWN_START


class PromptOut(TypedDict):
    """A prompt that is reserved for the caller until the lease ends."""

    execution_id: int
    job_id: str | None
    prompt: str
    scheduled_for: str
    lease_until: str


class ClaimOut(refusals.WaitOut):
    """The claimed prompts; empty if none is waiting."""

    prompts: list[PromptOut]
    error: NotRequired[str]


class CompleteOut(refusals.WaitOut):
    """Whether the completion was accepted."""

    completed: bool
    execution_id: int
    status: NotRequired[str]
    error: NotRequired[str]


def refusal_of(error: Err, request: Mapping[str, Any]) -> str:
    """Turn an error into the answer of a prompt tool."""
    if error.kind in (Kind.QUOTA, Kind.TOO_FAST):
        return f"Error: quota exceeded: {refusals.message_of(error)}."
    name, why = refusals.first_problem(error)
    at = answers.line(str(request.get("at")), 100)
    if error.code == Code.TOO_FAR:
        return f'Error: "{at}" is too far ahead: at most {HORIZON_IN_WORDS} ahead.'
    match name:
        case "at":
            hint = f"\nhint: {error.hint}" if error.hint else ""
            return f'Error: could not parse "{at}" as a date/time.{hint}'
        case "run_at":
            now = answers.local(clock.now(), request.get("timezone") or "UTC")
            return f'Error: "{at}" is in the past (now {now}).'
        case "timezone":
            zone = answers.line(str(request.get("timezone")), 100)
            return f'Error: unknown timezone "{zone}".\nhint: {answers.line(why, 300)}'
        case "args" | "kwargs" | "name":
            why = why.removeprefix("invalid arguments for task prompt: ").removeprefix("prompt: ")
            return f"Error: invalid prompt: {answers.line(why, 300)}."
        case _:
            return f"Error: {answers.line(f'{name}: {why}' if name else why, 300)}."


def claim_refusal_of(error: Err, request: Mapping[str, Any]) -> ClaimOut:
    out: ClaimOut = {"prompts": [], "error": refusals.message_of(error)}
    return refusals.with_wait(out, error)


def completion_refusal_of(error: Err, request: Mapping[str, Any]) -> CompleteOut:
    out: CompleteOut = {
        "completed": False,
        "execution_id": request["execution_id"],
        "error": refusals.message_of(error),
    }
    return refusals.with_wait(out, error)


def prompt_text(job: Any) -> str:
    """Return the prompt of a job or of a row, whether it is a keyword or a positional argument."""
    return str(argument_of(job, "prompt") or "")


def scheduled_text(made: services.Scheduled, *notes: str) -> str:
    job = made.job
    answer = (
        f'Scheduled task #{job.pk} for {answers.describe_time(job)}: "{answers.line(prompt_text(job), 80)}"'
    )
    advice = answers.advice_on(made, *notes)
    if "existing" in advice:
        answer += "\nexisting: true (this idempotency_key made it before)"
    if "warning" in advice:
        answer += f"\nwarning: {advice['warning']}"
    return answer


def edited_text(job: Job, at: str | None, prompt: str | None) -> str:
    parts = []
    if at is not None and job.run_at is not None:
        parts.append(f"time → {answers.local(job.run_at, job.timezone)}")
    if prompt is not None:
        parts.append(f'prompt → "{answers.line(prompt_text(job), 80)}"')
    note = answers.confirmation_note(job)
    return f"Updated task #{job.pk}: {', '.join(parts)}" + (f"\nwarning: {note}" if note else "")


def line_rows(tasks: JobQuerySet) -> Any:
    """Read tasks as the rows that `task_lines` needs; they must be annotated with `fire_at`."""
    texts = tasks.annotate(prompt=Argument("prompt", 0))
    columns = ("pk", "public_id", "fire_at", "next_run_at", "skips", "closed_by", "on_closed", "timezone")
    return texts.values_list(*columns, "prompt", named=True)


def task_lines(rows: Sequence[Any], state: str) -> list[str]:
    """Describe tasks, one per line; one that does not fire is described by its schedule."""
    unplanned = [row.pk for row in rows if row.fire_at in (None, UNKNOWN_START)]
    descriptions = words_by_key(unplanned)
    return [
        f"#{row.pk}  {answers.local(moment, row.timezone) if moment else descriptions.get(row.pk, '')}"
        f"  [{state}]  {answers.line(str(row.prompt or ''), 60)}"
        for row in rows
        for moment in [_unskipped_time(row)]
    ]


def _unskipped_time(row: Any) -> datetime | None:
    """Return when a task fires or fired, without runs that it skips."""
    moment: datetime | None = row.fire_at
    if moment == UNKNOWN_START:
        return None
    may_be_skipped = (row.skips or row.closed_by) and moment == row.next_run_at
    return shown_next_run(row) if may_be_skipped else moment


def not_editable_text(reference: str, job: Job | None, verb: str) -> str:
    """Refuse a task that is not pending or not found; `reference` is how the caller named it."""
    shown = answers.line(reference, 100)
    number = str(job.pk) if job else shown.removeprefix("#")
    task = f"#{number}" if number.lstrip("-").isdecimal() else f'"{shown}"'
    answer = f"Task {task} not found or not editable (only pending tasks can be {verb})."
    if job is None and (hint := refusals.did_you_mean(reference, "prompt")):
        answer += f"\nhint: {hint}"
    if verb == "edited" and job and job.waits_to_start(clock.now()):
        answer += " It is due and waits for an agent: cancel it and schedule it anew."
    return answer


def prompt_out(row: Execution, zone: str) -> PromptOut:
    assert row.lease_until is not None
    return {
        "execution_id": row.pk,
        "job_id": row.job.public_id if row.job else None,
        "prompt": answers.readable(str(row.argument("prompt") or "")),
        "scheduled_for": answers.iso(row.scheduled_for, zone),
        "lease_until": answers.iso(row.lease_until, zone),
    }
