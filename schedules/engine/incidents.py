"""Incidents: raise them when something goes wrong, and end them when it is over; `engine.alerts` notifies people.

Raising one costs one statement, and raising one that is already open changes nothing, so any code may do it. A job that
keeps failing is also paused.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Case, F, Q, QuerySet, When

from schedules import limits
from schedules.engine.event_deliveries import publish_missed
from schedules.engine.pauses import note, pause
from schedules.models import Incident, Job
from schedules.models.incidents import LONGEST_DETAILS
from schedules.models.jobs import PAUSED_AFTER

IncidentKind = Incident.Kind
# A shorter time without any cluster counts as a restart, and jobs that it delayed are alerted of only if they do not run
# again soon.
OUTAGE = timedelta(minutes=2)
RUNS_AGAIN_WITHIN = timedelta(minutes=15)
# The prefix of the subject of incidents about proposed jobs.
_PROPOSAL = "proposal "
# The prefixes of the subjects of incidents about keys that expire.
TOKEN, SECRET = "token ", "secret "
# And about a host of several that stopped responding.
HOST = "host "
_STOPPED = (Job.Status.PAUSED, Job.Status.CANCELLED)


class News(NamedTuple):
    """Something that went wrong."""

    kind: Incident.Kind
    owner_id: int
    subject: str
    """A key for what it is about, the same each time."""
    name: str
    """The name that people see."""
    details: str = ""
    job_id: int | None = None
    due_at: datetime | None = None
    """When to alert the owner, if not soon."""

    @classmethod
    def of_job(cls, kind: Incident.Kind, job: Job, details: str) -> "News":
        return cls(kind, job.owner_id, subject_of(job.pk), job.name, details, job.pk)


class Missed(NamedTuple):
    """Slots of one job that were missed."""

    job_id: int
    slots: int
    reason: str
    since: datetime
    """The first of them."""


def subject_of(job_id: int) -> str:
    return f"job {job_id}"


def raise_incidents(news: Iterable[News], now: datetime) -> None:
    """Open an incident for each, unless one of the same kind and subject is open; the owner gets an alert soon."""
    Incident.objects.bulk_create(
        (
            Incident(
                **item._replace(
                    name=item.name[: limits.NAME_LENGTH],
                    details=item.details[:LONGEST_DETAILS],
                    due_at=item.due_at or now,
                )._asdict(),
                opened_at=now,
            )
            for item in news
        ),
        ignore_conflicts=True,
    )


def raise_proposals(proposals: Iterable[tuple[Job, str]], now: datetime) -> None:
    """Raise incidents for jobs that an agent has proposed, each with its schedule in words."""
    raise_incidents(
        [
            News(
                IncidentKind.NEEDS_YOU,
                job.owner_id,
                f"{_PROPOSAL}{job.pk}",
                job.name,
                f"{job.proposed_by} proposes it, and it waits until you confirm it: {schedule}.",
                job.pk,
            )
            for job, schedule in proposals
        ],
        now,
    )


def is_proposal(incident: Incident) -> bool:
    """Return whether an incident is about a job that an agent has proposed."""
    return incident.kind == IncidentKind.NEEDS_YOU and incident.subject.startswith(_PROPOSAL)


def end_confirmed(open_incidents: QuerySet[Incident], now: datetime) -> None:
    """End those about proposed jobs that no longer wait; silently if the job was discarded or no alert was sent."""
    proposals = open_incidents.filter(kind=IncidentKind.NEEDS_YOU, subject__startswith=_PROPOSAL)
    over = proposals.exclude(job__in=Job.objects.proposed().order_by().values("pk"))
    is_confirmed = Q(job__proposed_at=None, job__deleted_at=None, job__isnull=False)
    end_all(over.filter(is_confirmed, told__gt=0), now, "Confirmed")
    end_all(over, now)


def raise_missed(rows: Iterable[Missed], now: datetime) -> None:
    """Raise incidents for missed slots; alerts about alerts are left out."""
    missed: dict[int, Missed] = {}
    for row in rows:
        earlier = missed.get(row.job_id, row._replace(slots=0))
        missed[row.job_id] = row._replace(
            slots=earlier.slots + row.slots, since=min(earlier.since, row.since)
        )
    jobs = Job.objects.kept().without_notices().filter(pk__in=missed).only("pk", "owner_id", "name")
    news = []
    for job in jobs.order_by("pk"):
        _, count, reason, since = missed[job.pk]
        sentence = f"{count} run{' was' if count == 1 else 's were'} missed. {reason}"
        due_at = now if now - since >= OUTAGE else now + RUNS_AGAIN_WITHIN
        news.append(News.of_job(IncidentKind.MISSED, job, sentence.strip())._replace(due_at=due_at))
    raise_incidents(news, now)
    publish_missed({job_id: (row.slots, row.reason) for job_id, row in missed.items()}, now)


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
    """Alert a person that something waits for them or went wrong: once, and again if it lasts.

    `subject`, like "approval 17", identifies the incident, also to end it; `name` is what the message calls it.
    """
    raise_incidents([News(kind, owner_id, subject, name, details, job_id)], now)


def end_incident(kind: Incident.Kind, owner_id: int, subject: str, now: datetime, ending: str = "") -> bool:
    """End an incident if it is open; with an `ending`, like "Approved", whoever was alerted gets a second message."""
    return end_all(Incident.objects.filter(kind=kind, owner=owner_id, subject=subject), now, ending) > 0


def end_for_everybody(kind: Incident.Kind, subject: str, now: datetime) -> None:
    """End the incidents about a subject that several people may have been alerted of, without a message."""
    end_all(Incident.objects.filter(kind=kind, subject=subject), now)


def subject_of_secret(secret_id: int) -> str:
    return f"{SECRET}{secret_id}"


def end_all(incidents: QuerySet[Incident], now: datetime, ending: str = "") -> int:
    """End those of these incidents that are open; return how many there were."""
    # If no alert was sent yet, one message will report the beginning and the end.
    due_at = Case(When(told=0, then=F("due_at")), default=now) if ending else None
    return incidents.filter(ended_at=None).update(ended_at=now, ending=ending, due_at=due_at)


def of_jobs(kind: Incident.Kind, job_ids: Collection[int]) -> QuerySet[Incident]:
    return Incident.objects.filter(kind=kind, job__in=job_ids)


def handle_failures(failures: Mapping[int, int], now: datetime) -> None:
    """Pause the jobs that reached their limit of failures in a row, and raise incidents.

    `failures` are the new failures of each job since its last success.
    """
    paused = _pause_failing(failures, now)
    jobs = Job.objects.kept().filter(pk__in=failures).order_by("pk")
    raise_incidents(
        [
            News.of_job(IncidentKind.FAILING, job, job.last_error)
            for job in jobs
            if job.pk not in paused and _starts_failing(job, failures[job.pk])
        ],
        now,
    )


def pause_for_good(job_id: int, reason: str, now: datetime) -> None:
    """Pause a job until somebody resumes it, and alert its owner."""
    jobs = list(Job.objects.armed().filter(pk=job_id).select_for_update(of=("self",), no_key=True))
    for job in jobs:
        pause(job, now, reason)
        note(job, "pause", now, {"reason": reason})
    _raise_paused(jobs, now)


def raise_unreadable(job_ids: Collection[int], now: datetime) -> None:
    """Raise incidents for jobs that were paused because their schedule cannot be read."""
    _raise_paused(Job.objects.kept().filter(pk__in=job_ids).order_by("pk"), now)


def _raise_paused(jobs: Collection[Job], now: datetime) -> None:
    if jobs:
        # The incident of the pause replaces that of the failures.
        end_all(of_jobs(IncidentKind.FAILING, [job.pk for job in jobs]), now)
        raise_incidents([News.of_job(IncidentKind.PAUSED, job, _why_paused(job)) for job in jobs], now)


def _pause_failing(failures: Mapping[int, int], now: datetime) -> set[int]:
    reached = (
        Job.objects.armed()
        .filter(pk__in=failures, pause_after_failures__gt=0, failure_streak__gte=F("pause_after_failures"))
        .select_for_update(of=("self",), no_key=True)
    )
    failing = [job for job in reached if _reaches_limit(job, failures[job.pk])]
    for job in failing:
        streak = job.failure_streak
        reason = (
            f"{PAUSED_AFTER} {streak} failures in a row."
            if streak > 1
            else f"{PAUSED_AFTER} its first failure."
        )
        pause(job, now, reason)
        note(job, "pause", now, {"reason": reason, "error": job.last_error[:500]})
    _raise_paused(failing, now)
    return {job.pk for job in failing}


def _reaches_limit(job: Job, failures: int) -> bool:
    """Return whether these failures reached the limit, or a multiple of it: a resumed job may fail as often again."""
    limit = job.pause_after_failures
    return job.failure_streak // limit > (job.failure_streak - failures) // limit


def _starts_failing(job: Job, failures: int) -> bool:
    """Return whether these are a job's first failures since a success, and it was not stopped meanwhile."""
    return job.failure_streak <= failures and job.status not in _STOPPED


def _why_paused(job: Job) -> str:
    if job.has_unreadable_schedule:
        return f"{job.pause_reason.rstrip('.')}. Edit its schedule, then resume it."
    return f"{job.pause_reason}\n{job.last_error}".strip()
