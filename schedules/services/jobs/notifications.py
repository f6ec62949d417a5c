"""Jobs that send notifications: list the unsent ones, and the last delivery of each."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import OuterRef, Q, Subquery

from schedules.models import Execution, Job
from schedules.models.counting import count_beside
from schedules.models.job_table import IS_UNSENT_NOTIFICATION, NotificationTopic
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import WALKED
from schedules.services.permissions import Actor


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
    return page, count_beside(page, unsent, size=size, start=start)


def soonest_notifications(actor: Actor, limit: int) -> list[Job]:
    """Return notifications with their arguments: first those sent next, then the newest others."""
    if actor.sees_all:
        # Everybody's notifications have no index: scan the jobs that run next, and the newest.
        soon = actor.jobs().armed().order_by("next_run_at", "-pk").values_list("pk", "task")[:WALKED]
        newest = actor.jobs().order_by("-pk").values_list("pk", "task")[:WALKED]
        keys = list(dict.fromkeys(pk for pk, task in (*soon, *newest) if task == "notify"))[:limit]
        return sorted(_read(Job.objects.filter(pk__in=keys)), key=lambda job: keys.index(job.pk))
    # The index needs no status: only pending jobs have a next run.
    armed = actor.jobs().filter(IS_UNSENT_NOTIFICATION, next_run_at__isnull=False)
    planned = _read(armed.order_by("next_run_at", "-pk")[:limit])
    others = actor.jobs().filter(task="notify", next_run_at=None)
    return planned + _read(others[: limit - len(planned)])


def _read(jobs: JobQuerySet) -> list[Job]:
    return list(jobs.only("pk", "task", "kwargs", "args"))


def last_deliveries(jobs: Sequence[Job]) -> list[Execution]:
    """Return the last delivery of each of these jobs, oldest first; it may be under way."""
    # Leave out deliveries that wait for their first attempt.
    sent = Execution.objects.filter(~Q(status=Execution.Status.QUEUED, attempt=0), job=OuterRef("pk"))
    newest = Subquery(sent.order_by("-scheduled_for").values("pk")[:1])
    rows = Job.objects.filter(pk__in=[job.pk for job in jobs]).annotate(newest=newest)
    keys = list(rows.values_list("newest", flat=True))
    return list(Execution.objects.filter(pk__in=keys).order_by("scheduled_for"))
