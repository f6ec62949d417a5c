"""The limits of a day: how much of each is used, what is left, and which one keeps a run from starting."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connections
from django.db.models import Count, DateTimeField, DurationField, ExpressionWrapper, F, Q, Sum, Value
from django.db.models.functions import Coalesce

from schedules.agents.definitions import Caps, Runner, dollars
from schedules.models import AgentRun, Execution
from schedules.when.triggers import load_zone

UNITS = ("runs", "minutes", "tokens", "money")


class Allowance(NamedTuple):
    """One limit of the day of a runner, for all, for one person or for one job."""

    scope: str
    """Whose it is: runner, person or job."""
    runner: str
    unit: str
    cap: float
    used: float

    @property
    def left(self) -> float:
        return max(0.0, self.cap - self.used)

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.cap

    @property
    def words(self) -> str:
        """What is left of it, like "3 of 20 runs"."""
        whose = {"runner": "", "person": " per person", "job": " per job"}[self.scope]
        if self.unit == "money":
            return f"${self.left:,.2f} of ${self.cap:,.2f}{whose}"
        if self.unit == "minutes":
            return f"{self.left:,.0f} of {self.cap:,g} minutes{whose}"
        return f"{self.left:,.0f} of {self.cap:,.0f} {self.unit}{whose}"

    @property
    def words_if_used_up(self) -> str:
        who = {
            "runner": f"The runner {self.runner} has",
            "person": f"You, with the runner {self.runner}, have",
            "job": f"This job, with the runner {self.runner}, has",
        }[self.scope]
        amount = dollars(self.cap) if self.unit == "money" else f"{self.cap:g} {self.unit}"
        if self.unit in ("runs", "tokens"):
            amount = f"{self.cap:.0f} {self.unit}"
        return f"{who} used up today's {amount}."


def allowances(
    name: str, runner: Runner, owner_id: Any, job_id: int | None, now: datetime, *, before: int | None = None
) -> list[Allowance]:
    """Return the limits of the day of a runner for a person, and for a job if one is given.

    Runs that are under way count with what they have used so far, minutes from when their program started; only those count that began `before` a row.
    """
    since = start_of_today(now)
    values_of: dict[str, dict[str, Any]] = {"runner": {}, "person": {"owner": owner_id}}
    if job_id is not None:
        values_of["job"] = {"job": job_id}
    listed = []
    for scope, limits in caps_of(runner).items():
        values = values_of.get(scope)
        if limits and values is not None:
            used = _used(Q(runner=name, **values) & (Q(pk__lt=before) if before else Q()), since, now)
            listed += [Allowance(scope, name, unit, cap, used[unit]) for unit, cap in limits]
    return listed


def caps_of(runner: Runner) -> dict[str, list[tuple[str, float]]]:
    """Return the limits of the day by whose they are, as pairs of unit and amount."""
    by_scope: dict[str, Caps] = {
        "runner": runner.per_day,
        "person": runner.per_person_per_day,
        "job": runner.per_job_per_day,
    }
    return {
        scope: [(unit, cap) for unit in UNITS if (cap := getattr(caps, unit)) is not None]
        for scope, caps in by_scope.items()
    }


def allowances_of_run(
    execution_id: int, attempt: int, owner_id: int, name: str, runner: Runner, now: datetime
) -> list[Allowance]:
    """Return the limits for one run, whose row is stored already: what began before it counts."""
    try:
        job_id = Execution.objects.filter(pk=execution_id).values_list("job", flat=True).first()
        rows = AgentRun.objects.filter(execution=execution_id, attempt=attempt)
        own = rows.values_list("pk", flat=True).first()
        return allowances(name, runner, owner_id, job_id, now, before=own)
    finally:
        # This thread is not used again.
        connections.close_all()


def start_of_today(now: datetime) -> datetime:
    """Return when the day began for which the limits are, in the zone of the installation."""
    day = now.astimezone(load_zone(settings.CRONTY_TIME_ZONE))
    return day.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def used_by_job(names: Collection[str], now: datetime) -> dict[tuple[str, Any, int | None], dict[str, float]]:
    """Return what the runs of today have used of each unit, by runner, owner and job."""
    rows = AgentRun.objects.filter(runner__in=names, started_at__gte=start_of_today(now), cap="").order_by()
    return {
        (row["runner"], row["owner"], row["job"]): _in_units(row)
        for row in rows.values("runner", "owner", "job").annotate(**_sums(now))
    }


def _used(which: Q, since: datetime, now: datetime) -> dict[str, float]:
    today = AgentRun.objects.filter(which, started_at__gte=since, cap="")
    return _in_units(today.order_by().aggregate(**_sums(now)))


def _sums(now: datetime) -> dict[str, Any]:
    until = Coalesce("ended_at", Value(now, output_field=DateTimeField()))
    took = ExpressionWrapper(until - F("started_at"), output_field=DurationField())
    return {
        "runs": Count("pk"),
        "tokens": Sum(F("tokens_in") + F("tokens_out")),
        "money": Sum("cost"),
        "took": Sum(took, filter=Q(is_waiting=False)),
    }


def _in_units(used: Mapping[str, Any]) -> dict[str, float]:
    return {
        "runs": used["runs"],
        "minutes": (used["took"] or timedelta()) / timedelta(minutes=1),
        "tokens": used["tokens"] or 0,
        "money": float(used["money"] or 0),
    }


def least_left(allowances: Sequence[Allowance], unit: str) -> float | None:
    """Return the least that is left of the limits of one unit, or None without such a limit."""
    return min((each.left for each in allowances if each.unit == unit), default=None)


def least(*amounts: float | None) -> float | None:
    limits: Iterable[float] = [amount for amount in amounts if amount is not None]
    return min(limits, default=None)
