"""Jobs that send notifications: those that are still to be sent, and the last delivery of each."""

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
    """Return a page of the notifications that are still to be sent, and how many there are, up to a limit.

    `columns` turns the query into one that reads what the caller shows.
    """
    unsent = actor.jobs().filter(IS_UNSENT_NOTIFICATION)
    if topic is not None:
        of_topic = unsent.alias(topic=NotificationTopic()).filter(topic=topic)
        # By key alone: in the order of the list, the database would look through all notifications.
        unsent = Job.objects.filter(pk__in=of_topic.order_by().values("pk"))
    page = list(columns(unsent)[start : start + size])
    return page, count_beside(page, unsent, size=size, start=start)


def soonest_notifications(actor: Actor, limit: int) -> list[Job]:
    """Return notifications with their arguments, those that are sent next first, then the newest others."""
    if actor.sees_all:
        # No index has the notifications of everybody: look through the jobs that run next, and the newest.
        soon = actor.jobs().armed().order_by("next_run_at", "-pk").values_list("pk", "task")[:WALKED]
        newest = actor.jobs().order_by("-pk").values_list("pk", "task")[:WALKED]
        keys = list(dict.fromkeys(pk for pk, task in (*soon, *newest) if task == "notify"))[:limit]
        return sorted(_read(Job.objects.filter(pk__in=keys)), key=lambda job: keys.index(job.pk))
    # Without the status, for the sake of the index; only pending jobs have a next run.
    armed = actor.jobs().filter(IS_UNSENT_NOTIFICATION, next_run_at__isnull=False)
    planned = _read(armed.order_by("next_run_at", "-pk")[:limit])
    others = actor.jobs().filter(task="notify", next_run_at=None)
    return planned + _read(others[: limit - len(planned)])


def _read(jobs: JobQuerySet) -> list[Job]:
    return list(jobs.only("pk", "task", "kwargs", "args"))


def last_deliveries(jobs: Sequence[Job]) -> list[Execution]:
    """Return the last delivery of each of these jobs, which may be under way, oldest first."""
    # Those that wait for their first start have not been sent yet.
    sent = Execution.objects.filter(~Q(status=Execution.Status.QUEUED, attempt=0), job=OuterRef("pk"))
    newest = Subquery(sent.order_by("-scheduled_for").values("pk")[:1])
    rows = Job.objects.filter(pk__in=[job.pk for job in jobs]).annotate(newest=newest)
    keys = list(rows.values_list("newest", flat=True))
    return list(Execution.objects.filter(pk__in=keys).order_by("scheduled_for"))
