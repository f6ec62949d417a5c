"""Details in the rows of the job list: the pending retry, who the run waits for, and the next run shown."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import F, Max, Q

from schedules import engine
from schedules.models import Execution, Incident, Token
from schedules.services.jobs.forecasts import shown_next_run
from schedules.services.permissions import Actor
from schedules.tasks.placeholders import NOTIFICATION


def add_details(jobs: Sequence[Any], actor: Actor, now: datetime) -> None:
    """Set on each job what its row shows beside the standing.

    `retry` is the run that waits for its next attempt, `asking` the key of the run that waits for a person's answer,
    `shown_next_run` the next run that is not skipped, and `held` until when quiet hours hold its message.
    """
    retried = [job.pk for job in jobs if job.standing in ("failing", "retrying")]
    retries = {}
    if retried:
        columns = ("job_id", "attempt", "available_at", "error", "reason")
        rows = Execution.objects.retrying().filter(job__in=retried).order_by("pk")
        retries = {row.job_id: row for row in rows.values_list(*columns, named=True)[: len(retried) * 2]}
    waiting = [job.pk for job in jobs if job.standing == "waiting"]
    asking = (
        dict(Execution.objects.asking().filter(job__in=waiting).values_list("job", "pk")) if waiting else {}
    )
    has_agent = len(asking) < len(waiting) and Token.objects.usable(now).filter(owner=actor.user.pk).exists()
    quiet = engine.quiet_hours_ahead(jobs)
    zone = actor.read_profile().zone if quiet else ""
    for job in jobs:
        job.retry = retries.get(job.pk)
        job.asking = asking.get(job.pk)
        job.waits_for = "for your answer" if job.asking else "for an agent" if has_agent else "for you"
        if job.task == NOTIFICATION:
            job.waits_for = "for the end of quiet hours"
        job.shown_next_run = shown_next_run(job)
        held = job.pk in quiet and job.shown_next_run
        job.held = quiet[job.pk].held_words(held, zone) if held else ""


def add_failing_since(jobs: Sequence[Any]) -> None:
    """Set on each job since when it fails, which its newest incident since its last success says; None if unknown."""
    since: dict[int, datetime] = {}
    if jobs:
        no_success = Q(job__last_success_at=None) | Q(opened_at__gt=F("job__last_success_at"))
        incidents = Incident.objects.filter(
            no_success, kind=Incident.Kind.FAILING, job__in=[job.pk for job in jobs]
        )
        since = dict(incidents.order_by().values_list("job").annotate(Max("opened_at")))
    for job in jobs:
        # The first failure of a job is its last run.
        job.failing_since = since.get(job.pk) or (job.last_run_at if job.failure_streak == 1 else None)
