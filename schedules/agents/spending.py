"""What earlier runs answered and spent, read from the ledger."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connections
from django.db.models import Count, DurationField, ExpressionWrapper, F, Sum

from schedules.agents.definitions import Caps, Runner
from schedules.agents.reports import Report
from schedules.models import AgentRun, Execution
from schedules.when.triggers import load_zone


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


def cap_reached(execution_id: int, owner_id: int, name: str, runner: Runner, now: datetime) -> str:
    """Return which limit of the day is used up, as a sentence, or an empty text.

    Runs that are under way count with what they have used so far, so that those may go beyond it.
    """
    scopes: tuple[tuple[str, Caps, dict[str, Any]], ...] = (
        (f"The runner {name}", runner.per_day, {"runner": name}),
        (f"You, with the runner {name},", runner.per_person_per_day, {"runner": name, "owner": owner_id}),
        (
            f"This job, with the runner {name},",
            runner.per_job_per_day,
            {"runner": name, "job__in": Execution.objects.filter(pk=execution_id).values("job")},
        ),
    )
    try:
        for who, caps, scope in scopes:
            if caps != Caps() and (reached := _first_reached(caps, scope, now)):
                verb = "have" if who.startswith("You") else "has"
                return f"{who} {verb} used up today's {reached}."
    finally:
        # This thread is not used again.
        connections.close_all()
    return ""


def _first_reached(caps: Caps, scope: dict[str, Any], now: datetime) -> str:
    day = now.astimezone(load_zone(settings.CRONTY_TIME_ZONE)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    took = ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField())
    today = AgentRun.objects.filter(**scope, started_at__gte=day.astimezone(UTC), cap="")
    used = today.order_by().aggregate(
        runs=Count("pk"), tokens=Sum(F("tokens_in") + F("tokens_out")), money=Sum("cost"), took=Sum(took)
    )
    amounts = {
        f"{caps.runs} runs": (caps.runs, used["runs"]),
        f"{caps.minutes} minutes": (caps.minutes, (used["took"] or timedelta()) / timedelta(minutes=1)),
        f"{caps.tokens} tokens": (caps.tokens, used["tokens"] or 0),
        f"${caps.money}": (caps.money, used["money"] or 0),
    }
    return next((words for words, (cap, amount) in amounts.items() if cap is not None and amount >= cap), "")


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
