"""Pushes: notifications sent at once, without a job, each recorded in the ledger like any other run."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction

from schedules import clock, limits
from schedules.models import Execution
from schedules.result import Ok, Result
from schedules.services.permissions import Actor
from schedules.services.quotas import push_problem, wait_for_turn
from schedules.tasks.interface import Run

# Longer than any request; if the process dies, the run ends as lost after this time.
LEASE = timedelta(minutes=2)
TIMEOUT = 30
NAME = "Notification"


def begin_push(actor: Actor, content: Mapping[str, Any]) -> Result[Execution]:
    """Record that a notification is being sent, unless its owner sent too many."""
    now = clock.now()
    title = limits.strip_unprintable(str(content.get("title") or content["message"]))
    with transaction.atomic():
        wait_for_turn(actor.read_profile())
        if refusal := push_problem(actor.user.pk, now):
            return refusal
        push = Execution.objects.create(
            owner_id=actor.user.pk,
            job_name=" ".join(title.split())[:80] or NAME,
            task="notify",
            scheduled_for=now,
            cause=Execution.Cause.MANUAL,
            status=Execution.Status.RUNNING,
            reason=f"Sent at once by {actor.label}.",
            attempt=1,
            started_at=now,
            lateness=timedelta(0),
            lease_until=now + LEASE,
        )
    return Ok(push)


def run_of(push: Execution) -> Run:
    """Return the run as the task sees it."""
    return Run.without_job(push.scheduled_for, push.owner_id, TIMEOUT)


def end_push(push: Execution, *, result: Any = None, error: str = "") -> None:
    """Record the outcome of a push: the server's receipt, or the error."""
    status = Execution.Status.FAILED if error else Execution.Status.SUCCEEDED
    Execution.objects.filter(pk=push.pk, status=Execution.Status.RUNNING).update(
        status=status,
        finished_at=clock.now(),
        lease_until=None,
        result=result,
        error=limits.strip_unprintable(error),
    )
