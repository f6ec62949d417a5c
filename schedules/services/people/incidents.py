"""Incidents and alerts as people and agents see them: what has gone wrong, what was sent, and snoozing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from schedules import clock
from schedules.models import Event, Execution, Incident, Job
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.models.keysets import WALKED
from schedules.result import Code, Err, Ok, Result
from schedules.services.jobs.notifications import last_deliveries
from schedules.services.permissions import Actor
from schedules.services.runs.answers import read_until, snooze_problem
from schedules.when import durations
from schedules.when.moments import short_words

USUAL_SNOOZE = timedelta(days=1)
MAX_LISTED = 50


@dataclass(frozen=True)
class SentAlert:
    """One message about incidents, with the run that sends it, if it has begun."""

    job: Job
    run: Execution | None

    @property
    def place(self) -> str:
        return str(self.job.argument("channel") or self.job.argument("topic") or "")

    @property
    def title(self) -> str:
        return str(self.job.argument("title") or self.job.name)

    @property
    def message(self) -> str:
        return str(self.job.argument("message") or "")


def list_incidents(actor: Actor, *, only_open: bool = False, most: int = MAX_LISTED) -> list[Incident]:
    """Return the newest incidents of this person, those that last first."""
    mine = _mine(actor).select_related("job", "notice")
    lasting = list(mine.filter(ended_at=None).order_by("-pk")[:most])
    if only_open or len(lasting) >= most:
        return lasting
    return lasting + list(mine.filter(ended_at__isnull=False).order_by("-pk")[: most - len(lasting)])


def incidents_of_job(job: Job, most: int = 5) -> list[str]:
    """Describe the newest incidents of a job that the caller may see, and whether their alerts were delivered."""
    incidents = list(Incident.objects.filter(job=job.pk).select_related("notice").order_by("-pk")[:most])
    return [f"{words} {delivery}".strip() for _, words, delivery in described(incidents, job.timezone)]


def described(incidents: Sequence[Incident], zone: str) -> list[tuple[Incident, str, str]]:
    """Return each incident with what it is, and what became of its last alert, read with `notice`."""
    notices = {incident.notice.pk: incident.notice for incident in incidents if incident.notice}
    runs = {run.job_id: run for run in last_deliveries(list(notices.values()))} if notices else {}
    return [
        (
            incident,
            describe_incident(incident, zone),
            _delivery_words(runs.get(incident.notice_id)) if incident.notice_id else "",
        )
        for incident in incidents
    ]


def _delivery_words(run: Execution | None) -> str:
    """Say what became of an alert, which is retried by itself, whatever became of the run that it is about."""
    if run is None:
        return "It waits to be sent."
    error = run.error.rstrip(".")
    match run.status:
        case Execution.Status.FAILED | Execution.Status.LOST:
            return f"It was not delivered: {error}."
        case Execution.Status.QUEUED if error:
            return f"It was not delivered yet, and is tried again: {error}."
    return ""


def open_incident_words(job: Job) -> str:
    """Return what is wrong with a job now and who was told, or an empty text."""
    incidents = Incident.objects.filter(job=job.pk, ended_at=None).order_by("-pk")
    return " ".join(describe_incident(incident, job.timezone) for incident in incidents[:3])


def describe_incident(incident: Incident, zone: str) -> str:
    """Say since when it lasts or how it ended, and what was told of it."""
    since = f"{incident.get_kind_display().capitalize()} since {short_words(incident.opened_at, zone)}"
    if incident.lasted is not None:
        ending = f": {incident.ending}" if incident.ending else ""
        sentence = f"{since}, over after {durations.short(incident.lasted)}{ending}."
    else:
        sentence = f"{since}."
    return f"{sentence} {_told_words(incident, zone)}"


def _told_words(incident: Incident, zone: str) -> str:
    if incident.snoozed_until and incident.is_open and incident.snoozed_until > clock.now():
        until = short_words(incident.snoozed_until, zone)
        return f"Snoozed until {until} by {incident.snoozed_by}."
    if not incident.told_at:
        return "An alert waits to be sent." if incident.due_at else "No alert was sent."
    times = f"{incident.told} alerts, the last" if incident.told > 1 else "Alert"
    return f"{times} on {short_words(incident.told_at, zone)}."


def sent_alerts(actor: Actor, most: int = 20) -> list[SentAlert]:
    """Return the newest messages about incidents of this person, with what became of each."""
    # No index has the alerts of one person: look among the newest jobs.
    mine = Job.objects.filter(owner=actor.user.pk).order_by("-created_at", "-pk")
    newest = mine.values_list("pk", "public_id")[:WALKED]
    keys = [pk for pk, public_id in newest if public_id.startswith(f"{NOTICE_PREFIX}_")][:most]
    jobs = sorted(Job.objects.filter(pk__in=keys), key=lambda job: keys.index(job.pk))
    runs = {run.job_id: run for run in last_deliveries(jobs)}
    return [SentAlert(job, runs.get(job.pk)) for job in jobs]


def snooze_incident(actor: Actor, number: int, words: str = "") -> Result[Incident]:
    """Send no alert about an incident until a time in words, or for a day; its end is told all the same."""
    now = clock.now()
    until = now + USUAL_SNOOZE
    if words.strip():
        read = read_until(words, actor.read_profile().zone)
        if isinstance(read, Err):
            return read
        until = read.value
    if problem := snooze_problem(until, now):
        return problem
    with transaction.atomic():
        incident = _mine(actor).select_for_update(of=("self",)).filter(pk=number).first()
        if incident is None:
            return Err(Code.INCIDENT_NOT_FOUND, str(number))
        if not incident.is_open:
            return Err(Code.INCIDENT_OVER, str(number), reason=incident.ending)
        snooze_each([incident], until, actor.label)
        Event.objects.create(
            at=now,
            owner_id=incident.owner_id,
            actor=actor.label,
            door=actor.door,
            verb="snooze alert",
            job_id=incident.job_id,
            subject=incident.name,
            after={"kind": incident.kind, "until": until.isoformat()},
        )
    return Ok(incident)


def snooze_each(incidents: Sequence[Incident], until: datetime, by: str) -> None:
    """Put off the next alert of these incidents, which the caller has locked."""
    for incident in incidents:
        incident.snoozed_until = incident.due_at = until
        incident.snoozed_by = by
        incident.save(update_fields=["snoozed_until", "due_at", "snoozed_by"])


def newest_of_owner(owner_id: Any) -> QuerySet[Incident]:
    """Return the newest incidents of a person, or of everybody, as the admin lists them."""
    newest = Incident.objects.order_by("-pk")
    return (newest if owner_id is None else newest.filter(owner=owner_id)).select_related("owner")


def _mine(actor: Actor) -> QuerySet[Incident]:
    return Incident.objects.filter(actor.within_tasks("job__task"), owner=actor.user.pk)
