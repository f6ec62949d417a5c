"""Calendars: compile their rules for the years ahead, and update the jobs that use them."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from schedules.engine.sql.statements import update_rows
from schedules.models import Calendar, Job
from schedules.models.calendars import EVENTS_OF
from schedules.when import calendar_data
from schedules.when.calendar_files import compile_file
from schedules.when.calendar_rules import RuleError, compile_rule
from schedules.when.triggers import TriggerError

logger = logging.getLogger(__name__)

# Past slots may not have been claimed yet.
KEEP_PAST = timedelta(days=62)
YEARS_AHEAD = 2
# The columns that `compile_calendar` sets.
COMPILED = ("compiled", "words", "digest", "until", "unread")


def years_of(now: datetime) -> tuple[date, date]:
    """Return the first and the last day that compiled calendars cover."""
    return date((now - KEEP_PAST).year, 1, 1), date(now.year + YEARS_AHEAD, 12, 31)


def compile_calendar(calendar: Calendar, now: datetime, text: str = "") -> bool:
    """Compute the marked days of a calendar without saving it; return whether they changed. Raises RuleError.

    A calendar at an address needs `text`, the content of the address.
    """
    first, last = years_of(now)
    settings: dict[str, Any] = {
        "name": calendar.name,
        "closes": calendar.closes,
        "timezone": calendar.timezone,
        "first": first,
        "last": last,
    }
    words: str
    if calendar.kind == Calendar.Kind.ICS:
        file = compile_file(text or calendar.source, calendar.rule["zone"], **settings)
        calendar.compiled, words, calendar.until, calendar.unread = file
    else:
        result = compile_rule(calendar.kind, calendar.rule, **settings)
        calendar.compiled, words, calendar.until = calendar_data.stored(result), result.words, result.until
    calendar.words = words[:200]
    before, calendar.digest = calendar.digest, calendar_data.digest(calendar.compiled)
    return calendar.digest != before


def refresh_calendars(now: datetime) -> int:
    """Extend the calendars by the years that are now in range; return how many changed."""
    changed = 0
    # Calendars at addresses are read again all the time.
    outdated = Calendar.objects.filter(until__lt=years_of(now)[1], sealed="")
    for key in outdated.values_list("pk", flat=True):
        calendar = Calendar.objects.filter(pk=key).first()
        if calendar is None:
            continue
        unchanged = Calendar.objects.filter(pk=key, updated_at=calendar.updated_at)
        try:
            # Outside the transaction, because it may take seconds.
            is_new = compile_calendar(calendar, now)
        except RuleError as error:
            # A release of the library may have dropped a country: keep the compiled years.
            logger.warning("Calendar %s cannot be continued: %s", calendar.pk, error)
            continue
        with transaction.atomic():
            if unchanged.select_for_update().first() is None:
                continue
            calendar.save(update_fields=COMPILED)
            if is_new:
                follow_calendar(calendar, now)
                changed += 1
    return changed


def jobs_by_calendar(owner_id: int) -> dict[str, list[Job]]:
    """Return the jobs of an owner, including the trash, by the names of their calendars."""
    by_calendar: dict[str, list[Job]] = defaultdict(list)
    for job in Job.objects.filter(~Q(closed_by=""), owner=owner_id).order_by("pk"):
        for name in dict.fromkeys(job.named_calendars):
            by_calendar[name].append(job)
    return by_calendar


def follow_calendar(calendar: Calendar, now: datetime) -> None:
    """Point the jobs of a changed calendar at its new version, and move their next runs."""
    jobs = jobs_by_calendar(calendar.owner_id).get(calendar.name, [])
    names = {name for job in jobs for name in job.named_calendars}
    references = {
        row.name: row.reference for row in Calendar.objects.filter(owner=calendar.owner_id, name__in=names)
    }
    for job in jobs:
        job.closed_by = references_of(job, references)
    update_rows(
        Job, "closed_by = {closed_by}", ("id", "closed_by"), [(job.pk, job.closed_by) for job in jobs]
    )
    for job in jobs:
        if job.on_closed != Job.OnClosed.SKIP or calendar.name not in job.calendars:
            _replan(job, now)


def references_of(job: Job, references: Mapping[str, str]) -> str:
    """Return the references of a job to its calendars; the last may be the one with whose events it runs."""
    closing = len(job.calendars)
    return " ".join(
        f"{EVENTS_OF if place >= closing else ''}{references[name]}"
        for place, name in enumerate(job.named_calendars)
        if name in references
    )


def _replan(job: Job, now: datetime) -> None:
    """Plan the next run of a job whose slots have changed, unless it is due already."""
    planned = job.next_run_at
    if job.status != Job.Status.PENDING or planned is None or planned <= now:
        return
    # The claim pauses a job whose schedule cannot be read.
    with suppress(TriggerError):
        if following := job.next_slot(now):
            unchanged = Job.objects.armed().filter(pk=job.pk, revision=job.revision, next_run_at=planned)
            unchanged.update(next_run_at=following)
