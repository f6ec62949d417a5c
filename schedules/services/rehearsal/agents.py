"""Prompts in a rehearsal: their runners, the runs that stops and limits prevent, and the expected spend."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any, NamedTuple

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from schedules.agents.allowances import Allowance, caps_of, start_of_today, used_by_job
from schedules.agents.choice import Choice, choose_for_all
from schedules.agents.definitions import Runner
from schedules.agents.stops import stops_in_force
from schedules.models import AgentRun
from schedules.models.jobs import argument_of
from schedules.services.rehearsal.timelines import Budget, Period, Timeline
from schedules.when.slot_batches import Batch

# The spend of a job is estimated from its last runs: at most this many, and none older than this.
MAX_RUNS = 20
MAX_AGE = timedelta(days=90)
_MINUTE = timedelta(minutes=1)


class TypicalRun(NamedTuple):
    """What a run of one job typically uses: medians of its last runs, or None if they did not report it."""

    took: timedelta | None = None
    tokens: float | None = None
    money: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Spend:
    """What the runs of a period are expected to use; None if no past run reported it."""

    runs: int
    tokens: int | None = None
    money: Decimal | None = None
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A job that gives prompts to a runner."""

    choice: Choice
    typical: TypicalRun
    has_gate: bool = False

    @property
    def runner(self) -> Runner | None:
        return self.choice.runner


def read_prompts(rows: Sequence[Any], now: datetime) -> dict[int, Prompt]:
    """Return the prompts among the rows of jobs, which have their task and arguments."""
    runners = {row.pk: (row.owner_id, argument_of(row, "runner")) for row in rows if row.task == "prompt"}
    if not runners:
        return {}
    typical = typical_runs(list(runners), now)
    gated = {row.pk for row in rows if row.task == "prompt" and argument_of(row, "gate")}
    return {
        key: Prompt(choice, typical.get(key, TypicalRun()), key in gated)
        for key, choice in choose_for_all(runners).items()
    }


def typical_runs(job_ids: Collection[int], now: datetime) -> dict[int, TypicalRun]:
    """Return the medians of what the last runs of these prompts used."""
    newest = Window(RowNumber(), partition_by="job", order_by=F("started_at").desc())
    ended = AgentRun.objects.filter(
        job__in=job_ids, started_at__gte=now - MAX_AGE, ended_at__isnull=False, cap=""
    )
    rows: dict[int, list[AgentRun]] = defaultdict(list)
    columns = ("job", "started_at", "is_waiting", "ended_at", "tokens_in", "tokens_out", "cost")
    for run in ended.annotate(place=newest).filter(place__lte=MAX_RUNS).order_by().only(*columns):
        rows[run.job_id or 0].append(run)
    return {job_id: _typical_run(runs) for job_id, runs in rows.items()}


def _typical_run(runs: Sequence[AgentRun]) -> TypicalRun:
    took = [
        (run.ended_at - run.started_at).total_seconds() for run in runs if run.ended_at and not run.is_waiting
    ]
    tokens = [run.tokens for run in runs if run.tokens]
    money = [run.cost for run in runs if run.cost is not None]
    return TypicalRun(
        timedelta(seconds=median(took)) if took else None,
        median(tokens) if tokens else None,
        median(money) if money else None,
    )


def apply_stops(timelines: Sequence[Timeline], prompts: Mapping[int, Prompt]) -> None:
    """Leave out the prompts of people whose agents are stopped, and note those without a usable runner."""
    of_prompts = [timeline for timeline in timelines if timeline.job.pk in prompts]
    stops = stops_in_force({timeline.job.owner_id for timeline in of_prompts}) if of_prompts else {}
    for timeline in of_prompts:
        prompt = prompts[timeline.job.pk]
        timeline.problem = timeline.problem or prompt.choice.problem
        if prompt.runner is not None and (stop := stops.get(timeline.job.owner_id)):
            timeline.leave_out_all(stop.sentence)


