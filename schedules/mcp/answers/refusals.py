"""Refusals: the parts that all tool families share."""

import math
from collections.abc import Mapping
from typing import Any, NotRequired, TypeVar

from typing_extensions import TypedDict

from schedules.mcp import answers
from schedules.mcp.answers import line
from schedules.mcp.auth import current_actor
from schedules.models import Job
from schedules.result import Code, Err, Kind, RefusedError, Result, sentence
from schedules.services.jobs.references import similar_jobs
from schedules.tasks import registry

T = TypeVar("T")

# Refusals that name the tool that helps, or that the contract words differently.
_MESSAGES: Mapping[Code, str] = {
    Code.JOB_NOT_PAUSED: "Job already {0.state}: {0.subject}",
    Code.LAST_CALL_NOT_UNDOABLE: (
        "Your last call cannot be undone: {0.state} ({0.subject}). To undo an earlier one, call undo_change with its"
        " number as change: list_changes shows them."
    ),
    Code.STARTED_RUN_NOT_UNDOABLE: (
        "Your last call started a run of {0.subject!r}, and a run cannot be undone. To undo an earlier call, call"
        " undo_change with its number as change: list_changes shows them."
    ),
    Code.PROMPT_NOT_FOUND: "Prompt not found: {0.subject}. Take the execution_id from claim_prompts.",
}
DATABASE_AWAY = Err(Code.DATABASE_UNAVAILABLE)
_PERHAPS_DONE = (
    "The database did not answer, so this may or may not have been done: look before you repeat it"
)


def message_of(error: Err) -> str:
    """Explain to an agent why a service refused."""
    return _MESSAGES.get(error.code, error.code.text).format(error)


class RefusedCallError(RefusedError):
    """A refusal, with what its answer quotes besides the arguments of the call."""

    def __init__(self, error: Err, quoted: Mapping[str, Any]) -> None:
        super().__init__(error)
        self.quoted = quoted


def expect(result: Result[T], **quoted: Any) -> T:
    """Return the value of a result; raise RefusedCallError if it is a refusal."""
    if isinstance(result, Err):
        raise RefusedCallError(result, quoted)
    return result.value


def check(problem: Err | None, **quoted: Any) -> None:
    """Raise RefusedCallError if there is a problem."""
    if problem:
        raise RefusedCallError(problem, quoted)


class WaitOut(TypedDict):
    """The seconds after which to try again, if waiting helps."""

    retry_after: NotRequired[float]


Refusal = TypeVar("Refusal", bound=WaitOut)


def with_wait(out: Refusal, error: Err) -> Refusal:
    """Add the time to wait to a refusal, as a number."""
    if error.retry_after is not None:
        out["retry_after"] = math.ceil(error.retry_after * 10) / 10
    return out


def first_problem(error: Err) -> tuple[str, str]:
    """Return the first field that was refused, and the reason as the end of a sentence."""
    for name, messages in error.errors.items():
        why = " ".join(messages)
        return name, f"{why[:1].lower()}{why[1:]}".rstrip(".")
    return "", message_of(error).rstrip(".")


def did_you_mean(reference: object, task: str = "") -> str:
    """Suggest the jobs, or those of one task, whose name is most like a reference that matches none; empty if there are none."""
    actor = current_actor()
    if similar := similar_jobs(actor.jobs(), str(reference), task=task):
        suggestion = " or ".join(f'"{line(job.name, 200)}" ({job.public_id})' for job in similar)
        return f"No exact match. Did you mean {suggestion}?"
    if deleted := similar_jobs(actor.restorable(), str(reference), task=task, limit=1):
        suggestion = f'"{line(deleted[0].name, 200)}" ({deleted[0].public_id})'
        return f"No exact match. Did you mean {suggestion}, which was deleted? restore_job brings it back."
    return ""


def nothing_to_resume(error: Err, way_out: str) -> str:
    """Say that a job to resume has no run left, and what to do instead."""
    return f"{sentence(first_problem(error)[1])} {way_out}"


def perhaps_done(*, has_key: bool) -> str:
    """Say that a change may have been made; `has_key` is whether the tool takes an idempotency_key."""
    return f"{_PERHAPS_DONE}, or repeat it with the same idempotency_key" if has_key else _PERHAPS_DONE


