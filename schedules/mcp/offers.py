"""The list of tools, each with its title, its hints for clients and the function that shapes its refusals."""

from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import ToolAnnotations

from schedules.mcp.answers.job_refusals import refused as refused_job
from schedules.mcp.answers.job_refusals import refused_cancel
from schedules.mcp.answers.notifications import refused as refused_notification
from schedules.mcp.answers.prompts import refused as refused_prompt
from schedules.mcp.answers.prompts import refused_claim, refused_completion
from schedules.mcp.tools import (
    agents,
    bulk,
    copying,
    history,
    jobs,
    manage,
    notification_changes,
    notifications,
    preferences,
    prompts,
    reading,
    running,
    undoing,
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


class Offer:
    """One tool: its family, its function, its title, its hints, and the function that shapes its refusals."""

    def __init__(
        self,
        family: str,
        function: Callable[..., Any],
        title: str,
        hints: ToolAnnotations,
        refuse: Refuse,
        *,
        jobs: Callable[[Actor], JobQuerySet] = Actor.jobs,
        fallback_jobs: Callable[[Actor], JobQuerySet] = Actor.jobs,
    ) -> None:
        """`jobs` are those that an agent can name by number or name; if none matches, `fallback_jobs` are searched."""
        self.function, self.title, self.hints, self.refuse = function, title, hints, refuse
        self.jobs, self.fallback_jobs = jobs, fallback_jobs
        self.name = function.__name__
        self.description = " ".join((function.__doc__ or "").split())
        self.family = family
        self.families = frozenset({family, "core"} if self.name in CORE else {family})
        """Its own family, and `core` if it belongs there."""
        self.scope = "read" if hints.read_only_hint else "write"


OFFERS = (
    Offer("jobs", jobs.schedule_job, "Schedule a job", CREATES, refused_job),
    Offer("jobs", jobs.list_jobs, "List jobs", READS, refused_job),
    Offer("jobs", jobs.cancel_job, "Cancel a job", ENDS, refused_cancel),
    Offer("jobs", jobs.job_status, "Show a job", READS, refused_job, fallback_jobs=Actor.trash),
    Offer("prompts", prompts.schedule, "Schedule a prompt", CREATES, refused_prompt),
    Offer("prompts", prompts.schedule_list, "List prompts", READS, refused_prompt),
    Offer("prompts", prompts.schedule_edit, "Edit a prompt", CHANGES, refused_prompt),
    Offer("prompts", prompts.schedule_cancel, "Cancel a prompt", ENDS, refused_prompt),
    Offer("prompts", prompts.claim_prompts, "Claim waiting prompts", CREATES, refused_claim),
    Offer("prompts", prompts.complete_prompt, "Complete a prompt", CREATES, refused_completion),
    Offer(
        "notifications",
        notifications.send_push_notification,
        "Send a notification now",
        ACTS,
        refused_notification,
    ),
    Offer(
        "notifications",
        notifications.schedule_notification,
        "Schedule a notification",
        CREATES,
        refused_notification,
    ),
    Offer(
        "notifications",
        notifications.schedule_cron_notification,
        "Schedule a repeating notification",
        CREATES,
        refused_notification,
    ),
    Offer(
        "notifications",
        notifications.list_scheduled_notifications,
        "List notifications",
        READS,
        refused_notification,
    ),
    Offer(
        "notifications",
        notification_changes.pause_schedule,
        "Pause a schedule",
        CHANGES,
        refused_notification,
    ),
    Offer(
        "notifications",
        notification_changes.resume_schedule,
        "Resume a schedule",
        CHANGES,
        refused_notification,
    ),
    Offer(
        "notifications", notification_changes.delete_schedule, "Delete a schedule", ENDS, refused_notification
    ),
    Offer("notifications", notifications.get_current_time, "Current time", READS, refused_notification),
    Offer("more", reading.preview_schedule, "Preview a schedule", READS, refused_job),
    Offer("more", manage.update_job, "Change a job", CHANGES, refused_job),
    Offer("more", copying.copy_job, "Copy a job", CREATES, refused_job),
    Offer("more", manage.pause_job, "Pause a job", CHANGES, refused_job),
    Offer("more", manage.resume_job, "Resume a job", CHANGES, refused_job),
    Offer("more", manage.skip_runs, "Skip runs", CREATES, refused_job),
    Offer("more", manage.restore_job, "Restore a job", CREATES, refused_job, jobs=Actor.restorable),
    Offer("more", running.run_job, "Run a job now", ACTS, refused_job),
    Offer("more", running.run_task, "Run a task now", ACTS, refused_job),
    Offer("more", reading.upcoming, "List upcoming runs", READS, refused_job),
    Offer("more", history.list_runs, "List past runs", READS, refused_job, fallback_jobs=Actor.trash),
    Offer("more", history.list_changes, "List changes", READS, refused_job, fallback_jobs=Actor.trash),
    Offer("more", reading.why, "Explain a run", READS, refused_job, fallback_jobs=Actor.trash),
    Offer("more", bulk.bulk_jobs, "Change many jobs", ENDS, refused_job),
    Offer("more", undoing.undo_change, "Undo a change", CREATES, refused_job),
    Offer("more", agents.stop_agents, "Stop all agents", ENDS, refused_job),
    Offer("more", preferences.get_preferences, "Show preferences", READS, refused_job),
    Offer("more", preferences.set_preferences, "Set preferences", CHANGES, refused_job),
)
OFFER_BY_NAME = {offer.name: offer for offer in OFFERS}
WORDING = Wording(OFFER_BY_NAME)
