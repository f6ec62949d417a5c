"""The list of tools: each with its title, its hints for clients, and the shape of its refusals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import ToolAnnotations

from schedules.mcp.answers.jobs import refused as refused_job
from schedules.mcp.answers.jobs import refused_cancel
from schedules.mcp.answers.notifications import refused as refused_notification
from schedules.mcp.answers.prompts import refused as refused_prompt
from schedules.mcp.answers.prompts import refused_claim, refused_completion
from schedules.mcp.tools import (
    bulk,
    jobs,
    manage,
    notification_changes,
    notifications,
    preferences,
    prompts,
    reading,
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


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """One tool: its function, its title, its hints, and the function that shapes its refusals."""

    function: Callable[..., Any]
    title: str
    hints: ToolAnnotations
    refuse: Refuse
    among: Callable[[Actor], JobQuerySet] = Actor.jobs
    """The jobs that it finds by number and name."""

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def description(self) -> str:
        return " ".join((self.function.__doc__ or "").split())

    @property
    def family(self) -> str:
        return FAMILY_OF_MODULE[self.function.__module__]

    @property
    def families(self) -> frozenset[str]:
        """Every family of which it is a tool."""
        return frozenset({self.family, "core"} if self.name in CORE else {self.family})

    @property
    def scope(self) -> str:
        return "read" if self.hints.read_only_hint else "write"


# The names of the families in `--tools` and in tokens.
FAMILY_OF_MODULE = {
    jobs.__name__: "jobs",
    prompts.__name__: "prompts",
    notifications.__name__: "notifications",
    notification_changes.__name__: "notifications",
    manage.__name__: "more",
    reading.__name__: "more",
    bulk.__name__: "more",
    preferences.__name__: "more",
}

OFFERS = (
    Offer(jobs.schedule_job, "Schedule a job", CREATES, refused_job),
    Offer(jobs.list_jobs, "List jobs", READS, refused_job),
    Offer(jobs.cancel_job, "Cancel a job", ENDS, refused_cancel),
    Offer(jobs.job_status, "Show a job", READS, refused_job),
    Offer(prompts.schedule, "Schedule a prompt", CREATES, refused_prompt),
    Offer(prompts.schedule_list, "List prompts", READS, refused_prompt),
    Offer(prompts.schedule_edit, "Edit a prompt", CHANGES, refused_prompt),
    Offer(prompts.schedule_cancel, "Cancel a prompt", ENDS, refused_prompt),
    Offer(prompts.claim_prompts, "Claim waiting prompts", CREATES, refused_claim),
    Offer(prompts.complete_prompt, "Complete a prompt", CREATES, refused_completion),
    Offer(notifications.send_push_notification, "Send a notification now", ACTS, refused_notification),
    Offer(notifications.schedule_notification, "Schedule a notification", CREATES, refused_notification),
    Offer(
        notifications.schedule_cron_notification,
        "Schedule a repeating notification",
        CREATES,
        refused_notification,
    ),
    Offer(notifications.list_scheduled_notifications, "List notifications", READS, refused_notification),
    Offer(notification_changes.pause_schedule, "Pause a schedule", CHANGES, refused_notification),
    Offer(notification_changes.resume_schedule, "Resume a schedule", CHANGES, refused_notification),
    Offer(notification_changes.delete_schedule, "Delete a schedule", ENDS, refused_notification),
    Offer(notifications.get_current_time, "Current time", READS, refused_notification),
    Offer(reading.preview_schedule, "Preview a schedule", READS, refused_job),
    Offer(manage.update_job, "Change a job", CHANGES, refused_job),
    Offer(manage.pause_job, "Pause a job", CHANGES, refused_job),
    Offer(manage.resume_job, "Resume a job", CHANGES, refused_job),
    Offer(manage.skip_runs, "Skip runs", CREATES, refused_job),
    Offer(manage.restore_job, "Restore a job", CREATES, refused_job, among=Actor.restorable),
    Offer(manage.run_job, "Run a job now", ACTS, refused_job),
    Offer(reading.upcoming, "List upcoming runs", READS, refused_job),
    Offer(reading.why, "Explain a run", READS, refused_job),
    Offer(bulk.bulk_jobs, "Change many jobs", ENDS, refused_job),
    Offer(preferences.get_preferences, "Show preferences", READS, refused_job),
    Offer(preferences.set_preferences, "Set preferences", CHANGES, refused_job),
)
# What most conversations need, for models that choose better among few tools.
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
}
OFFER_BY_NAME = {offer.name: offer for offer in OFFERS}
WORDING = Wording(OFFER_BY_NAME)
