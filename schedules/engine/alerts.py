"""Alerts: notify owners about incidents, several in one message, and not during their quiet hours."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from schedules.engine.incidents import HOST, News, is_proposal, raise_incidents
from schedules.engine.notices import create_notice
from schedules.models import Approval, Incident, Job, Profile
from schedules.models.alert_rules import NEVER, RECOVERED, AlertRules, quiet_until, stored_rules, wants
from schedules.tasks.links import public_site
from schedules.tasks.signed_links import approval_address, stop_button
from schedules.when import durations
from schedules.when.zones import short_words

logger = logging.getLogger(__name__)

IncidentKind = Incident.Kind

# Incidents this close together share a message; while more keep coming, it waits for up to the longest time.
GATHERING = timedelta(seconds=10)
LONGEST_GATHERING = timedelta(seconds=60)
# How many owners one step notifies, and about how many incidents each.
MAX_OWNERS = 50
MAX_INCIDENTS = 2000
# How many messages about one incident the owner gets while it lasts.
MAX_REMINDERS = 7
# How long to wait when the owner has had all messages of this hour.
RATE_LIMIT_DELAY = timedelta(minutes=5)
LONGEST_NOTICE = 2000
# How many incidents a notice names.
MAX_NAMED = 20
# How many messages are kept with an incident; only snoozing it again and again leads to more.
MAX_KEPT = 10
_COLUMNS = ("due_at", "told", "told_at", "sent", "notice")

# Titles for one incident and for several, when they begin and when they are over.
_TITLES: dict[str, tuple[str, str, str, str]] = {
    IncidentKind.FAILING: ("A job failed", "{} jobs failed", "A job works again", "{} jobs work again"),
    IncidentKind.PAUSED: ("A job was paused", "{} jobs were paused", "A job was resumed", "{} jobs were resumed"),
    IncidentKind.LATE: ("A run is late", "{} jobs are late", "A late run has started", "{} late jobs have started"),
    IncidentKind.MISSED: ("A run was missed", "{} jobs missed runs", "A job runs again", "{} jobs run again"),
    IncidentKind.NO_WORKER: ("No worker was running", "No worker was running", "A worker runs again", "A worker runs again"),
    HOST: ("{} stopped responding", "{} hosts stopped responding", "{} is back", "{} hosts are back"),
    IncidentKind.PROMPT: ("A prompt waits", "{} prompts wait", "A prompt was taken", "{} prompts were taken"),
    IncidentKind.EXPIRING: ("A key expires soon", "{} keys expire soon", "A key was renewed", "{} keys were renewed"),
    IncidentKind.NEEDS_YOU: ("You are needed", "You are needed {} times", "Answered", "{} were answered"),
    IncidentKind.OVER_LIMIT: ("A limit was reached", "{} limits were reached", "Below the limit again", "{} limits are kept again"),
}  # fmt: skip
_GOOD, _BAD = "white_check_mark", "warning"


class _News(NamedTuple):
    """One incident in a message."""

    incident: Incident
    is_over: bool
    """Whether the message only says that it has ended."""
    line: str


def send_alerts(now: datetime) -> int:
    """Send the alerts that are due; return how many incidents were checked. Usually this takes one short query."""
    due = Incident.objects.filter(due_at__lte=now - GATHERING)
    owners = list(due.order_by().values_list("owner", flat=True).distinct()[:MAX_OWNERS])
    count = 0
    for owner_id in owners:
        with transaction.atomic():
            count += _notify(owner_id, now)
    return count


def prepare_links() -> None:
    """Load the URLs of the pages, so that the first alert of a process does not have to."""
    public_site()


def reopen_incident(job: Job, now: datetime) -> None:
    """Open the last incident of a restored job that still fails: its end was the end of the job, and no recovery."""
    if job.status not in Job.ACTIVE or not (job.failure_streak or job.has_unreadable_schedule):
        return
    incidents = Incident.objects.filter(job=job, kind__in=(IncidentKind.FAILING, IncidentKind.PAUSED))
    last = incidents.select_for_update(of=("self",)).order_by("-pk").first()
    if last is None:
        raise_incidents([News.of_job(IncidentKind.FAILING, job, job.last_error)], now)
    elif not (last.is_open or last.ending):
        last.ended_at = None
        last.due_at = _next_reminder(last, now) if last.told else now
        last.save(update_fields=["ended_at", "due_at"])


def _next_reminder(incident: Incident, now: datetime) -> datetime | None:
    profile = _profile_of(incident)
    return now + profile.alert_every if profile.alert_every and incident.told <= MAX_REMINDERS else None


def _notify(owner_id: int, now: datetime) -> int:
    incidents = list(
        Incident.objects.filter(owner=owner_id, due_at__lte=now)
        .select_related("job", "owner__cronty_profile")
        .order_by("pk")
        .select_for_update(skip_locked=True, of=("self",))[:MAX_INCIDENTS]
    )
    moments = [incident.due_at for incident in incidents if incident.due_at]
    if not moments or (max(moments) > now - GATHERING and min(moments) > now - LONGEST_GATHERING):
        # More may follow within the window.
        return 0
    profile = _profile_of(incidents[0])
    person = stored_rules(profile.alert_rules)
    night_ends = quiet_until(profile.quiet_hours, profile.zone, now)
    by_place: dict[tuple[tuple[str, str], ...], list[Incident]] = defaultdict(list)
    for incident in incidents:
        # A job that an agent proposes must not decide where its own alert goes.
        job = None if is_proposal(incident) else incident.job
        rules = stored_rules(job.alerts) if job else AlertRules()
        place = _place_of(rules, profile)
        if not place or not _is_wanted(incident, person, rules, place):
            incident.due_at = None
        elif night_ends and not (rules.at_night or person.at_night):
            incident.due_at = night_ends
        else:
            by_place[tuple(place.items())].append(incident)
    for key, group in by_place.items():
        _send_one(group, dict(key), profile, now)
    Incident.objects.bulk_update(incidents, _COLUMNS, batch_size=200)
    return len(incidents)


def _send_one(group: Sequence[Incident], place: Mapping[str, str], profile: Profile, now: datetime) -> None:
    if not _may_notify(group[0].owner_id, now):
        for incident in group:
            incident.due_at = now + RATE_LIMIT_DELAY
        return
    zone = profile.zone
    news = [_news_of(incident, zone) for incident in group]
    lines = _lines_of(news)
    notice = _notice(news, lines, place, zone, now)
    for index, incident in enumerate(group):
        incident.told += 1
        incident.due_at = _next_reminder(incident, now) if incident.is_open else None
        incident.told_at, incident.notice = now, notice
        message = {
            "at": now.isoformat(),
            "title": notice.kwargs["title"],
            # Incidents beyond the named ones share the last line, which only counts them.
            "text": lines[min(index, len(lines) - 1)],
            "place": " ".join(next(iter(place.items()))),
        }
        incident.sent = [*incident.sent, message][-MAX_KEPT:]


def _profile_of(incident: Incident) -> Profile:
    """Return the profile of an owner, or the defaults if there is none."""
    return getattr(incident.owner, "cronty_profile", None) or Profile()


def _place_of(rules: AlertRules, profile: Profile) -> dict[str, str]:
    """Return where alerts go, as arguments of the task notify; empty if nowhere."""
    if rules.place == NEVER:
        return {}
    if not rules.place:
        return profile.alert_place
    name = rules.place.removeprefix(Job.CHANNEL_PREFIX)
    return {"channel": name} if name != rules.place else {"topic": rules.place}


def _is_wanted(incident: Incident, person: AlertRules, rules: AlertRules, place: Mapping[str, str]) -> bool:
    if not wants(incident.kind, person, rules):
        return False
    if incident.told and not incident.is_open and not wants(RECOVERED, person, rules):
        return False
    job = incident.job
    # If a notification to the place of the alerts failed, a notice to the same place would fail as well.
    return not (
        incident.kind == IncidentKind.FAILING
        and job is not None
        and job.task == "notify"
        and any(job.argument(name) == value for name, value in place.items())
    )


def _may_notify(owner_id: int, now: datetime) -> bool:
    """Return whether the owner has had fewer notices within the last hour than allowed."""
    recent = Job.objects.notices().filter(owner=owner_id, label="", created_at__gt=now - timedelta(hours=1))
    if recent.count() < settings.CRONTY_MAX_FAILURE_NOTICES_PER_HOUR:
        return True
    logger.warning("User %s has had all alerts of this hour: the next ones are sent later", owner_id)
    return False


def _news_of(incident: Incident, zone: str) -> _News:
    """Describe an incident: that it began, lasts or is over."""
    lasted = f" after {durations.short(incident.lasted)}" if incident.lasted else ""
    end = f"{incident.ending}{lasted}." if incident.ending else ""
    if incident.is_open:
        still = f"Since {short_words(incident.opened_at, zone)}. " if incident.told else ""
        text = f"{still}{incident.details}"
    else:
        text = end if incident.told else f"{incident.details}\n{end}"
    is_over = bool(incident.told) and not incident.is_open
    return _News(incident, is_over, f"{incident.name}: {text.strip()}")


def _title_of(news: Sequence[_News]) -> str:
    groups: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for incident, is_over, _ in news:
        kind = HOST if incident.subject.startswith(HOST) else incident.kind
        groups[kind, is_over].append(incident.name)
    parts = []
    for (kind, is_over), names in groups.items():
        one, many = _TITLES[kind][2:] if is_over else _TITLES[kind][:2]
        parts.append(one.format(names[0]) if len(names) == 1 else many.format(len(names)))
    title = ", ".join([parts[0], *(part[:1].lower() + part[1:] for part in parts[1:])])
    is_reminder = all(item.incident.told and not item.is_over for item in news)
    return f"Reminder: {title[:1].lower()}{title[1:]}" if is_reminder else title


def _lines_of(news: Sequence[_News]) -> list[str]:
    """Return the lines of a message: one for each named incident, and one that counts the others."""
    # Cut each line, so that a long error does not hide the other jobs: they are not reported again.
    named_items = news[:MAX_NAMED]
    room = LONGEST_NOTICE // (len(named_items) + 1) - 1
    lines = [item.line[: room if len(news) > 1 else LONGEST_NOTICE] for item in named_items]
    if len(news) > len(named_items):
        lines.append(f"… and {len(news) - len(named_items)} more")
    return lines


def _notice(
    news: Sequence[_News], lines: Sequence[str], place: Mapping[str, str], zone: str, now: datetime
) -> Job:
    """Create the notice of an alert."""
    first = news[0].incident
    is_good = all(item.is_over for item in news)
    arguments = {
        "message": "\n".join(lines)[:LONGEST_NOTICE],
        **place,
        "title": _title_of(news),
        "priority": 3 if is_good else 4,
        "tags": [_GOOD if is_good else _BAD],
        **_link_to(news),
        **_stop_button(news),
    }
    return create_notice(first.owner_id, f"Alert: {first.name}", arguments, zone, now)


def _link_to(news: Sequence[_News]) -> dict[str, str]:
    """Return the page that a tap on the message opens: a job, an approval or a list."""
    if not (site := public_site()):
        return {}
    if len(news) == 1 and (address := _approval_page(news[0].incident)):
        return {"click": address}
    are_proposals = [is_proposal(item.incident) for item in news]
    if len(news) > 1 and all(are_proposals):
        return {"click": f"{site}{reverse('schedules:jobs')}"}
    if not any(are_proposals) and all(item.incident.kind == IncidentKind.NEEDS_YOU for item in news):
        return {"click": f"{site}{reverse('schedules:inbox')}"}
    job = news[0].incident.job
    if len(news) == 1 and job:
        return {"click": f"{site}{reverse('schedules:job', args=[job.public_id])}"}
    return {"click": f"{site}{reverse('schedules:notifications')}"}


def _approval_page(incident: Incident) -> str:
    """Return the address at which a person can answer the agent, if an incident is about an open approval."""
    kind, _, number = incident.subject.partition(" ")
    if not incident.is_open or kind != Approval.SUBJECT or not number.isdigit():
        return ""
    approval = Approval.objects.filter(pk=int(number)).only("digest").first()
    return approval_address(approval.pk, approval.digest) if approval else ""


def _stop_button(news: Sequence[_News]) -> dict[str, list[dict[str, str]]]:
    """Return a button that stops all agents, if the message is about an agent."""
    of_agents = [item for item in news if not item.is_over and _is_about_agent(item.incident)]
    button = stop_button(of_agents[0].incident.owner_id) if of_agents else []
    return {"actions": button} if button else {}


def _is_about_agent(incident: Incident) -> bool:
    if is_proposal(incident):
        return False
    return incident.kind == IncidentKind.OVER_LIMIT or (
        incident.job is not None and incident.job.task == "prompt"
    )
