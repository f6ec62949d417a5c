"""Approvals: what runs ask a person to allow, recorded together with the end of the attempt that has asked."""

from collections.abc import Sequence

from schedules.engine.event_deliveries import publish_approvals
from schedules.engine.history import Outcome
from schedules.engine.incidents import Kind, News, raise_incidents
from schedules.models import Approval, Execution
from schedules.models.approvals import MARGIN, digest_of_shown


def add_approvals(outcomes: Sequence[Outcome]) -> None:
    """Record what these runs ask for, and tell their owners; the caller has locked the runs and queued them again."""
    if not outcomes:
        return
    runs = Execution.objects.only("owner_id", "job_name").in_bulk([item.execution_id for item in outcomes])
    rows = [_approval(outcome, runs[outcome.execution_id]) for outcome in outcomes]
    Approval.objects.bulk_create(rows)
    publish_approvals(rows, outcomes[0].finished_at)
    raise_incidents(
        [
            News(
                Kind.NEEDS_YOU,
                row.owner_id,
                row.subject,
                runs[row.execution_id].job_name,
                outcome.error,
                row.job_id,
            )
            for row, outcome in zip(rows, outcomes, strict=True)
        ],
        outcomes[0].finished_at,
    )


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
