"""Refusals of the job tools: what is wrong, and what to do instead."""

from collections.abc import Mapping
from typing import Any, NotRequired

from schedules.mcp import answers
from schedules.mcp.answers import refusals
from schedules.mcp.messages import message_of
from schedules.models import Job
from schedules.result import Code, Err, Kind, sentence
from schedules.tasks import registry

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


class ErrorOut(refusals.WaitOut):
    """The reason for a refusal."""

    error: str
    hint: NotRequired[str]
    available_tasks: NotRequired[list[str]]


class CancelOut(refusals.WaitOut):
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
            if hint := refusals.did_you_mean(request.get("job_id")):
                out["hint"] = hint
            return out
        case Kind.QUOTA | Kind.TOO_FAST:
            out = {"error": f"Quota exceeded: {message_of(error)}"}
            return refusals.with_wait(out, error)
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
    return refusals.with_wait(out, error)


def _invalid(error: Err, request: Mapping[str, Any]) -> ErrorOut:
    name, why = refusals.first_problem(error)
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
            expression = request.get("trigger_config", {}).get("expression", "")
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