def apply_limits(
    timelines: Sequence[Timeline], prompts: Mapping[int, Prompt], period: Period, budget: Budget
) -> None:
    """Leave out the runs for which a daily limit will be used up, if runs use as much as they typically do."""
    by_runner: dict[str, list[Timeline]] = defaultdict(list)
    for timeline in timelines:
        prompt = prompts.get(timeline.job.pk)
        if prompt and prompt.runner and any(caps_of(prompt.runner).values()):
            by_runner[prompt.choice.name].append(timeline)
    if not by_runner:
        return
    is_today = start_of_today(period.start) == start_of_today(period.now)
    used = used_by_job(list(by_runner), period.now) if is_today else {}
    for name, group in by_runner.items():
        if not budget.allows(sum(timeline.count for timeline in group)):
            for timeline in group:
                timeline.is_unchecked = True
            continue
        runner = prompts[group[0].job.pk].runner
        assert runner
        _DailyUsage(name, runner, used).apply(group, prompts, period.start)


class _DailyUsage:
    """What has been used of the daily limits of one runner, of each person and of each job."""

    def __init__(
        self, name: str, runner: Runner, used: Mapping[tuple[str, Any, int | None], Mapping[str, float]]
    ) -> None:
        self._name, self._caps = name, caps_of(runner)
        self._used: dict[tuple[str, Any], dict[str, float]] = {}
        for (runner_name, owner_id, job_id), amounts in used.items():
            if runner_name == name:
                self._add(owner_id, job_id, amounts)

    def apply(self, timelines: Sequence[Timeline], prompts: Mapping[int, Prompt], start: datetime) -> None:
        """Go through the runs of this runner in order, and leave out those that its limits do not allow."""
        runs = sorted((at, place) for place, timeline in enumerate(timelines) for at in timeline.moments())
        allowed: dict[int, list[Batch]] = defaultdict(list)
        day = start_of_today(start)
        for at, place in runs:
            if (today := start_of_today(max(at, start))) != day:
                day, self._used = today, {}
            timeline = timelines[place]
            if reason := self._used_up(timeline.job.owner_id, timeline.job.pk):
                timeline.leave_out(reason, at)
            else:
                allowed[place].append(Batch(at))
                typical = prompts[timeline.job.pk].typical
                self._add(timeline.job.owner_id, timeline.job.pk, _amounts(typical))
        for place, timeline in enumerate(timelines):
            timeline.starts = allowed[place]

    def _scopes(self, owner_id: Any, job_id: int | None) -> Iterator[tuple[str, Any]]:
        return (scope for scope in (("runner", None), ("person", owner_id), ("job", job_id)))

    def _add(self, owner_id: Any, job_id: int | None, amounts: Mapping[str, float]) -> None:
        for scope in self._scopes(owner_id, job_id):
            total = self._used.setdefault(scope, {})
            for unit, amount in amounts.items():
                total[unit] = total.get(unit, 0) + amount

    def _used_up(self, owner_id: Any, job_id: int) -> str:
        for scope in self._scopes(owner_id, job_id):
            for unit, cap in self._caps[scope[0]]:
                used = self._used.get(scope, {}).get(unit, 0)
                allowance = Allowance(scope[0], self._name, unit, cap, used)
                if allowance.is_used_up:
                    return allowance.used_up_message
        return ""


def _amounts(typical: TypicalRun) -> dict[str, float]:
    return {
        "runs": 1,
        "minutes": typical.took / _MINUTE if typical.took else 0,
        "tokens": typical.tokens or 0,
        "money": float(typical.money or 0),
    }


def spend_of(timeline: Timeline, prompt: Prompt) -> Spend:
    """Return what the starts of a job are expected to use."""
    runs, typical = timeline.count, prompt.typical
    return Spend(
        runs,
        None if typical.tokens is None else round(typical.tokens * runs),
        None if typical.money is None else typical.money * runs,
        None if typical.took is None else typical.took / _MINUTE * runs,
    )
