"""Incidents and their alerts as people and agents see them: list, describe and snooze them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Case, QuerySet, When

from schedules import clock
from schedules.models import Execution, Incident, Job
from schedules.result import Code, Err, Ok, Result
from schedules.services.jobs.prompt_list import last_deliveries
from schedules.services.paging import ListPage, read_page
from schedules.services.permissions import Actor, record_setting
from schedules.services.runs.answers import read_until, snooze_problem
from schedules.when import durations
from schedules.when.zones import short_words

DEFAULT_SNOOZE = timedelta(days=1)
MAX_LISTED = 50


@dataclass(frozen=True, slots=True)
class SentAlert:
    """One message that was sent about an incident."""

    at: datetime
    title: str
    text: str
    place: str
    """Like "channel phone" or "topic backups"."""


@dataclass(frozen=True, slots=True)
class ShownIncident:
    """An incident in words."""

    incident: Incident
    words: str
    """When it began, how it ended, and which alerts were sent."""
    delivery: str
    """What is wrong with the delivery of the last alert, without a period; empty if it arrived."""
    error: str
    """What the service answered to it."""
    plan: str
    """Until when it is snoozed, or when the next alert is due; empty if neither."""
    sent: Sequence[SentAlert]
    """The newest messages, oldest first."""

    @property
    def delivery_with_error(self) -> str:
        return f"{self.delivery}: {self.error}." if self.error else self.delivery and f"{self.delivery}."

    @property
    def whole(self) -> str:
        return " ".join(filter(None, [self.words, self.delivery_with_error, self.plan]))

    @property
    def own_words(self) -> str:
        """Everything in Cronty's own words, without the answer of a service."""
        return " ".join(filter(None, [self.words, self.delivery and f"{self.delivery}.", self.plan]))


def list_incidents(actor: Actor, *, only_open: bool = False, most: int = MAX_LISTED) -> list[Incident]:
    """Return the newest incidents of this person, open ones first."""
    mine = _mine(actor).select_related("job", "notice")
    open_ones = list(mine.filter(ended_at=None).order_by("-pk")[:most])
    if only_open or len(open_ones) >= most:
        return open_ones
    return open_ones + list(mine.filter(ended_at__isnull=False).order_by("-pk")[: most - len(open_ones)])


def read_incidents(
    actor: Actor, position: Mapping[str, str], size: int, *, is_open: bool | None = None
) -> ListPage:
    """Read a page of this person's incidents: open ones first, then ended ones, both newest first."""
    mine = _mine(actor).select_related("job", "notice")
    if is_open is not None:
        return read_page(mine.filter(ended_at__isnull=is_open), position, size)
    open_first = mine.annotate(is_over=Case(When(ended_at=None, then=0), default=1))
    return read_page(open_first, position, size, order=("is_over", "-pk"))


def find_incident(actor: Actor, number: int) -> Result[Incident]:
    """Return an incident of this person, whether it is open or over."""
    incident = _mine(actor).select_related("job", "notice").filter(pk=number).first()
    return Err(Code.INCIDENT_NOT_FOUND, str(number)) if incident is None else Ok(incident)


def incidents_of_job(job: Job, most: int = 5) -> list[str]:
    """Describe the newest incidents of a job that the caller may see, and whether their alerts were delivered."""
    incidents = list(Incident.objects.filter(job=job.pk).select_related("notice").order_by("-pk")[:most])
    return [shown.whole for shown in described(incidents, job.timezone)]


def open_incidents_of_job(job: Job, until: datetime | None = None, most: int = 3) -> str:
    """Describe the open incidents of a job that the caller may see, perhaps those that began by a moment only."""
    incidents = Incident.objects.filter(job=job.pk, ended_at=None).select_related("notice").order_by("-pk")
    if until:
        incidents = incidents.filter(opened_at__lte=until)
    return " ".join(shown.own_words for shown in described(list(incidents[:most]), job.timezone))


def described(incidents: Sequence[Incident], zone: str) -> list[ShownIncident]:
    """Return each incident in words, with what was sent about it; select `notice` with them."""
    notices = {incident.notice.pk: incident.notice for incident in incidents if incident.notice}
    runs = {run.job_id: run for run in last_deliveries(list(notices.values()))} if notices else {}
    return [_described(incident, runs.get(incident.notice_id or 0), zone) for incident in incidents]


