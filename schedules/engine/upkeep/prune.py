"""Pruning of history: old runs, events, trash, clusters, sessions and login attempts."""

from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.db.models import Count, QuerySet

from schedules import clock
from schedules.engine.upkeep.run_pruning import (
    beyond_limit_of_job,
    beyond_limit_of_owner,
    delete_batches,
    expired,
)
from schedules.models import (
    Cluster,
    Event,
    Execution,
    Incident,
    Installation,
    Job,
    TriggerCall,
    UserSession,
)

BATCH = 1000
TRASH_DAYS = 30
# How long messages to trigger addresses are remembered against replays; those with a signed time expire in minutes.
TRIGGER_CALL_DAYS = 90


def prune_history() -> dict[str, int]:
    """Delete everything beyond the limits of the history, in small steps; return the number of rows by kind."""
    now = clock.now()
    oldest = now - timedelta(days=settings.CRONTY_HISTORY_DAYS)
    runs_before, events_before = _pruned_so_far()
    newest_runs, newest_events = _newest(Execution), _newest(Event)
    executions = _prune_executions(oldest, runs_before)
    old_trash = Job.objects.trashed().filter(deleted_at__lt=now - timedelta(days=TRASH_DAYS))
    jobs = _delete_in_steps(old_trash.order_by("-deleted_at", "-pk"))
    _delete_in_steps(Incident.objects.filter(ended_at__lt=oldest).order_by("ended_at"))
    _delete_in_steps(TriggerCall.objects.filter(received_at__lt=now - timedelta(days=TRIGGER_CALL_DAYS)))
    # Cronty created the alerts, so no person deletes them.
    old_notices = Job.objects.notices().filter(next_run_at=None, created_at__lt=oldest)
    jobs += _delete_in_steps(old_notices.order_by("public_id"))
    Cluster.objects.filter(last_seen_at__lt=oldest).delete()
    _prune_logins(now, oldest)
    events = _prune_events(oldest, events_before)
    _keep_progress(newest_runs, newest_events)
    return {"executions": executions, "jobs": jobs, "events": events}


def _prune_logins(now: datetime, oldest: datetime) -> None:
    """Prune sessions, tokens of connected apps and login attempts if their apps are installed."""
    _delete_in_steps(UserSession.objects.filter(expire_date__lt=now))
    if apps.is_installed("django.contrib.sessions"):
        sessions: Any = apps.get_model("sessions", "Session")
        _delete_in_steps(sessions.objects.filter(expire_date__lt=now))
    if settings.CRONTY_OAUTH:
        call_command("cleartokens")
    if apps.is_installed("axes"):
        for name in ("AccessLog", "AccessAttempt"):
            logins: Any = apps.get_model("axes", name)
            _delete_in_steps(logins.objects.filter(attempt_time__lt=oldest))


def _prune_executions(oldest: datetime, since: int) -> int:
    """Prune the runs that no cluster has pruned, such as those of jobs that run rarely.

    Only jobs and owners with new runs can exceed their limits; runs that are under way count the next time.
    """
    pruned = sum(delete_batches(expired(oldest)))
    per_job, per_owner = settings.CRONTY_HISTORY_PER_JOB, settings.CRONTY_HISTORY_PER_PERSON
    new = Execution.objects.filter(pk__gt=since).order_by()
    final = Execution.objects.filter(status__in=Execution.FINAL).order_by()
    if since:
        final = final.filter(job__in=new.values("job"))
    jobs = final.exclude(job=None).values("job").annotate(count=Count("pk")).filter(count__gt=per_job)
    for job_id in list(jobs.values_list("job", flat=True)):
        pruned += sum(delete_batches(beyond_limit_of_job(job_id, per_job)))
    for owner_id in _owners(new):
        pruned += sum(delete_batches(beyond_limit_of_owner(owner_id, per_owner)))
    return pruned


def _prune_events(oldest: datetime, since: int) -> int:
    pruned = _prune_old_events(oldest)
    new = Event.objects.filter(pk__gt=since).order_by()
    for owner_id in _owners(new):
        newest = Event.objects.filter(owner=owner_id).order_by("-pk")
        last_pruned = newest.values_list("pk", flat=True)[settings.CRONTY_EVENTS_PER_PERSON :].first()
        if last_pruned:
            pruned += _delete_in_steps(Event.objects.filter(owner=owner_id, pk__lte=last_pruned))
    return pruned


def _owners(rows: QuerySet[Any]) -> list[Any]:
    # Without DISTINCT, for which SQLite would read all rows in the order of owners.
    return sorted(set(rows.values_list("owner", flat=True).iterator()))


def _pruned_so_far() -> tuple[int, int]:
    """Return the newest run and event checked so far, or zeros if the limits have changed since."""
    installation = Installation.objects.filter(pk=Installation.ONLY, pruned_to=_limits()).first()
    return (installation.pruned_runs, installation.pruned_events) if installation else (0, 0)


def _keep_progress(runs: int, events: int) -> None:
    values = {"pruned_runs": runs, "pruned_events": events, "pruned_to": _limits()}
    Installation.objects.update_or_create(pk=Installation.ONLY, defaults=values)


def _newest(model: type[Execution] | type[Event]) -> int:
    return model._default_manager.order_by("-pk").values_list("pk", flat=True).first() or 0


def _limits() -> str:
    names = ("CRONTY_HISTORY_PER_JOB", "CRONTY_HISTORY_PER_PERSON", "CRONTY_EVENTS_PER_PERSON")
    return " ".join(str(getattr(settings, name)) for name in names)


def _prune_old_events(oldest: datetime) -> int:
    """Delete events in batches, oldest first, until a batch has no old ones."""
    # Primary keys grow with time, so no index on `at` is needed.
    pruned, last = 0, 0
    while batch := Event.objects.filter(pk__gt=last).order_by("pk").values_list("pk", "at")[:BATCH]:
        old = [pk for pk, at in batch if at < oldest]
        if not old:
            break
        pruned += Event.objects.filter(pk__in=old).delete()[0]
        last = max(pk for pk, _ in batch)
    return pruned


def _delete_in_steps(rows: QuerySet[Any]) -> int:
    """Delete rows in batches; rows that another session has locked, such as a job that is being restored, stay."""
    deleted = 0
    while True:
        with transaction.atomic():
            batch = list(rows.select_for_update(skip_locked=True).values_list("pk", flat=True)[:BATCH])
            if not batch:
                return deleted
            deleted += rows.model._default_manager.filter(pk__in=batch).delete()[0]
