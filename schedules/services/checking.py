"""What is wrong with a job as it was asked for?"""

from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ValidationError

from schedules.models import Job
from schedules.result import Err, invalid, invalid_fields
from schedules.services.actors import Actor
from schedules.tasks import registry
from schedules.when.triggers import TriggerError, load_zone

_FURTHEST = timedelta(days=5 * 366)
_REQUIRED = frozenset(("name", "task", "trigger_type"))
_COLUMNS = frozenset(field.name for field in Job._meta.concrete_fields)


def problem_with(actor: Actor, job: Job, now: datetime, *, changed: set[str]) -> Err | None:
    """Refuse a job that makes no sense, or that this caller may not make; None if it is fine."""
    task = registry.get(job.task)
    if task and task.system:
        return invalid("task", f"Unknown task: {job.task}. Choose one of: {', '.join(registry.names())}.")
    # What nobody set in a new job is a default of ours.
    untouched = _COLUMNS - changed - _REQUIRED if job._state.adding else {"owner"}
    try:
        job.full_clean(validate_unique=False, validate_constraints=False, exclude=untouched)
    except ValidationError as error:
        return invalid_fields(error.message_dict)
    if job.trigger_type == Job.TriggerType.ONCE and job.run_at and "run_at" in changed:
        if job.run_at <= now:
            return invalid("run_at", f"This moment is in the past (now {local_words(now, job.timezone)}).")
        if job.run_at > now + _FURTHEST:
            return invalid("run_at", "Choose a moment within the next five years.")
    if job.anchor_at and job.trigger_type != Job.TriggerType.INTERVAL:
        return invalid("anchor_at", "Leave this empty: it belongs to a job of type interval.")
    if job.anchor_at and "anchor_at" in changed and job.anchor_at > now + _FURTHEST:
        return invalid("anchor_at", "Choose a moment within the next five years.")
    return interval_problem(actor, job.every) if job.every and "every" in changed else None


def interval_problem(actor: Actor, every: timedelta) -> Err | None:
    """Refuse an interval that is shorter than agents may have."""
    smallest = settings.CRONTY_AGENT_MIN_INTERVAL
    if actor.is_agent and every.total_seconds() < smallest:
        return invalid("every", f"The smallest interval for an agent is {smallest} seconds.")
    return None


def nothing_left(job: Job, now: datetime) -> Err:
    """Explain why a job would never fire again."""
    if job.run_at and job.run_at <= now:
        return invalid(
            "run_at", f"Its time ({local_words(job.run_at, job.timezone)}) has passed: choose a later one."
        )
    if job.max_runs is not None and job.slot_count >= job.max_runs:
        return invalid("max_runs", f"It has run {job.slot_count} times already: choose a higher number.")
    if job.ends_at:
        return invalid("ends_at", "There is no run before this end: choose a later one.")
    return invalid("trigger_type", "This schedule has no further run.")


def local_words(moment: datetime, timezone: str) -> str:
    """Write a moment on the clock of a zone; of one that is none, in UTC."""
    try:
        return f"{moment.astimezone(load_zone(timezone)):%Y-%m-%d %H:%M:%S} {timezone}"
    except TriggerError:
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
