"""What earlier runs answered and spent, read from the ledger."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from django.db import connections
from django.db.models import F, Sum

from schedules.agents.reports import Report
from schedules.models import AgentRun, Execution

# More runs than this in a row do not end without totals.
MOST_WITHOUT_TOTALS = 100


class Earlier(NamedTuple):
    """The session that a run goes on with, and what it had cost when a run of it last said so."""

    session_id: str = ""
    cost: Decimal | None = None
    tokens: int | None = None
    tokens_since: int = 0
    """What was seen of later runs, which were cut off before they could name totals."""
    tokens_in: int = 0
    """What was read in the whole session; for programs that only tell totals of it."""
    tokens_out: int = 0


def earlier_of(row: AgentRun) -> Earlier:
    """Return the session of a run as it was then."""
    return _with_usage(row, Earlier(row.session_id, row.session_cost, row.session_tokens))


def _with_usage(row: AgentRun, earlier: Earlier) -> Earlier:
    if row.session_tokens is not None:
        return earlier
    used = AgentRun.objects.filter(job=row.job_id, session_id=row.session_id).aggregate(
        read=Sum("tokens_in"), written=Sum("tokens_out")
    )
    return earlier._replace(tokens_in=used["read"] or 0, tokens_out=used["written"] or 0)


def earlier_session(execution_id: int, name: str) -> Earlier:
    """Return the last session of a run's job with this runner, if there is one."""
    try:
        job = Execution.objects.filter(pk=execution_id).values("job")
        rows = AgentRun.objects.filter(job__in=job, runner=name).exclude(session_id="")
        newest = list(rows.order_by("-started_at", "-pk")[:MOST_WITHOUT_TOTALS])
        return _with_usage(newest[0], _session_of(newest)) if newest else Earlier()
    finally:
        # This thread is not used again.
        connections.close_all()


def _session_of(newest: Sequence[AgentRun]) -> Earlier:
    session_id, since = newest[0].session_id, 0
    for row in newest:
        if row.session_id != session_id:
            break
        if row.session_tokens is not None:
            return Earlier(session_id, row.session_cost, row.session_tokens, since)
        since += row.tokens
    return Earlier(session_id, tokens=0, tokens_since=since)


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

    Some versions of a program report them for the whole session: then the session's tokens are at least those of the
    earlier runs and of this one together.
    """
    report.session_cost = report.cost
    if report.session_usage is None:
        return
    total = sum(report.session_usage)
    if earlier.tokens is not None:
        # Whether the session counts a run that was cut off depends on when the program stores its session.
        for before in (earlier.tokens + earlier.tokens_since, earlier.tokens):
            if total >= before + report.tokens:
                if report.cost is not None:
                    report.cost = max(0.0, report.cost - float(earlier.cost or 0))
                report.tokens_out = total - before - report.tokens_in
                return
    report.raise_tokens(*report.session_usage)