def _described(incident: Incident, run: Execution | None, zone: str) -> ShownIncident:
    delivery, error = _describe_delivery(run) if incident.notice_id else ("", "")
    return ShownIncident(
        incident,
        describe_incident(incident, zone),
        delivery,
        error,
        _describe_plan(incident, zone),
        [SentAlert(**message | {"at": datetime.fromisoformat(message["at"])}) for message in incident.sent],
    )


def _describe_delivery(run: Execution | None) -> tuple[str, str]:
    """Describe the delivery of an alert, and its error, unless it succeeded; an alert has its own retries."""
    if run is None:
        return "It waits to be sent", ""
    error = run.error.rstrip(".")
    match run.status:
        case Execution.Status.FAILED | Execution.Status.LOST:
            return "It was not delivered", error
        case Execution.Status.QUEUED if error:
            return "It was not delivered yet, and is tried again", error
    return "", ""


def describe_incident(incident: Incident, zone: str) -> str:
    """Describe when it began, how it ended, and which alerts were sent."""
    since = f"{incident.get_kind_display().capitalize()} since {short_words(incident.opened_at, zone)}"
    if incident.lasted is not None:
        ending = f": {incident.ending}" if incident.ending else ""
        sentence = f"{since}, over after {durations.short(incident.lasted)}{ending}."
    else:
        sentence = f"{since}."
    return f"{sentence} {_describe_alerts(incident, zone)}"


def _describe_alerts(incident: Incident, zone: str) -> str:
    if not incident.told_at:
        is_due = incident.due_at and not _is_snoozed(incident)
        return "An alert waits to be sent." if is_due else "No alert was sent."
    times = f"{incident.told} alerts were sent, the last" if incident.told > 1 else "An alert was sent"
    place = f" to the {incident.sent[-1]['place']}" if incident.sent else ""
    return f"{times} on {short_words(incident.told_at, zone)}{place}."


def _describe_plan(incident: Incident, zone: str) -> str:
    if not incident.is_open or not incident.due_at:
        return ""
    if incident.snoozed_until and _is_snoozed(incident):
        return f"Snoozed until {short_words(incident.snoozed_until, zone)} by {incident.snoozed_by}."
    return f"The next reminder is due on {short_words(incident.due_at, zone)}." if incident.told else ""


def _is_snoozed(incident: Incident) -> bool:
    return incident.is_open and bool(incident.snoozed_until and incident.snoozed_until > clock.now())


def snooze_incident(actor: Actor, number: int, until_text: str = "") -> Result[Incident]:
    """Send no alert about an incident until a time in words, or for a day; its end is still announced."""
    if actor.is_agent:
        return Err(Code.ALERTS_BY_PEOPLE)
    now = clock.now()
    until = now + DEFAULT_SNOOZE
    if until_text.strip():
        parsed = read_until(until_text, actor.read_profile().zone)
        if isinstance(parsed, Err):
            return parsed
        until = parsed.value
    if problem := snooze_problem(until, now):
        return problem
    with transaction.atomic():
        incident = _mine(actor).select_for_update(of=("self",)).filter(pk=number).first()
        if incident is None:
            return Err(Code.INCIDENT_NOT_FOUND, str(number))
        if not incident.is_open:
            return Err(Code.INCIDENT_OVER, str(number), reason=incident.ending)
        snooze_each([incident], until, actor.label)
        after = {"kind": incident.kind, "until": until.isoformat()}
        record_setting(actor, "snooze alert", incident.name, now, job_id=incident.job_id, after=after)
    return Ok(incident)


def snooze_each(incidents: Sequence[Incident], until: datetime, by: str) -> None:
    """Postpone the next alert of these incidents, which the caller has locked."""
    for incident in incidents:
        incident.snoozed_until = incident.due_at = until
        incident.snoozed_by = by
        incident.save(update_fields=["snoozed_until", "due_at", "snoozed_by"])


def _mine(actor: Actor) -> QuerySet[Incident]:
    return Incident.objects.filter(actor.within_tasks("job__task"), owner=actor.user.pk)
