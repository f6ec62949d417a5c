"""Detect incidents that nobody reports: late runs, untaken prompts and expiring keys; end those that are over."""

from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from schedules.engine.clusters import dead_hosts
from schedules.engine.event_deliveries import publish_recoveries
from schedules.engine.incidents import (
    HOST,
    OUTAGE,
    RUNS_AGAIN_WITHIN,
    SECRET,
    TOKEN,
    IncidentKind,
    News,
    end_all,
    end_confirmed,
    raise_incidents,
    subject_of,
    subject_of_secret,
)
from schedules.models import Cluster, Execution, Incident, Job, Secret, Token
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.models.people import is_active
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.when import durations
from schedules.when.zones import short_words

Status = Execution.Status

# How long after its slot a run is late, and how long a prompt waits before its owner is notified.
LATE_AFTER = timedelta(minutes=5)
UNTAKEN_AFTER = timedelta(minutes=30)
RESTART = timedelta(seconds=30)
EXPIRES_WITHIN = timedelta(days=7)
# How many incidents of each kind one call handles; the next calls handle the others.
BATCH = 500
# How many superusers are alerted of a secret of the installation.
MAX_SUPERUSERS = 20


def watch_incidents(now: datetime) -> None:
    """Raise incidents for what is late or waits, and end those that are over, with short queries of small indexes."""
    _raise_late(now)
    _raise_untaken(now)
    _raise_expiring(now)
    _raise_expiring_secrets(now)
    open_incidents = Incident.objects.filter(ended_at=None).order_by()
    if open_incidents.exists():
        _end_over(open_incidents, now)
        _end_dead_hosts(open_incidents, now)


def note_outage(cluster_id: int, silent_since: datetime | None, now: datetime) -> None:
    """Notify the owners of jobs that fell due while no cluster was running, now that one is.

    `silent_since` is the last heartbeat of this cluster, or None if it has just started.
    """
    # Clusters that have just started know no more than this one.
    others = Cluster.objects.exclude(pk=cluster_id).filter(started_at__lt=now - RESTART)
    newest = others.aggregate(newest=Max("last_seen_at"))["newest"]
    seen = max((moment for moment in (newest, silent_since) if moment), default=None)
    if seen is None or now - seen < OUTAGE:
        return
    notified = Incident.objects.filter(kind=IncidentKind.NO_WORKER, ended_at__gte=seen, opened_at=seen)
    due = Job.objects.due(now).filter(next_run_at__gt=seen).without_notices().order_by()
    by_owner = due.exclude(owner__in=notified.values("owner")).values_list(
        "owner", "owner__cronty_profile__timezone"
    )
    Incident.objects.bulk_create(
        Incident(
            kind=IncidentKind.NO_WORKER,
            owner_id=owner_id,
            subject="workers",
            name="Workers",
            details=f"None was running since {short_words(seen, zone or 'UTC')}, for {durations.short(now - seen)}; "
            f"{count} job{' was' if count == 1 else 's were'} due.",
            opened_at=seen,
            ended_at=now,
            due_at=now,
        )
        for owner_id, zone, count in by_owner.annotate(jobs=Count("pk"))[:BATCH]
    )


def _late_runs(now: datetime) -> QuerySet[Execution]:
    """Planned runs that could have started but have not."""
    return (
        Execution.objects.filter(
            status=Status.QUEUED,
            available_at__lte=now - LATE_AFTER,
            scheduled_for__lte=now - LATE_AFTER,
            attempt=0,
        )
        .exclude(cause__in=Execution.UNPLANNED)
        .exclude(task=HEARTBEAT)
        .order_by()
    )


def _raise_late(now: datetime) -> None:
    late = Job.objects.due(now - LATE_AFTER).without_notices().order_by()
    news = [
        _late_news(owner_id, pk, name, at, zone)
        for owner_id, pk, name, at, zone in late.values_list(
            "owner_id", "pk", "name", "next_run_at", "timezone"
        )[:BATCH]
        if at
    ]
    waiting = _late_runs(now).filter(job__isnull=False).exclude(job__public_id__startswith=NOTICE_PREFIX)
    news += [
        _late_news(owner_id, pk or 0, name, at, zone)
        for owner_id, pk, name, at, zone in waiting.values_list(
            "owner_id", "job_id", "job_name", "scheduled_for", "job__timezone"
        )[:BATCH]
    ]
    if news:
        raise_incidents(news, now)


def _late_news(owner_id: int, job_id: int, name: str, at: datetime, zone: str | None) -> News:
    sentence = f"It was due on {short_words(at, zone or 'UTC')} and has not started."
    return News(IncidentKind.LATE, owner_id, subject_of(job_id), name, sentence, job_id)


