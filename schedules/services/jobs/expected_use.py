"""What agents are expected to use in a period: tokens, money and minutes, within stops and the limits of runners."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any, NamedTuple

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from schedules.agents.allowances import Allowance, caps_of, start_of_today, used_by_job
from schedules.agents.choice import Choice, choose_for_all, stops_in_force
from schedules.agents.definitions import Runner
from schedules.models import AgentRun, Job
from schedules.models.jobs import argument_of
from schedules.when.slot_batches import Batch

# Runs of one runner beyond this are not compared with its limits one by one.
MAX_DECIDED = 50_000
# The use of a job is estimated from its last runs: at most this many, and none older than this.
MAX_RUNS = 20
MAX_AGE = timedelta(days=90)
_MINUTE = timedelta(minutes=1)


class TypicalRun(NamedTuple):
    """What a run of one job typically uses: medians of its last runs, or None if they did not report it."""

    took: timedelta | None = None
    tokens: float | None = None
    money: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A job that gives prompts to a runner, unless the choice has a problem."""

    owner_id: Any
    choice: Choice
    typical: TypicalRun

    @property
    def runner(self) -> Runner | None:
        return self.choice.runner


@dataclass(slots=True)
class LeftOut:
    """The slots of one job that do not run for the same reason."""

    reason: str
    first: datetime
    last: datetime
    count: int


@dataclass(slots=True)
class Plan:
    """One job in a period: what starts, and what is left out."""

    job: Any
    starts: list[Batch] = field(default_factory=list)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    prompt: Prompt | None = None

    @property
    def count(self) -> int:
        return sum(map(len, self.starts))

    @property
    def first(self) -> datetime | None:
        """The first slot, whether it starts or is left out."""
        moments = [batch.first for batch in self.starts[:1]]
        return min([*moments, *(each.first for each in self.left_out.values())], default=None)

    @property
    def problem(self) -> str:
        """Why its runs would fail."""
        return self.prompt.choice.problem if self.prompt else ""

    @property
    def use(self) -> dict[str, Any] | None:
        """What its runs are expected to use, with None for what past runs did not report; None without a runner."""
        if not self.starts or self.prompt is None or self.prompt.runner is None:
            return None
        runs, typical = self.count, self.prompt.typical
        return {
            "runs": runs,
            "tokens": None if typical.tokens is None else round(typical.tokens * runs),
            "money": None if typical.money is None else float(typical.money * runs),
            "minutes": None if typical.took is None else typical.took / _MINUTE * runs,
        }

    def leave_out(self, reason: str, first: datetime, last: datetime, count: int = 1) -> None:
        if entry := self.left_out.get(reason):
            entry.first, entry.last = min(entry.first, first), max(entry.last, last)
            entry.count += count
        else:
            self.left_out[reason] = LeftOut(reason, first, last, count)


@dataclass(frozen=True, slots=True)
class Total:
    """What the agents of all jobs are expected to use."""

    runs: int
    tokens: int
    money: float
    minutes: float
    unknown: int
    """How many jobs have no past runs to estimate from."""
    money_unknown: int
    """How many of the other jobs have runners that report no money."""


def read_prompts(plans: Mapping[int, Plan], now: datetime) -> None:
    """Add runners and typical runs to the plans of prompts."""
    keys = [key for key, plan in plans.items() if plan.job.task == "prompt"]
    if not keys:
        return
    rows = Job.objects.filter(pk__in=keys).values_list("pk", "owner_id", "task", "args", "kwargs", named=True)
    runners = {row.pk: (row.owner_id, argument_of(row, "runner")) for row in rows}
    typical = typical_runs(keys, now)
    for key, choice in choose_for_all(runners).items():
        plans[key].prompt = Prompt(runners[key][0], choice, typical.get(key, TypicalRun()))


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


def apply_stops(plans: Iterable[Plan]) -> None:
    """Leave out the prompts for runners of people whose agents are stopped."""
    prompts = [(plan, plan.prompt) for plan in plans if plan.prompt and plan.prompt.runner]
    stops = stops_in_force({prompt.owner_id for _, prompt in prompts}) if prompts else {}
    for plan, prompt in prompts:
        if stop := stops.get(prompt.owner_id):
            for batch in plan.starts:
                plan.leave_out(stop.sentence, batch.first, batch.last, len(batch))
            plan.starts = []


def apply_limits(plans: Iterable[Plan], start: datetime, now: datetime) -> bool:
    """Leave out the runs for which a daily limit will be used up; return whether there were not too many to check."""
    by_runner: dict[str, list[tuple[Plan, Prompt]]] = defaultdict(list)
    for plan in plans:
        prompt = plan.prompt
        if prompt and prompt.runner and any(caps_of(prompt.runner).values()):
            by_runner[prompt.choice.name].append((plan, prompt))
    if not by_runner:
        return True
    is_today = start_of_today(start) == start_of_today(now)
    used = used_by_job(list(by_runner), now) if is_today else {}
    is_checked = True
    for name, group in by_runner.items():
        if sum(plan.count for plan, _ in group) > MAX_DECIDED:
            is_checked = False
        elif runner := group[0][1].runner:
            _DailyUsage(name, runner, used).apply(group, start)
    return is_checked


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

    def apply(self, group: Sequence[tuple[Plan, Prompt]], start: datetime) -> None:
        """Go through the runs of this runner in order, and leave out those that its limits do not allow."""
        runs = sorted(
            (at, place)
            for place, (plan, _) in enumerate(group)
            for batch in plan.starts
            for at in batch.moments()
        )
        allowed: dict[int, list[Batch]] = defaultdict(list)
        day = start_of_today(start)
        for at, place in runs:
            if (today := start_of_today(max(at, start))) != day:
                day, self._used = today, {}
            plan, prompt = group[place]
            if reason := self._used_up(prompt.owner_id, plan.job.pk):
                plan.leave_out(reason, at, at)
            else:
                allowed[place].append(Batch(at))
                self._add(prompt.owner_id, plan.job.pk, _amounts(prompt.typical))
        for place, (plan, _) in enumerate(group):
            plan.starts = allowed[place]

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


def total_use(plans: Iterable[Plan]) -> Total | None:
    """Add up what agents are expected to use; None if none runs."""
    uses = [use for plan in plans if (use := plan.use)]
    if not uses:
        return None
    known = [use for use in uses if use["minutes"] is not None]
    return Total(
        sum(use["runs"] for use in uses),
        sum(use["tokens"] or 0 for use in known),
        sum(use["money"] or 0 for use in known),
        sum(use["minutes"] for use in known),
        len(uses) - len(known),
        sum(use["money"] is None for use in known),
    )


def use_in_words(total: Total) -> str:
    """Describe what the runs of all jobs will use, and what is not known about it."""
    runs = "1 run" if total.runs == 1 else f"{total.runs:,} runs"
    words = [f"{runs}: {total.tokens:,} tokens, ${total.money:,.2f}, {total.minutes:,.0f} min"]
    if total.unknown:
        words.append(f"{_jobs(total.unknown)} without past runs unknown")
    if total.money_unknown:
        words.append(f"money of {_jobs(total.money_unknown)} unknown")
    return ", ".join(words)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"
