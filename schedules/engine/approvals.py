"""Approvals: record what runs ask a person to allow, when an attempt ends or while its program waits."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from schedules.engine.event_deliveries import publish_approvals
from schedules.engine.history import Outcome
from schedules.engine.incidents import IncidentKind, News, raise_incidents
from schedules.models import Approval, Execution, Job
from schedules.models.approvals import MARGIN, digest_of_shown


def add_approvals(outcomes: Sequence[Outcome]) -> None:
    """Record what these runs ask for, and notify their owners; the caller has locked the runs and queued them again."""
    if not outcomes:
        return
    runs = Execution.objects.only("owner_id", "job_name").in_bulk([item.execution_id for item in outcomes])
    rows = [_approval(outcome, runs[outcome.execution_id]) for outcome in outcomes]
    Approval.objects.bulk_create(rows)
    names_and_details = [(runs[outcome.execution_id].job_name, outcome.error) for outcome in outcomes]
    _notify(rows, names_and_details, outcomes[0].finished_at)


def ask_in_run(
    execution_id: int, attempt: int, request: Mapping[str, Any], now: datetime, within: timedelta
) -> Approval | None:
    """Record what the program of a run asks for; return None if the run has ended, or has already asked this."""
    with transaction.atomic():
        running = Execution.objects.filter(pk=execution_id, attempt=attempt, status=Execution.Status.RUNNING)
        # Lock the job first, as everywhere, to avoid deadlocks.
        Job.objects.filter(pk__in=running.values("job")).select_for_update(of=("self",)).exists()
        run = running.only("owner_id", "job_id", "job_name").first()
        same_call = Approval.objects.filter(
            execution=execution_id, attempt=attempt, call_id=request["call_id"]
        )
        if run is None or same_call.exists():
            return None
        row = Approval(
            execution_id=execution_id,
            attempt=attempt,
            job_id=run.job_id,
            owner_id=run.owner_id,
            asked_at=now,
            expires_at=now + within,
            in_run=True,
            **request,
        )
        row.digest = digest_of_shown(vars(row))
        row.save(force_insert=True)
        _notify([row], [(run.job_name, f"It waits for permission for {row.call_summary}.")], now)
    return row


def _notify(rows: Sequence[Approval], names_and_details: Sequence[tuple[str, str]], now: datetime) -> None:
    """Notify the owners of approvals, with the name of each job and what it asks."""
    publish_approvals(rows, now)
    news = [
        News(IncidentKind.NEEDS_YOU, row.owner_id, row.subject, name, details, row.job_id)
        for row, (name, details) in zip(rows, names_and_details, strict=True)
    ]
    raise_incidents(news, now)


def _approval(outcome: Outcome, run: Execution) -> Approval:
    assert outcome.request is not None
    assert outcome.retry_at is not None
    row = Approval(
        execution_id=outcome.execution_id,
        attempt=outcome.attempt,
        job_id=outcome.job_id,
        owner_id=run.owner_id,
        asked_at=outcome.finished_at,
        expires_at=outcome.retry_at - MARGIN,
        **outcome.request,
    )
    row.digest = digest_of_shown(vars(row))
    return row
