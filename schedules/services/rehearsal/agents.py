"""Prompts in a rehearsal: which runner takes them, what stops and limits keep from starting, and what they will spend."""

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
from schedules.services.rehearsal.courses import Budget, Course, Period
from schedules.when.slot_batches import Batch

# From how many of a job's last runs, and how old ones, its spend is estimated.
LAST_RUNS = 20
OLDEST = timedelta(days=90)
_MINUTE = timedelta(minutes=1)


class Usual(NamedTuple):
    """What a run of one job usually uses: medians of its last runs; None for what they did not report."""

    took: timedelta | None = None
    tokens: float | None = None
    money: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Spend:
    """What the runs of a period are expected to use; None if no past run tells."""

    runs: int
    tokens: int | None = None
    money: Decimal | None = None
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A job that gives prompts to a runner."""

    choice: Choice
    usual: Usual
    has_gate: bool = False

    @property
    def runner(self) -> Runner | None:
        return self.choice.runner


def read_prompts(rows: Sequence[Any], now: datetime) -> dict[int, Prompt]:
    """Return the prompts among the rows of jobs, which have their task and arguments."""
    named = {row.pk: (row.owner_id, argument_of(row, "runner")) for row in rows if row.task == "prompt"}
    if not named:
        return {}
    usual = usual_of(list(named), now)
    gated = {row.pk for row in rows if row.task == "prompt" and argument_of(row, "gate")}
    return {
        key: Prompt(choice, usual.get(key, Usual()), key in gated)
        for key, choice in choose_for_all(named).items()
    }


def usual_of(job_ids: Collection[int], now: datetime) -> dict[int, Usual]:
    """Return what the last runs of these prompts used, each value the median."""
    newest = Window(RowNumber(), partition_by="job", order_by=F("started_at").desc())
    ended = AgentRun.objects.filter(
        job__in=job_ids, started_at__gte=now - OLDEST, ended_at__isnull=False, cap=""
    )
    rows: dict[int, list[AgentRun]] = defaultdict(list)
    columns = ("job", "started_at", "is_waiting", "ended_at", "tokens_in", "tokens_out", "cost")
    for run in ended.annotate(place=newest).filter(place__lte=LAST_RUNS).order_by().only(*columns):
        rows[run.job_id or 0].append(run)
    return {job_id: _usual(runs) for job_id, runs in rows.items()}


def _usual(runs: Sequence[AgentRun]) -> Usual:
    took = [
        (run.ended_at - run.started_at).total_seconds() for run in runs if run.ended_at and not run.is_waiting
    ]
    tokens = [run.tokens for run in runs if run.tokens]
    money = [run.cost for run in runs if run.cost is not None]
    return Usual(
        timedelta(seconds=median(took)) if took else None,
        median(tokens) if tokens else None,
        median(money) if money else None,
    )


def apply_stops(courses: Sequence[Course], prompts: Mapping[int, Prompt]) -> None:
    """Leave out the prompts of people whose agents are stopped, and note those that no runner would take."""
    given = [course for course in courses if course.job.pk in prompts]
    stops = stops_in_force({course.job.owner_id for course in given}) if given else {}
    for course in given:
        prompt = prompts[course.job.pk]
        course.problem = course.problem or prompt.choice.problem
        if prompt.runner is not None and (stop := stops.get(course.job.owner_id)):
            course.leave_out_all(stop.sentence)


def apply_limits(
    courses: Sequence[Course], prompts: Mapping[int, Prompt], period: Period, budget: Budget
) -> None:
    """Leave out the runs for which a limit of the day will be used up, if runs use as much as they usually do."""
    by_runner: dict[str, list[Course]] = defaultdict(list)
    for course in courses:
        prompt = prompts.get(course.job.pk)
        if prompt and prompt.runner and any(caps_of(prompt.runner).values()):
            by_runner[prompt.choice.name].append(course)
    if not by_runner:
        return
    is_today = start_of_today(period.start) == start_of_today(period.now)
    used = used_by_job(list(by_runner), period.now) if is_today else {}
    for name, group in by_runner.items():
        if not budget.allows(sum(course.count for course in group)):
            for course in group:
                course.is_unchecked = True
            continue
        runner = prompts[group[0].job.pk].runner
        assert runner
        _Day(name, runner, used).hold(group, prompts, period.start)


class _Day:
    """What a runner has used of its limits in the day that is rehearsed, by whose limits they are."""

    def __init__(
        self, name: str, runner: Runner, used: Mapping[tuple[str, Any, int | None], Mapping[str, float]]
    ) -> None:
        self._name, self._caps = name, caps_of(runner)
        self._used: dict[tuple[str, Any], dict[str, float]] = {}
        for (runner_name, owner_id, job_id), amounts in used.items():
            if runner_name == name:
                self._add(owner_id, job_id, amounts)

    def hold(self, courses: Sequence[Course], prompts: Mapping[int, Prompt], start: datetime) -> None:
        """Go through the runs of this runner in order, and keep those that its limits allow."""
        runs = sorted((at, place) for place, course in enumerate(courses) for at in course.moments())
        kept: dict[int, list[Batch]] = defaultdict(list)
        day = start_of_today(start)
        for at, place in runs:
            if (today := start_of_today(max(at, start))) != day:
                day, self._used = today, {}
            course = courses[place]
            if reason := self._used_up(course.job.owner_id, course.job.pk):
                course.leave_out(reason, at)
            else:
                kept[place].append(Batch(at))
                usual = prompts[course.job.pk].usual
                self._add(course.job.owner_id, course.job.pk, _amounts(usual))
        for place, course in enumerate(courses):
            course.starts = kept[place]

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
                    return allowance.words_if_used_up
        return ""


def _amounts(usual: Usual) -> dict[str, float]:
    return {
        "runs": 1,
        "minutes": usual.took / _MINUTE if usual.took else 0,
        "tokens": usual.tokens or 0,
        "money": float(usual.money or 0),
    }


def spend_of(course: Course, prompt: Prompt) -> Spend:
    """Return what the starts of a job are expected to use."""
    runs, usual = course.count, prompt.usual
    return Spend(
        runs,
        None if usual.tokens is None else round(usual.tokens * runs),
        None if usual.money is None else usual.money * runs,
        None if usual.took is None else usual.took / _MINUTE * runs,
    )
