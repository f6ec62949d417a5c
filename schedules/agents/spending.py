"""Earlier runs, read from the ledger: their sessions, answers and usage, and the places that they occupy."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from django.db.models import F, Sum

from schedules.agents.reports import Report
from schedules.models import AgentRun, Execution

# How many of the newest runs are searched for one that reported totals.
MAX_RUNS_WITHOUT_TOTALS = 100


class EarlierSession(NamedTuple):
    """The session that a run continues, and its cost when one of its runs last reported totals."""

    session_id: str = ""
    cost: Decimal | None = None
    tokens: int | None = None
    tokens_since: int = 0
    """What was seen of later runs, which were cut off before they reported totals."""
    tokens_in: int = 0
    """The tokens read in the whole session; for programs that only report totals of the session."""
    tokens_out: int = 0


def session_of(row: AgentRun) -> EarlierSession:
    """Return the session of a run as it was at its end."""
    return _with_usage(row, EarlierSession(row.session_id, row.session_cost, row.session_tokens))


def _with_usage(row: AgentRun, session: EarlierSession) -> EarlierSession:
    if row.session_tokens is not None:
        return session
    used = AgentRun.objects.filter(job=row.job_id, session_id=row.session_id).aggregate(
        read=Sum("tokens_in"), written=Sum("tokens_out")
    )
    return session._replace(tokens_in=used["read"] or 0, tokens_out=used["written"] or 0)


def earlier_session(execution_id: int, name: str) -> EarlierSession:
    """Return the last session of a run's job with this runner, or an empty one."""
    job = Execution.objects.filter(pk=execution_id).values("job")
    rows = AgentRun.objects.filter(job__in=job, runner=name).exclude(session_id="")
    newest = list(rows.order_by("-started_at", "-pk")[:MAX_RUNS_WITHOUT_TOTALS])
    return _with_usage(newest[0], _newest_session(newest)) if newest else EarlierSession()


def _newest_session(newest: Sequence[AgentRun]) -> EarlierSession:
    session_id, since = newest[0].session_id, 0
    for row in newest:
        if row.session_id != session_id:
            break
        if row.session_tokens is not None:
            return EarlierSession(session_id, row.session_cost, row.session_tokens, since)
        since += row.tokens
    return EarlierSession(session_id, tokens=0, tokens_since=since)


def previous_answer(execution_id: int) -> str:
    """Return the answer of the last successful run of the same job, or an empty text."""
    run = Execution.objects.filter(pk=execution_id).values("job", "scheduled_for").first()
    if run is None or run["job"] is None:
        return ""
    rows = Execution.objects.filter(
        job=run["job"], scheduled_for__lte=run["scheduled_for"], status=Execution.Status.SUCCEEDED
    ).exclude(pk=execution_id)
    answer = rows.order_by("-scheduled_for").values_list("result", flat=True).first()
    return answer if isinstance(answer, str) else ""


def is_place_free(execution_id: int, attempt: int, name: str, at_once: int) -> bool:
    """Return whether fewer than `at_once` unfinished runs began before this one, whose row exists already."""
    live = AgentRun.objects.filter(
        runner=name,
        ended_at=None,
        execution__status=Execution.Status.RUNNING,
        execution__attempt=F("attempt"),
    )
    mine = live.filter(execution=execution_id, attempt=attempt).values_list("pk", flat=True).first()
    return mine is None or len(live.filter(pk__lt=mine).order_by()[:at_once]) < at_once


def subtract_earlier_usage(report: Report, earlier: EarlierSession) -> None:
    """Reduce the reported tokens and cost to those of this run alone.

    Some versions of a program report them for the whole session. They do if the reported tokens are at least those of
    the earlier runs and of this one together.
    """
    report.session_cost = report.cost
    if report.session_usage is None:
        return
    total = sum(report.session_usage)
    if earlier.tokens is not None:
        # Runs that were cut off may be missing in the total: it depends on when the program saves its session.
        for before in (earlier.tokens + earlier.tokens_since, earlier.tokens):
            if total >= before + report.tokens:
                if report.cost is not None:
                    report.cost = max(0.0, report.cost - float(earlier.cost or 0))
                report.tokens_out = total - before - report.tokens_in
                return
    report.raise_tokens(*report.session_usage)