_ENDED = "It has ended: make a new one with schedule_job."
_NEXT_STEPS = {
    Code.JOB_ALREADY_COMPLETED: _ENDED,
    Code.JOB_ALREADY_FAILED: _ENDED,
    Code.JOB_ALREADY_CANCELLED: "restore_job brings it back.",
}
# Kinds of schedules as people call them, with an interval and a cron expression for each.
_KINDS = {
    "minutely": ('{"minutes": 1}', "* * * * *"),
    "hourly": ('{"hours": 1}', "0 * * * *"),
    "daily": ('{"days": 1, "start": "2027-03-02T09:00"}', "0 9 * * *"),
    "weekly": ('{"weeks": 1, "start": "2027-03-02T09:00"}', "0 9 * * 2"),
    "monthly": ('{"months": 1, "start": "2027-03-02T09:00"}', "0 9 2 * *"),
    "yearly": ('{"months": 12, "start": "2027-03-02T09:00"}', "0 9 2 3 *"),
}


class ErrorOut(WaitOut):
    """The reason for a refusal."""

    error: str
    hint: NotRequired[str]
    available_tasks: NotRequired[list[str]]


class CancelOut(WaitOut):
    """Whether the job is cancelled now."""

    cancelled: bool
    job_id: str
    error: NotRequired[str]
    hint: NotRequired[str]


def refusal_of(error: Err, request: Mapping[str, Any]) -> ErrorOut:
    """Turn an error into the answer of a job tool."""
    match error.kind:
        case Kind.NOT_FOUND:
            out: ErrorOut = {"error": f"Job not found: {_echo(request.get('job_id'))}"}
            if hint := did_you_mean(request.get("job_id")):
                out["hint"] = hint
            return out
        case Kind.QUOTA | Kind.TOO_FAST:
            out = {"error": f"Quota exceeded: {message_of(error)}"}
            return with_wait(out, error)
        case Kind.INVALID if error.code == Code.NEVER_RUNS:
            return {"error": f"Invalid trigger_config: {answers.line(message_of(error), 300)}"}
        case Kind.INVALID:
            return _invalid(error, request)
        case Kind.WRONG_STATE if error.code in _NEXT_STEPS:
            return {"error": message_of(error), "hint": _NEXT_STEPS[error.code]}
        case _:
            return {"error": message_of(error)}


def cancel_refusal_of(error: Err, request: Mapping[str, Any]) -> CancelOut:
    """Turn an error into the answer of cancel_job."""
    refusal = refusal_of(error, request)
    out: CancelOut = {
        "cancelled": False,
        "job_id": _echo(request.get("job_id")),
        "error": refusal["error"],
    }
    if error.kind == Kind.NOT_FOUND and "hint" in refusal:
        out["hint"] = refusal["hint"]
    return with_wait(out, error)


def _invalid(error: Err, request: Mapping[str, Any]) -> ErrorOut:
    name, why = first_problem(error)
    match name:
        case "task":
            available = request.get("tasks") or registry.names()
            if request.get("task") in available:
                # The task is known: its runner, for one, may not be.
                return {"error": answers.line(sentence(why), 600)}
            return {"error": f"Unknown task: {_echo(request.get('task'))}", "available_tasks": available}
        case "trigger_type":
            kind = _echo(request.get("trigger_type"))
            return {"error": f"Unknown trigger type: {kind}", "hint": _trigger_hint(kind)}
        case "cron":
            expression = (request.get("trigger_config") or {}).get("expression", "")
            return {"error": f"Invalid cron expression: {_echo(expression)}", "hint": why}
        case "timezone":
            return {
                "error": f"Unknown timezone: {_echo(request.get('timezone'))}",
                "hint": answers.line(why, 300),
            }
        case "args" | "kwargs":
            why = why.removeprefix(f"invalid arguments for task {request.get('task')}: ")
            return {"error": f"Invalid arguments for task {_echo(request.get('task'))}: {why}"}
        case "max_runs":
            return {"error": f"Invalid max_runs: {_echo(request.get('max_runs'))}", "hint": why}
        case "status":
            return {
                "error": f"Unknown status: {_echo(request.get('status'))}",
                "hint": f"Choose one of: {', '.join(Job.Status.values)}.",
            }
        case "run_at" | "every" | "trigger_config" | "interval" | "once":
            return {"error": f"Invalid trigger_config: {answers.line(why, 300)}"}
        case _:
            return {"error": f"Invalid {name}: {answers.line(why, 300)}"}


def _trigger_hint(kind: str) -> str:
    interval, cron = _KINDS.get(kind.lower(), _KINDS["weekly"])
    return (
        'Use once with trigger_config {"run_at": "tomorrow at 9:00"}, '
        f'interval with {interval}, or cron with {{"expression": "{cron}"}}.'
    )


def _echo(value: Any) -> str:
    return answers.line(str(value), 200)
