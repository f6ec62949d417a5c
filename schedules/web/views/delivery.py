"""The delivery of one notification, step by step, for the page of the first reminder."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from schedules.models import Execution, Job

Status = Execution.Status


@dataclass(frozen=True)
class Delivery:
    """Where the notification of a job is: `step` is scheduled, waiting, sending, retrying, delivered or failed."""

    step: str
    job: Job
    run: Execution | None = None

    @property
    def is_over(self) -> bool:
        return self.step in ("delivered", "failed")

    @property
    def error(self) -> str:
        return (self.run.error or self.run.reason) if self.run else ""

    @property
    def message_id(self) -> str:
        result = self.run.result if self.run else None
        return str(result.get("id") or "") if isinstance(result, dict) else ""

    @property
    def next_attempt(self) -> int:
        return self.run.attempt + 1 if self.run else 1


def delivery_of(job: Job, now: datetime, *, has_cluster: bool) -> Delivery:
    """Return how far the newest notification of a job has come."""
    run = Execution.objects.filter(job=job).order_by("-scheduled_for", "-pk").first()
    if run is None:
        if job.next_run_at and job.next_run_at > now:
            return Delivery("scheduled", job)
        return Delivery("sending" if has_cluster else "waiting", job)
    match run.status:
        case Status.SUCCEEDED:
            step = "delivered"
        case Status.QUEUED if run.attempt:
            step = "retrying"
        case Status.QUEUED | Status.CLAIMED | Status.RUNNING:
            step = "sending" if has_cluster else "waiting"
        case _:
            step = "failed"
    return Delivery(step, job, run)


def topic_link(topic: str) -> str:
    """Return the address of a topic on the ntfy server."""
    return f"{settings.NTFY_URL.rstrip('/')}/{topic}"
