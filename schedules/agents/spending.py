"""What earlier runs answered and spent, read from the ledger."""

from decimal import Decimal
from typing import NamedTuple

from django.db import connections
from django.db.models import F

from schedules.agents.reports import Report
from schedules.models import AgentRun, Execution


class Earlier(NamedTuple):
    """The session that a run goes on with, and what it had cost so far."""

    session_id: str = ""
    cost: Decimal | None = None
    tokens: int | None = None


def earlier_session(execution_id: int, name: str) -> Earlier:
    """Return the last session of a run's job with this runner, if there is one."""
    try:
        job = Execution.objects.filter(pk=execution_id).values("job")
        rows = AgentRun.objects.filter(job__in=job, runner=name).exclude(session_id="")
        row = rows.order_by("-started_at", "-pk").first()
        return Earlier(row.session_id, row.session_cost, row.session_tokens) if row else Earlier()
    finally:
        # This thread is not used again.
        connections.close_all()


def previous_answer(execution_id: int) -> str:
    """Return what the last successful run of the same job answered, or an empty text."""
    try:
        run = Execution.objects.filter(pk=execution_id).values("job", "scheduled_for").first()
        if run is None or run["job"] is None:
            return ""
        rows = Execution.objects.filter(
            job=run["job"], scheduled_for__lte=run["scheduled_for"], status=Execution.Status.SUCCEEDED
        ).exclude(pk=execution_id)
        answer = rows.order_by("-scheduled_for").values_list("result", flat=True).first()
        return answer if isinstance(answer, str) else ""
    finally:
        connections.close_all()


def is_place_free(execution_id: int, attempt: int, name: str, at_once: int) -> bool:
    """Return whether fewer runs than may work at once have begun before this one, which is stored already."""
    try:
        live = AgentRun.objects.filter(
            runner=name,
            ended_at=None,
            execution__status=Execution.Status.RUNNING,
            execution__attempt=F("attempt"),
        )
        mine = live.filter(execution=execution_id, attempt=attempt).values_list("pk", flat=True).first()
        return mine is None or len(live.filter(pk__lt=mine).order_by()[:at_once]) < at_once
    finally:
        connections.close_all()


def settle_session(report: Report, earlier: Earlier) -> None:
    """Make the tokens and the money those of this run alone.

    Some versions of a program report them for the whole session: then the session's tokens are those of the earlier
    runs and of this one together.
    """
    report.session_cost = report.cost
    if report.session_usage is None:
        return
    read, written = report.session_usage
    if earlier.tokens is not None and read + written >= earlier.tokens + report.tokens_in:
        if report.cost is not None and earlier.cost is not None:
            report.cost = max(0.0, report.cost - float(earlier.cost))
        report.tokens_out = max(report.tokens_out, read + written - earlier.tokens - report.tokens_in)
        return
    report.raise_tokens(read, written)
