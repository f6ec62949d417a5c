"""Denials: end the runs that asked a person and were refused, or got no answer in time."""

from datetime import datetime

from django.db import transaction
from django.db.models import F, Q

from schedules.engine.history import Outcome
from schedules.engine.incidents import IncidentKind, end_incident
from schedules.engine.pauses import note
from schedules.engine.settle import conclude
from schedules.models import AgentRun, Approval, Execution, Job

Status = Approval.Status

# How many approvals one step closes.
BATCH = 200
NOT_ANSWERED = "Nobody answered in time, which is a denial."


def deny(approval: Approval, now: datetime, status: Approval.Status, why: str) -> bool:
    """End the run that waits for an approval as refused; return whether it was waiting.

    If its program waits, the run goes on without the call instead. The caller has locked the job and the approval.
    """
    if approval.in_run:
        is_awaited = is_awaited_in_run(approval)
        approval.status = status if is_awaited else Status.WITHDRAWN
        approval.save(update_fields=["status"])
        close_incident(approval, now, "Denied" if status == Status.DENIED else "Not answered in time")
        return is_awaited
    waiting = Execution.objects.filter(
        pk=approval.execution_id, attempt=approval.attempt, status=Execution.Status.QUEUED
    )
    message = f"{why} {approval.request_sentence}"
    failed = Execution.Status.FAILED
    is_ended = waiting.update(status=failed, finished_at=now, available_at=None, error=message, reason="")
    approval.status = status if is_ended else Status.WITHDRAWN
    approval.save(update_fields=["status"])
    if is_ended:
        AgentRun.objects.filter(execution=approval.execution_id, attempt=approval.attempt).update(
            verdict=AgentRun.Verdict.REFUSED, words=message
        )
        outcome = Outcome(
            approval.execution_id, approval.attempt, approval.job_id or 0, failed, now, error=message
        )
        conclude([outcome])
    close_incident(approval, now, "Denied" if status == Status.DENIED else "Not answered in time")
    return bool(is_ended)


def is_awaited_in_run(approval: Approval) -> bool:
    """Return whether the program that waits for an answer still runs."""
    running = Execution.objects.filter(pk=approval.execution_id, status=Execution.Status.RUNNING)
    return running.filter(attempt=approval.attempt).exists()


def close_approval(approval_id: int, now: datetime) -> bool:
    """Deny an approval that nobody answered in time; return False if it was answered, or its job is locked."""
    over = Approval.objects.filter(pk=approval_id, status=Status.WAITING, expires_at__lte=now)
    key = over.values_list("pk", "job").first()
    return key is not None and _close(*key, now)


def close_incident(approval: Approval, now: datetime, ending: str) -> None:
    """End the incident of an approval that no longer needs anybody."""
    end_incident(IncidentKind.NEEDS_YOU, approval.owner_id, approval.subject, now, ending)


def close_approvals(now: datetime) -> int:
    """Deny approvals that nobody answered in time, and withdraw those that no run waits for; return how many.

    Usually two short queries of a small index.
    """
    waiting = Approval.objects.filter(status=Status.WAITING)
    over = waiting.filter(expires_at__lte=now).order_by("expires_at")
    is_over = Q(execution__finished_at__isnull=False)
    is_gone = ~Q(execution__status=Execution.Status.RUNNING) | ~Q(execution__attempt=F("attempt"))
    ended = waiting.filter(is_over | (Q(in_run=True) & is_gone))
    count = 0
    for keys in (over.values_list("pk", "job")[:BATCH], ended.values_list("pk", "job")[:BATCH]):
        for key, job_id in list(keys):
            count += _close(key, job_id, now)
    return count


def _close(key: int, job_id: int | None, now: datetime) -> bool:
    with transaction.atomic():
        # Lock the job first, as everywhere; if another session holds it, the next call closes the approval.
        job = Job.objects.filter(pk=job_id or 0).select_for_update(of=("self",), skip_locked=True).first()
        approval = (
            Approval.objects.filter(pk=key, status=Status.WAITING).select_for_update(skip_locked=True).first()
        )
        if job is None or approval is None:
            return False
        if deny(approval, now, Status.EXPIRED, NOT_ANSWERED):
            why = {"execution": approval.execution_id, "tool": approval.tool, "reason": NOT_ANSWERED}
            if approval.is_question:
                note(job, "decline", now, why)
            else:
                note(job, "deny", now, why)
    return True
