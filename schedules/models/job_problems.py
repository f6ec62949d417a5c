"""Validation of the columns of a job: messages by column, as forms and tools show them."""

from datetime import timedelta
from typing import Any, Protocol

from django.conf import settings

from schedules import limits
from schedules.models.alert_rules import rules_problem
from schedules.models.triggers import TriggerType
from schedules.result import sentence
from schedules.tasks import registry
from schedules.tasks.grants import grants_problem
from schedules.when.spread import spread_problem
from schedules.when.triggers import Trigger, TriggerError, load_zone


class Columns(Protocol):
    """The columns of a job that are checked, and the trigger that they describe."""

    name: str
    task: str
    # Any value that a form or a tool has set.
    args: Any
    kwargs: Any
    tags: Any
    timeout: timedelta
    backoff: timedelta
    trigger_type: str
    timezone: str
    spread: timedelta
    alerts: str
    grants: Any

    @property
    def undelayed_trigger(self) -> Trigger: ...


def problems_of(job: Columns) -> dict[str, str]:
    problems: dict[str, str] = {}
    for field in ("name", "label"):
        if problem := limits.line_problem(getattr(job, field) or ""):
            problems[field] = problem
    if job.name and not job.name.strip():
        problems["name"] = "Enter a name with visible characters."
    problems |= _tag_problems(job) | _argument_problems(job) | schedule_problems(job)
    if not limits.SHORTEST_TIMEOUT <= (job.timeout or timedelta()) <= limits.LONGEST_TIMEOUT:
        problems["timeout"] = "Choose between one second and one day."
    if not timedelta(0) <= (job.backoff or timedelta()) <= timedelta(days=1):
        problems["backoff"] = "Choose between zero and one day."
    if job.alerts and (problem := rules_problem(job.alerts)):
        problems["alerts"] = problem
    if job.grants and (problem := _grants_problem(job)):
        problems["grants"] = problem
    return problems


def _grants_problem(job: Columns) -> str | None:
    return (
        grants_problem(job.grants) if job.task == "prompt" else "Only prompts have permissions: remove them."
    )


def _tag_problems(job: Columns) -> dict[str, str]:
    if not isinstance(job.tags, list) or not all(isinstance(tag, str) for tag in job.tags):
        return {"tags": 'Give a list of words, like ["home", "backup"].'}
    if len(job.tags) > limits.MAX_TAGS or any(not 0 < len(tag) <= limits.TAG_LENGTH for tag in job.tags):
        return {"tags": f"At most {limits.MAX_TAGS} tags of 1 to {limits.TAG_LENGTH} characters."}
    problem = next(filter(None, map(limits.line_problem, job.tags)), None)
    return {"tags": problem} if problem else {}


def _argument_problems(job: Columns) -> dict[str, str]:
    task = registry.get(job.task)
    if task is None:
        return {"task": registry.unknown_with_choices(job.task)}
    if not isinstance(job.args, list):
        return {"args": "Give a JSON list of positional arguments."}
    if not isinstance(job.kwargs, dict):
        return {"kwargs": "Give a JSON object of named arguments."}
    for field, value in (("args", job.args), ("kwargs", job.kwargs)):
        if problem := limits.json_problem(value, max_bytes=settings.CRONTY_MAX_JSON_BYTES):
            return {field: problem}
    problems = task.check(job.args, job.kwargs)
    return {"kwargs": f"Invalid arguments for task {job.task}: {'; '.join(problems)}"} if problems else {}


def schedule_problems(job: Columns) -> dict[str, str]:
    for kind in TriggerType:
        field = kind.column
        if getattr(job, field) and kind != job.trigger_type:
            return {field: f"Leave this empty: only jobs of type {kind.value} use it."}
        if not getattr(job, field) and kind == job.trigger_type:
            return {field: f"Required for jobs of type {kind.value}."}
    for field in ("ends_at", "anchor_at"):
        if (moment := getattr(job, field)) and (problem := limits.moment_problem(moment)):
            return {field: problem}
    try:
        load_zone(job.timezone)
        trigger = job.undelayed_trigger
    except TriggerError as error:
        return {error.field: sentence(error.reason)}
    problem = spread_problem(trigger, job.spread) if job.spread else ""
    return {"spread": problem} if problem else {}
