"""Notifications that Cronty itself creates, such as alerts and answers of agents: jobs, so that they are retried and in the ledger."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.urls import reverse

from schedules import limits
from schedules.engine.history import Outcome
from schedules.engine.quiet_hours import quiet_hours_of
from schedules.models import Execution, Job
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.models.job_texts import searchable_text, skeleton
from schedules.models.jobs import new_public_id
from schedules.tasks.links import public_site

Status = Execution.Status
LABEL = "answer"
LONGEST_ANSWER = 2000


def create_notice(
    owner_id: int,
    name: str,
    arguments: Mapping[str, Any],
    timezone: str,
    now: datetime,
    *,
    label: str = "",
    at: datetime | None = None,
) -> Job:
    """Create a job that sends a notification now, or at a moment; `arguments` are those of the task notify."""
    name = name[: limits.NAME_LENGTH]
    notice = Job(
        owner_id=owner_id,
        public_id=new_public_id(NOTICE_PREFIX, now),
        name=name,
        name_skeleton=skeleton(name),
        label=label,
        task="notify",
        kwargs=dict(arguments),
        trigger_type=Job.TriggerType.ONCE,
        run_at=at or now,
        next_run_at=at or now,
        timezone=timezone,
        attempts=5,
        made_by="cronty",
        created_at=now,
        updated_at=now,
    )
    notice.search_text = searchable_text(notice)
    notice.save(force_insert=True)
    return notice


def deliver_answers(outcomes: Sequence[Outcome], now: datetime) -> None:
    """Send the answers of the runs that succeeded through channels of their owners; the caller has locked the jobs."""
    succeeded = {item.execution_id: item for item in outcomes if item.status == Status.SUCCEEDED}
    for run in Execution.objects.filter(pk__in=list(succeeded)).select_related("job").order_by("pk"):
        outcome = succeeded[run.pk]
        # If an agent completed the run through a tool, the row already has the result.
        answer = outcome.result if outcome.result is not None else run.result
        if isinstance(answer, str) and answer.strip() and run.job is not None:
            _send(run, run.job, answer.strip(), outcome.deliver_to, now)


def _send(run: Execution, job: Job, answer: str, channel: str, now: datetime) -> None:
    arguments = {
        # An agent's text must not be taken for placeholders.
        "message": limits.shortened(answer, LONGEST_ANSWER).replace("{{", "{ {"),
        "channel": channel,
        "title": job.name[:200].replace("{{", "{ {"),
    }
    if site := public_site():
        arguments["click"] = f"{site}{reverse('schedules:run', args=[run.pk])}"
    # Somebody who starts a run by hand waits for its answer.
    quiet = None if run.cause == Execution.Cause.MANUAL else quiet_hours_of([job.pk]).get(job.pk)
    at = quiet.until(now) if quiet else None
    create_notice(run.owner_id, f"Answer: {job.name}", arguments, job.timezone, now, label=LABEL, at=at)
