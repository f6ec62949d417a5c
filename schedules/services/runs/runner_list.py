"""The list of runners that a person may use, with their last runs and what remains of today's limits."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schedules.agents.allowances import Allowance, allowances
from schedules.agents.catalog import catalog
from schedules.agents.choice import choose, default_of, is_always_inbox, usable
from schedules.agents.definitions import Runner
from schedules.models import AgentRun, Execution, Job
from schedules.services.permissions import Actor

LAST_RUNS = 5
# How many of a person's newest runs are scanned for those of each runner.
_MAX_SCANNED = 200


@dataclass(frozen=True, slots=True)
class ListedRunner:
    """What people and agents see of a runner: never the command that starts it."""

    name: str
    runner: Runner
    is_default: bool
    allowances: Sequence[Allowance]
    last_runs: Sequence[AgentRun]

    @property
    def limits(self) -> str:
        """The limits per run and per day."""
        return self.runner.limits_in_words()

    @property
    def left(self) -> list[str]:
        """What remains today of each daily limit."""
        return [each.words for each in self.allowances]

    @property
    def used_up(self) -> str:
        """Which daily limit keeps the next run from starting; empty if none does."""
        return next((each.used_up_message for each in self.allowances if each.is_used_up), "")


def list_runners(actor: Actor, now: datetime, *, with_runs: bool = True) -> list[ListedRunner]:
    """Return the runners that this person or agent may use; staff see all of them on the pages."""
    runners = catalog.runners() if actor.sees_all else usable(actor.user, is_agent=actor.is_agent)
    default = default_of(actor.user)
    runs = _last_runs(actor, list(runners)) if with_runs else {}
    return [
        ListedRunner(
            name,
            runner,
            name == default,
            allowances(name, runner, actor.user.pk, None, now),
            runs.get(name, ()),
        )
        for name, runner in runners.items()
    ]


def runner_of_job(job: Job, now: datetime) -> ListedRunner | None:
    """Return the runner that gets a job's prompts, with what remains of all its limits; None if it is the inbox."""
    if job.task != "prompt":
        return None
    named = job.argument("runner")
    if named is None and is_always_inbox():
        return None
    chosen = choose(job.owner, named if isinstance(named, str) else None)
    if chosen.runner is None:
        return None
    left = allowances(chosen.name, chosen.runner, job.owner_id, job.pk, now)
    return ListedRunner(chosen.name, chosen.runner, is_default=named is None, allowances=left, last_runs=())


def _last_runs(actor: Actor, names: Sequence[str]) -> Mapping[str, Sequence[AgentRun]]:
    newest = AgentRun.objects.order_by("-started_at", "-pk").select_related("execution", "owner")
    newest = newest.defer("answer", "tools", "denials", "execution__result")
    if actor.sees_all:
        return {name: list(newest.filter(runner=name)[:LAST_RUNS]) for name in names}
    by_runner: dict[str, list[Any]] = defaultdict(list)
    for run in newest.filter(owner=actor.user.pk)[:_MAX_SCANNED]:
        if len(by_runner[run.runner]) < LAST_RUNS:
            by_runner[run.runner].append(run)
    return by_runner


def agent_run_of(run: Execution) -> AgentRun | None:
    """Return what the agent of the last attempt did, or None if no runner worked on this run."""
    if run.task != "prompt":
        return None
    return AgentRun.objects.filter(execution=run.pk).order_by("-attempt").first()