def _untaken(now: datetime) -> QuerySet[Execution]:
    """Prompts that have waited for an agent for a long time."""
    since = Coalesce("available_at", "started_at", "scheduled_for")
    waiting = Execution.objects.claimable(now).alias(since=since)
    return waiting.filter(since__lte=now - UNTAKEN_AFTER).order_by()


def _raise_untaken(now: datetime) -> None:
    reason = "No agent has taken it for 30 minutes."
    rows = _untaken(now).values_list("owner_id", "job_id", "job_name")[:BATCH]
    if news := [
        News(IncidentKind.PROMPT, owner_id, subject_of(job_id), name, reason, job_id)
        for owner_id, job_id, name in rows
        if job_id
    ]:
        raise_incidents(news, now)


def _expiring_tokens(now: datetime) -> QuerySet[Token]:
    return Token.objects.filter(
        is_active("owner__"),
        revoked_at=None,
        oauth_client=None,
        expires_at__gt=now,
        expires_at__lte=now + EXPIRES_WITHIN,
    ).order_by()


def _raise_expiring(now: datetime) -> None:
    rows = _expiring_tokens(now).values_list("owner_id", "pk", "name", "expires_at")[:BATCH]
    if news := [
        News(
            IncidentKind.EXPIRING,
            owner_id,
            f"{TOKEN}{pk}",
            f"Token {name}",
            f"It expires on {short_words(at, 'UTC')} UTC.",
        )
        for owner_id, pk, name, at in rows
        if at
    ]:
        raise_incidents(news, now)


def _expiring_secrets(now: datetime) -> QuerySet[Secret]:
    """Secrets that expire soon, and those that have expired: these last until they are replaced."""
    return Secret.objects.filter(expires_at__lte=now + EXPIRES_WITHIN).order_by()


def _raise_expiring_secrets(now: datetime) -> None:
    columns = ("owner_id", "owner__cronty_profile__timezone", "pk", "name", "expires_at")
    active = _expiring_secrets(now).filter(Q(owner=None) | is_active("owner__"))
    # Secrets that expired long ago must not crowd out the others.
    rows = list(active.order_by("-expires_at").values_list(*columns)[:BATCH])
    if not rows:
        return
    superusers = _superusers() if any(owner_id is None for owner_id, *_ in rows) else []
    news = [
        _expiry_news(owner_id, zone, pk, name, at, now)
        for of_secret, zone_of_secret, pk, name, at in rows
        if at
        for owner_id, zone in (superusers if of_secret is None else [(of_secret, zone_of_secret)])
    ]
    # An expired secret may stay for years: do not write about it every few seconds.
    known = set(
        Incident.objects.filter(
            ended_at=None, kind=IncidentKind.EXPIRING, subject__in={item.subject for item in news}
        )
        .order_by()
        .values_list("owner_id", "subject")
    )
    if fresh := [item for item in news if (item.owner_id, item.subject) not in known]:
        raise_incidents(fresh, now)


def _expiry_news(
    owner_id: int, zone: str | None, secret_id: int, name: str, at: datetime, now: datetime
) -> News:
    verb = "expires" if at > now else "expired"
    sentence = f"It {verb} on {short_words(at, zone or 'UTC')}: replace it, or change the date."
    return News(IncidentKind.EXPIRING, owner_id, subject_of_secret(secret_id), f"Secret {name}", sentence)


def raise_dead_hosts(now: datetime) -> None:
    """Alert the operators of hosts that died while others go on, unless they are back after a restart."""
    raise_incidents(
        [
            News(
                IncidentKind.NO_WORKER,
                owner_id,
                f"{HOST}{host}",
                host,
                f"It stopped responding on {short_words(at, zone or 'UTC')}; other hosts go on.",
                due_at=at + OUTAGE,
            )
            for host, at in dead_hosts(now).items()
            for owner_id, zone in _superusers()
        ],
        now,
    )


def _end_dead_hosts(open_incidents: QuerySet[Incident], now: datetime) -> None:
    of_hosts = open_incidents.filter(kind=IncidentKind.NO_WORKER, subject__startswith=HOST)
    if of_hosts.exists():
        over = of_hosts.exclude(name__in=dead_hosts(now))
        back = over.filter(told__gt=0, name__in=Cluster.objects.fresh(now).order_by().values("host"))
        end_all(back, now, "It is back")
        end_all(over, now)


