"""Jobs that send notifications: list the unsent ones, and the last delivery of each."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import OuterRef, Q, Subquery

from schedules.models import Execution, Job
from schedules.models.counting import count_up_to
from schedules.models.job_table import IS_UNSENT_NOTIFICATION, NotificationTopic
from schedules.models.jobs import JobQuerySet
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
