"""Errors for arguments that are missing, unknown or of a wrong type: they name the argument and what to send instead."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import ValidationError

from schedules.mcp.tools.arguments import POLICIES

# Names that agents often send instead of these arguments; the first one that the tool takes is suggested.
_SYNONYMS = {
    **dict.fromkeys(("topic", "channel", "ntfy_topic"), "notification_topic"),
    **dict.fromkeys(("when", "date", "run_at", "datetime", "time", "at"), "datetime at time"),
    **dict.fromkeys(("cron_expression", "expression", "schedule", "cron"), "cron job_id"),
    **dict.fromkeys(("id", "job", "name", "schedule_id", "job_id"), "job_id schedule_id"),
    **dict.fromkeys(("zone", "tz", "time_zone"), "timezone"),
    **dict.fromkeys(("text", "body", "content", "msg"), "message prompt query"),
    **dict.fromkeys(("search", "q", "filter"), "query"),
    **dict.fromkeys(("retries", "retry", "max_attempts"), "attempts"),
    **dict.fromkeys(("end", "until", "end_date", "expires"), "ends_at until"),
    **dict.fromkeys(("count", "times", "repeat", "runs"), "max_runs"),
}
# The same for tools that take a trigger.
_TRIGGER_SYNONYMS = {
    **dict.fromkeys(
        ("when", "date", "run_at", "datetime", "time", "at"),
        'trigger_type "once" with trigger_config {"run_at": "tomorrow at 9:00"}',
    ),
    **dict.fromkeys(
        ("cron_expression", "expression", "schedule", "cron"),
        'trigger_type "cron" with trigger_config {"expression": "0 9 * * *"}',
    ),
}
# Arguments of jobs that no creating tool needs to take.
_SET_LATER = {*POLICIES, "fixed_backoff", "alerts", "label"}


def refused_arguments(tool: str, problems: str) -> CallToolResult:
    """Return the error for a call with these problems."""
    text = TextContent(type="text", text=f"Invalid arguments for {tool}: {problems}")
    return CallToolResult(content=[text], is_error=True)


def argument_problems(
    error: ValidationError, tool: str, accepted: Collection[str], offered: Collection[str]
) -> str:
    """Say what is wrong with the arguments of a call to a tool that accepts these, to a caller of these tools."""
    problems = [_argument_problem(detail, tool, accepted, offered) for detail in error.errors()[:10]]
    return "; ".join(problems)


def _argument_problem(detail: Any, tool: str, accepted: Collection[str], offered: Collection[str]) -> str:
    path = ".".join(map(str, detail["loc"])) or "arguments"
    match detail["type"]:
        case "extra_forbidden" if path in _SET_LATER and _creates_job(accepted) and "update_job" in offered:
            return f"unknown field {path}: {tool} has no {path}: call update_job with it afterwards"
        case "extra_forbidden":
            return f"unknown field {path[:70]}: {_suggestion(path.lower(), accepted)}"
        case "dict_type":
            example = '{"expression": "0 9 * * *"}' if "trigger_config" in path else "{}"
            return f"{path}: send an object, like {example}"
    return f"{path}: {detail['msg']}"


def _creates_job(accepted: Collection[str]) -> bool:
    """Return whether a tool that accepts these arguments creates a job."""
    return "idempotency_key" in accepted


def _suggestion(unknown: str, accepted: Collection[str]) -> str:
    """Say which argument to use instead of an unknown one."""
    if "trigger_config" in accepted and unknown in _TRIGGER_SYNONYMS:
        return f"use {_TRIGGER_SYNONYMS[unknown]}"
    synonyms = [name for name in _SYNONYMS.get(unknown, "").split() if name in accepted]
    if nearest := synonyms or get_close_matches(unknown, accepted, 1):
        return f"use {nearest[0]}"
    if "kwargs" in accepted:
        return "arguments of the task go into kwargs"
    return f"it takes {', '.join(accepted)}" if accepted else "it takes no arguments"
