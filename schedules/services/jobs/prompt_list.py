"""The lists of prompts and of notifications for agents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from schedules import clock
from schedules.models import Execution, Job
from schedules.models.counting import count_up_to
from schedules.models.job_table import IS_UNSENT_NOTIFICATION, NotificationTopic
from schedules.models.jobs import JobQuerySet
from schedules.result import Result
from schedules.services.jobs.references import resolve_job
from schedules.services.permissions import Actor
from schedules.services.runs.prompts import unclaimed_jobs

ENDED = (Job.Status.COMPLETED, Job.Status.FAILED, Job.Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class PromptPage:
    """The first prompts in a state, in the order in which they fire; each row has `fire_at`."""

    rows: list[Any]
    _listed: list[JobQuerySet]

    def count(self, limit: int) -> int:
        """Count all prompts of the list, each of its parts up to a limit."""
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
    filters = {lookup: moment for lookup, moment in bounds.items() if moment}
    parts = [jobs.filter(**filters) for jobs in _parts(actor, state)]
    # Every pending prompt has a next run, so the order of its index needs no rule for nulls.
    first = "fire_at" if state == Job.Status.PENDING else F("fire_at").asc(nulls_last=True)
    ordered = [jobs.order_by(first, "pk") for jobs in parts]
    rows = [row for jobs in ordered for row in columns(jobs)[:size]]
    if state in ENDED:
        rows.sort(key=lambda row: (row.fire_at is None, row.fire_at, row.pk))
    return PromptPage(rows, ordered)


def find_prompt(actor: Actor, reference: str) -> Result[Job | None]:
    """Return the prompt that a reference means, or None."""
    return resolve_job(_prompts(actor), reference)


def _prompts(actor: Actor) -> JobQuerySet:
    return actor.jobs().filter(task="prompt")


def _parts(actor: Actor, state: str) -> list[JobQuerySet]:
    """Return the prompts in this state in parts, in order, annotated with when they fire or last fired.

    Due prompts that no agent has claimed are pending. Long lists are ordered by an index; among ended prompts, only the
    list of one-time prompts is long.
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


def unsent_notifications(
    actor: Actor, columns: Callable[[JobQuerySet], Any], *, topic: str | None, size: int, start: int
) -> tuple[list[Any], int]:
    """Return a page of the unsent notifications, and how many there are, up to a limit.

    `columns` adds the columns that the caller shows to a query.
    """
    unsent = actor.jobs().filter(IS_UNSENT_NOTIFICATION)
    if topic is not None:
        of_topic = unsent.alias(topic=NotificationTopic()).filter(topic=topic)
        # By key, or the database scans all notifications in the order of the list.
        unsent = Job.objects.filter(pk__in=of_topic.order_by().values("pk"))
    page = list(columns(unsent)[start : start + size])
    is_last = len(page) < size and (page or not start)
    return page, start + len(page) if is_last else count_up_to(unsent)


def last_deliveries(jobs: Sequence[Job]) -> list[Execution]:
    """Return the last delivery of each of these jobs, oldest first; it may be under way."""
    # Leave out deliveries that wait for their first attempt.
    sent = Execution.objects.filter(~Q(status=Execution.Status.QUEUED, attempt=0), job=OuterRef("pk"))
    newest = Subquery(sent.order_by("-scheduled_for").values("pk")[:1])
    rows = Job.objects.filter(pk__in=[job.pk for job in jobs]).annotate(newest=newest)
    keys = list(rows.values_list("newest", flat=True))
    return list(Execution.objects.filter(pk__in=keys).order_by("scheduled_for"))