def _superusers() -> list[tuple[int, str | None]]:
    """Return who manages the secrets of the installation, with their time zones."""
    users = get_user_model()
    if "is_superuser" not in {field.name for field in users._meta.get_fields()}:
        return []
    active = users._default_manager.filter(is_active(), is_superuser=True).order_by("pk")
    return list(active.values_list("pk", "cronty_profile__timezone")[:MAX_SUPERUSERS])


def _end_over(open_incidents: QuerySet[Incident], now: datetime) -> None:
    is_notified = Q(told__gt=0) | Q(due_at=None)
    # Incidents of jobs that were deleted or stopped on purpose end silently.
    gone = Q(job=None) | Q(job__deleted_at__isnull=False) | Q(job__status=Job.Status.CANCELLED)
    of_jobs = open_incidents.filter(
        kind__in=(
            IncidentKind.FAILING,
            IncidentKind.PAUSED,
            IncidentKind.LATE,
            IncidentKind.MISSED,
            IncidentKind.PROMPT,
        )
    )
    end_all(of_jobs.filter(gone), now)
    failing = open_incidents.filter(kind=IncidentKind.FAILING)
    _end_recovered(failing.filter(job__failure_streak=0, job__last_success_at__gte=F("opened_at")), now)
    # Its history was corrected, or it cannot work again because it runs only once.
    over = Q(job__failure_streak=0) | ~Q(job__status__in=Job.ACTIVE)
    end_all(failing.filter(over & is_notified), now)
    resumed = open_incidents.filter(~Q(job__status=Job.Status.PAUSED), kind=IncidentKind.PAUSED)
    # It is over when a run succeeds, not when somebody resumes the job.
    unproven = Job.objects.filter(pk=OuterRef("job"), failure_streak__gt=0, status=Job.Status.PENDING)
    others = Incident.objects.filter(ended_at=None, kind=IncidentKind.FAILING, job=OuterRef("job"))
    resumed.filter(Exists(unproven), ~Exists(others)).update(
        kind=IncidentKind.FAILING, details=Subquery(unproven.values("last_error"))
    )
    end_all(resumed, now)
    missed = open_incidents.filter(kind=IncidentKind.MISSED)
    again = missed.filter(job__last_run_at__gt=F("opened_at"))
    end_all(again.filter(told=0, due_at=F("opened_at") + RUNS_AGAIN_WITHIN), now)
    end_all(again, now, "Runs again")
    end_all(missed.filter(~Q(job__status__in=Job.ACTIVE) & is_notified), now)
    _end_late(open_incidents.filter(kind=IncidentKind.LATE), now)
    waiting = _untaken(now).filter(job=OuterRef("job"))
    end_all(
        open_incidents.filter(~Exists(waiting), kind=IncidentKind.PROMPT), now, "It is not waiting any more"
    )
    end_confirmed(open_incidents, now)
    expiring = open_incidents.filter(kind=IncidentKind.EXPIRING)
    _end_expiring(expiring.filter(subject__startswith=TOKEN), _expiring_tokens(now), now)
    _end_expiring(expiring.filter(subject__startswith=SECRET), _expiring_secrets(now), now)


def _end_recovered(recovered: QuerySet[Incident], now: datetime) -> None:
    """End the incidents of jobs that work again, and publish one event for each."""
    with transaction.atomic():
        rows = list(recovered.select_for_update(skip_locked=True, of=("self",))[:BATCH])
        if rows:
            publish_recoveries(rows, now)
            end_all(Incident.objects.filter(pk__in=[row.pk for row in rows]), now, "Works again")


def _end_late(late: QuerySet[Incident], now: datetime) -> None:
    waiting = _late_runs(now).filter(job=OuterRef("job"))
    started = late.exclude(Q(job__next_run_at__lte=now - LATE_AFTER, job__status=Job.Status.PENDING))
    missed = Incident.objects.filter(ended_at=None, kind=IncidentKind.MISSED, job=OuterRef("job"))
    # The incident of the missed run covers it.
    end_all(started.filter(~Exists(waiting), Exists(missed)), now)
    end_all(started.filter(~Exists(waiting)), now, "It is not late any more")


def _end_expiring(
    expiring: QuerySet[Incident], keys: QuerySet[Token] | QuerySet[Secret], now: datetime
) -> None:
    """End the incidents about keys that are no longer among these."""
    # Several people may be alerted of one secret.
    key_by_incident = {
        pk: int(subject.split()[1]) for pk, subject in expiring.values_list("pk", "subject")[:BATCH]
    }
    if key_by_incident:
        still = set(keys.filter(pk__in=set(key_by_incident.values())).values_list("pk", flat=True))
        over = [pk for pk, key in key_by_incident.items() if key not in still]
        end_all(Incident.objects.filter(pk__in=over), now)
