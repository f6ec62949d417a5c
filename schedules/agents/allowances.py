"""Daily limits of runners: how much of each is used and remains, for all people, for one person and for one job."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Count, DateTimeField, DurationField, ExpressionWrapper, F, Q, Sum, Value
from django.db.models.functions import Coalesce

from schedules.agents.definitions import Caps, Runner, dollars
from schedules.models import AgentRun, Execution
from schedules.when.triggers import load_zone

UNITS = ("runs", "minutes", "tokens", "money")


class Allowance(NamedTuple):
    """One daily limit of a runner, and how much of it is used."""

    scope: str
    """What it is for: runner (everybody), person or job."""
    runner: str
    unit: str
    cap: float
    used: float

    @property
    def remaining(self) -> float:
        return max(0.0, self.cap - self.used)

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.cap

    @property
    def words(self) -> str:
        """What remains of it, like "3 of 20 runs"."""
        whose = {"runner": "", "person": " per person", "job": " per job"}[self.scope]
        if self.unit == "money":
            return f"${self.remaining:,.2f} of ${self.cap:,.2f}{whose}"
        if self.unit == "minutes":
            return f"{self.remaining:,.0f} of {self.cap:,g} minutes{whose}"
        return f"{self.remaining:,.0f} of {self.cap:,.0f} {self.unit}{whose}"

    @property
    def used_up_message(self) -> str:
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
    """Return the daily limits of a runner for a person, and for a job if one is given.

    Unfinished runs count with what they have used so far; their minutes begin when their program started. With `before`,
    only runs whose row has a lower id count.
    """
    since = start_of_today(now)
    values_of: dict[str, dict[str, Any]] = {"runner": {}, "person": {"owner": owner_id}}
    if job_id is not None:
        values_of["job"] = {"job": job_id}
    result = []
    for scope, limits in caps_of(runner).items():
        values = values_of.get(scope)
        if limits and values is not None:
            used = _used(Q(runner=name, **values) & (Q(pk__lt=before) if before else Q()), since, now)
            result += [Allowance(scope, name, unit, cap, used[unit]) for unit, cap in limits]
    return result


def caps_of(runner: Runner) -> dict[str, list[tuple[str, float]]]:
    """Return the daily limits by scope, as pairs of unit and amount."""
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
    """Return the daily limits for one run, whose row exists already; only runs that began before it count."""
    job_id = Execution.objects.filter(pk=execution_id).values_list("job", flat=True).first()
    rows = AgentRun.objects.filter(execution=execution_id, attempt=attempt)
    own_pk = rows.values_list("pk", flat=True).first()
    return allowances(name, runner, owner_id, job_id, now, before=own_pk)


def start_of_today(now: datetime) -> datetime:
    """Return the beginning of the day that the limits apply to, in the installation's time zone."""
    day = now.astimezone(load_zone(settings.CRONTY_TIME_ZONE))
    return day.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def used_by_job(names: Collection[str], now: datetime) -> dict[tuple[str, Any, int | None], dict[str, float]]:
    """Return what today's runs have used of each unit, by runner, owner and job."""
    rows = AgentRun.objects.filter(runner__in=names, started_at__gte=start_of_today(now), cap="").order_by()
    return {
        (row["runner"], row["owner"], row["job"]): _in_units(row)
        for row in rows.values("runner", "owner", "job").annotate(**_sums(now))
    }


def _used(condition: Q, since: datetime, now: datetime) -> dict[str, float]:
    today = AgentRun.objects.filter(condition, started_at__gte=since, cap="")
    return _in_units(today.order_by().aggregate(**_sums(now)))


def _sums(now: datetime) -> dict[str, Any]:
    until = Coalesce("ended_at", Value(now, output_field=DateTimeField()))
    duration = ExpressionWrapper(until - F("started_at"), output_field=DurationField())
    return {
        "runs": Count("pk"),
        "tokens": Sum(F("tokens_in") + F("tokens_out")),
        "money": Sum("cost"),
        "duration": Sum(duration, filter=Q(is_waiting=False)),
    }


def _in_units(sums: Mapping[str, Any]) -> dict[str, float]:
    return {
        "runs": sums["runs"],
        "minutes": (sums["duration"] or timedelta()) / timedelta(minutes=1),
        "tokens": sums["tokens"] or 0,
        "money": float(sums["money"] or 0),
    }


def smallest_remaining(allowances: Sequence[Allowance], unit: str) -> float | None:
    """Return the smallest remainder of the limits of one unit, or None without such a limit."""
    return min((each.remaining for each in allowances if each.unit == unit), default=None)


def smallest(*amounts: float | None) -> float | None:
    return min((amount for amount in amounts if amount is not None), default=None)
