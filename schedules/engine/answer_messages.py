"""Send the answers of agents to people, each as a notification job, so that it is retried and in the ledger."""

from collections.abc import Sequence
from datetime import datetime

from django.urls import reverse

from schedules import limits
from schedules.engine.history import Outcome
from schedules.engine.notices import create_notice
from schedules.engine.quiet_hours import quiet_hours_of
from schedules.models import Execution, Job
from schedules.tasks.site import public_site

Status = Execution.Status

LABEL = "answer"
LONGEST_ANSWER = 2000


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
