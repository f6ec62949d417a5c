"""Incidents: raised when something goes wrong, ended when it is over; `engine.alerts` tells people of both.

Raising one costs one statement, and raising one that is open already changes nothing, so any code may do it.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from django.db.models import Case, F, QuerySet, When

from schedules import limits
from schedules.engine.event_deliveries import publish_missed
from schedules.models import Incident, Job
from schedules.models.incidents import LONGEST_DETAILS

Kind = Incident.Kind


class News(NamedTuple):
    """Something that went wrong."""

    kind: Incident.Kind
    owner_id: int
    subject: str
    """What it is about, the same each time."""
    name: str
    """How people call that."""
    details: str = ""
    job_id: int | None = None

    @classmethod
    def of_job(cls, kind: Incident.Kind, job: Job, details: str) -> "News":
        return cls(kind, job.owner_id, subject_of(job.pk), job.name, details, job.pk)


def subject_of(job_id: int) -> str:
    return f"job {job_id}"


def raise_incidents(news: Iterable[News], now: datetime) -> None:
    """Open an incident for each, unless one of the same kind and subject is open; its owner is told soon."""
    Incident.objects.bulk_create(
        (
            Incident(
                **item._replace(
                    name=item.name[: limits.NAME_LENGTH], details=item.details[:LONGEST_DETAILS]
                )._asdict(),
                opened_at=now,
                due_at=now,
            )
            for item in news
        ),
        ignore_conflicts=True,
    )


def raise_missed(rows: Iterable[tuple[int, int, str]], now: datetime) -> None:
    """Raise incidents for missed slots: the job, how many, and why; notices are not reported by notices."""
    missed: dict[int, tuple[int, str]] = {}
    for job_id, count, reason in rows:
        missed[job_id] = (missed.get(job_id, (0, ""))[0] + count, reason)
    jobs = Job.objects.kept().without_notices().filter(pk__in=missed).only("pk", "owner_id", "name")
    news = []
    for job in jobs.order_by("pk"):
        count, reason = missed[job.pk]
        sentence = f"{count} run{' was' if count == 1 else 's were'} missed. {reason}"
        news.append(News.of_job(Kind.MISSED, job, sentence.strip()))
    raise_incidents(news, now)
    publish_missed(missed, now)


def raise_incident(
    kind: Incident.Kind,
    owner_id: int,
    subject: str,
    name: str,
    details: str,
    now: datetime,
    *,
    job_id: int | None = None,
) -> None:
    """Tell a person of something that waits for them or went wrong: once, and again if it lasts.

    `subject` identifies it, like "approval 17", and is given again to end it; `name` is what the message calls it.
    """
    raise_incidents([News(kind, owner_id, subject, name, details, job_id)], now)


def end_incident(kind: Incident.Kind, owner_id: int, subject: str, now: datetime, ending: str = "") -> bool:
    """End it if it is open; with an `ending`, like "Approved", whoever was told of it gets a second message."""
    return end_all(Incident.objects.filter(kind=kind, owner=owner_id, subject=subject), now, ending) > 0


def end_all(incidents: QuerySet[Incident], now: datetime, ending: str = "") -> int:
    """End those of these incidents that are open; return how many there were."""
    # What was not told yet is told with its end, in one message.
    due_at = Case(When(told=0, then=F("due_at")), default=now) if ending else None
    return incidents.filter(ended_at=None).update(ended_at=now, ending=ending, due_at=due_at)


def of_jobs(kind: Incident.Kind, job_ids: Collection[int]) -> QuerySet[Incident]:
    return Incident.objects.filter(kind=kind, job__in=job_ids)
