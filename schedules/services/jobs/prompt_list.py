"""Jobs that are prompts for an agent, as agents list and find them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce

from schedules import clock
from schedules.models import Job
from schedules.models.counting import count_up_to
from schedules.models.jobs import JobQuerySet
from schedules.result import Result
from schedules.services.jobs.references import resolve_job
from schedules.services.permissions import Actor
from schedules.services.runs.prompts import unclaimed_jobs

ENDED = (Job.Status.COMPLETED, Job.Status.FAILED, Job.Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class PromptPage:
    """The first prompts in a state, in the order they fire; each row has `fire_at`."""

    rows: list[Any]
    _listed: list[JobQuerySet]

    def count(self, limit: int) -> int:
        """Count all prompts of the list up to a limit, for each of its parts."""
        return sum(count_up_to(jobs, limit) for jobs in self._listed)


def read_prompts(
    actor: Actor,
    state: str,
    columns: Callable[[JobQuerySet], Any],
    size: int,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> PromptPage:
    """Read the first prompts that fire between two moments; `columns` adds what the caller shows to a query."""
    bounds = {"fire_at__gte": start, "fire_at__lte": end}
    wanted = {lookup: moment for lookup, moment in bounds.items() if moment}
    parts = [jobs.filter(**wanted) for jobs in _parts(actor, state)]
    # Every pending prompt has a next run, so its index needs no place for nulls.
    first = "fire_at" if state == Job.Status.PENDING else F("fire_at").asc(nulls_last=True)
    ordered = [jobs.order_by(first, "pk") for jobs in parts]
    rows = [row for jobs in ordered for row in columns(jobs)[:size]]
    if state in ENDED:
        rows.sort(key=lambda row: (row.fire_at is None, row.fire_at, row.pk))
    return PromptPage(rows, ordered)


def find_prompt(actor: Actor, reference: str) -> Result[Job | None]:
    """Return the prompt that is meant, or None."""
    return resolve_job(_prompts(actor), reference)


def _prompts(actor: Actor) -> JobQuerySet:
    return actor.jobs().filter(task="prompt")


def _parts(actor: Actor, state: str) -> list[JobQuerySet]:
    """Annotate when prompts in this state fire, or fired last; return them in parts, the earlier part first.

    Prompts that are due and that no agent has claimed are pending. Indexes have the orders of long lists; of those that
    have ended, that is the list of one-time prompts.
    """
    prompts = _prompts(actor)
    listed = prompts.listed(state)
    match state:
        case Job.Status.PENDING:
            parts = [listed.annotate(fire_at=F("next_run_at"))]
            if unclaimed := unclaimed_jobs(actor, clock.now()):
                due = prompts.filter(pk__in=unclaimed).annotate(fire_at=Coalesce("run_at", "last_run_at"))
                parts.insert(0, due)
            return parts
        case Job.Status.PAUSED:
            return [listed.annotate(fire_at=F("run_at"))]
        case Job.Status.RUNNING:
            claimed = listed.exclude(pk__in=unclaimed_jobs(actor, clock.now()))
            return [claimed.annotate(fire_at=Coalesce("next_run_at", "run_at", "last_run_at"))]
    repeating = listed.filter(run_at=None).annotate(fire_at=F("last_run_at"))
    return [listed.filter(run_at__isnull=False).annotate(fire_at=F("run_at")), repeating]
