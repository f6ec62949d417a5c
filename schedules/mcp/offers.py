"""The list of tools, each with its title, its hints for clients and the function that shapes its refusals."""

from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import ToolAnnotations

from schedules.mcp.answers import notifications as notification_answers
from schedules.mcp.answers import prompts as prompt_answers
from schedules.mcp.answers import refusals
from schedules.mcp.answers.prompts import claim_refusal_of, completion_refusal_of
from schedules.mcp.tools import (
    history,
    jobs,
    manage,
    many,
    notifications,
    preferences,
    prompts,
    reading,
    running,
)
from schedules.mcp.wording import Wording
from schedules.models.jobs import JobQuerySet
from schedules.result import Err
from schedules.services import Actor

Refuse = Callable[[Err, Mapping[str, Any]], object]


def _hints(
    *, reads: bool = False, destroys: bool = False, repeatable: bool = False, reaches_out: bool = False
) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=destroys,
        idempotent_hint=repeatable,
        open_world_hint=reaches_out,
    )


READS = _hints(reads=True, repeatable=True)
CREATES = _hints()
CHANGES = _hints(repeatable=True)
ENDS = _hints(destroys=True, repeatable=True)
ACTS = _hints(reaches_out=True)


# What most conversations need: models choose better among few tools.
CORE = {
    "schedule_job",
    "schedule",
    "schedule_notification",
    "schedule_cron_notification",
    "list_jobs",
    "job_status",
    "update_job",
    "pause_job",
    "resume_job",
    "cancel_job",
    "run_job",
    "upcoming",
    "why",
    "preview_schedule",
    "get_current_time",
    "set_preferences",
    "skip_runs",
}


# How the tools of a family refuse a call.
_REFUSE: Mapping[str, Refuse] = {
    "jobs": refusals.refusal_of,
    "prompts": prompt_answers.refusal_of,
    "notifications": notification_answers.refusal_of,
    "more": refusals.refusal_of,
}


class Offer:
    """One tool: its family, its function, its title, its hints, and the function that shapes its refusals."""

    def __init__(
        self,
        family: str,
        function: Callable[..., Any],
        title: str,
        hints: ToolAnnotations,
        *,
        refuse: Refuse | None = None,
        jobs: Callable[[Actor], JobQuerySet] = Actor.jobs,
        fallback_jobs: Callable[[Actor], JobQuerySet] = Actor.jobs,
    ) -> None:
        """`jobs` are those that an agent can name by number or name; if none matches, `fallback_jobs` are searched."""
        self.function, self.title, self.hints = function, title, hints
        self.refuse = refuse or _REFUSE[family]
        self.jobs, self.fallback_jobs = jobs, fallback_jobs
        self.name = function.__name__
        self.description = " ".join((function.__doc__ or "").split())
        self.family = family
        self.families = frozenset({family, "core"} if self.name in CORE else {family})
        """Its own family, and `core` if it belongs there."""
        self.scope = "read" if hints.read_only_hint else "write"


OFFERS = (
    Offer("jobs", jobs.schedule_job, "Schedule a job", CREATES),
    Offer("jobs", jobs.list_jobs, "List jobs", READS),
    Offer("jobs", jobs.cancel_job, "Cancel a job", ENDS, refuse=refusals.cancel_refusal_of),
    Offer("jobs", jobs.job_status, "Show a job", READS, fallback_jobs=Actor.trash),
    Offer("prompts", prompts.schedule, "Schedule a prompt", CREATES),
    Offer("prompts", prompts.schedule_list, "List prompts", READS),
    Offer("prompts", prompts.schedule_edit, "Edit a prompt", CHANGES),
    Offer("prompts", prompts.schedule_cancel, "Cancel a prompt", ENDS),
    Offer("prompts", prompts.claim_prompts, "Claim waiting prompts", CREATES, refuse=claim_refusal_of),
    Offer("prompts", prompts.complete_prompt, "Complete a prompt", CREATES, refuse=completion_refusal_of),
    Offer("notifications", notifications.send_push_notification, "Send a notification now", ACTS),
    Offer("notifications", notifications.schedule_notification, "Schedule a notification", CREATES),
    Offer(
        "notifications",
        notifications.schedule_cron_notification,
        "Schedule a repeating notification",
        CREATES,
    ),
    Offer("notifications", notifications.list_scheduled_notifications, "List notifications", READS),
    Offer("notifications", notifications.pause_schedule, "Pause a schedule", CHANGES),
    Offer("notifications", notifications.resume_schedule, "Resume a schedule", CHANGES),
    Offer("notifications", notifications.delete_schedule, "Delete a schedule", ENDS),
    Offer("notifications", notifications.get_current_time, "Current time", READS),
    Offer("more", reading.preview_schedule, "Preview a schedule", READS),
    Offer("more", manage.update_job, "Change a job", CHANGES),
    Offer("more", manage.copy_job, "Copy a job", CREATES),
    Offer("more", manage.pause_job, "Pause a job", CHANGES),
    Offer("more", manage.resume_job, "Resume a job", CHANGES),
    Offer("more", manage.skip_runs, "Skip runs", CREATES),
    Offer("more", manage.restore_job, "Restore a job", CREATES, jobs=Actor.restorable),
    Offer("more", running.run_job, "Run a job now", ACTS),
    Offer("more", running.run_task, "Run a task now", ACTS),
    Offer("more", reading.upcoming, "List upcoming runs", READS),
    Offer("more", history.list_runs, "List past runs", READS, fallback_jobs=Actor.trash),
    Offer("more", history.list_changes, "List changes", READS, fallback_jobs=Actor.trash),
    Offer("more", history.why, "Explain a run", READS, fallback_jobs=Actor.trash),
    Offer("more", many.bulk_jobs, "Change many jobs", ENDS),
    Offer("more", many.undo_change, "Undo a change", CREATES),
    Offer("more", running.stop_agents, "Stop all agents", ENDS),
    Offer("more", preferences.get_preferences, "Show preferences", READS),
    Offer("more", preferences.set_preferences, "Set preferences", CHANGES),
)
OFFER_BY_NAME = {offer.name: offer for offer in OFFERS}
WORDING = Wording(OFFER_BY_NAME)
