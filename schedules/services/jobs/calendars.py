"""Calendars of a job: look them up by name when the job is stored, and check them against its schedule.

The usual name of public holidays, like DE-BY, becomes a calendar when the first job with it is stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from django.db.models import Q

from schedules import clock, engine, limits
from schedules.models import Calendar, Job
from schedules.models.calendars import MAX_CALENDARS_PER_JOB, has_unsaved, reference_unsaved
from schedules.result import Err, invalid
from schedules.services.people.holidays import NAME_LENGTH, add_holidays, holiday_calendar
from schedules.services.permissions import Actor
from schedules.when.calendar_rules import RuleError, usual_name
from schedules.when.event_times import AtEvents, EventTimes
from schedules.when.moves import MAX_MOVED_PER_DAY
from schedules.when.slot_batches import runs_per_minute
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import Unplanned

_MINUTES_PER_DAY = 24 * 60


def attach_calendars(job: Job, *, is_locked: bool = False) -> Err | None:
    """Resolve the calendars that a job names, or return what is wrong with them.

    Holidays that have no calendar yet are referred to as in a preview: `store_calendars` adds them.
    """
    job.closed_by = ""
    if not job.calendars and job.on_closed != Job.OnClosed.SKIP:
        return invalid("on_closed", "This needs a calendar: name one, or choose skip.")
    if not job.follows_calendars:
        return None
    if problem := _problem(job):
        return problem
    rows = Calendar.objects.filter(_called(job), owner=job.owner_id).order_by("pk")
    if is_locked:
        rows = rows.select_for_update()
    found = {row.name: row for row in rows.only("name", "digest", "kind")}
    references = {name: row.reference for name, row in found.items()}
    missing = [name for name in job.calendars if name not in found]
    if (events := _events_of(job)) and events.calendar.lower() not in map(str.lower, found):
        missing.append(events.calendar)
    for name in missing:
        try:
            holidays = holiday_calendar(job.owner_id, name, clock.now())
        except RuleError as error:
            return invalid("calendars", f"There is no calendar {name[:64]!r}. {error}")
        if holidays is not None:
            found[name], references[name] = holidays, reference_unsaved(holidays)
    if unknown := [name for name in job.calendars if name not in references]:
        return invalid("calendars", _unknown(job.owner_id, unknown[0]))
    if problem := _find_events(job, found):
        return problem
    job.closed_by = engine.references_of(job, references)
    return None


def store_calendars(actor: Actor, job: Job, now: datetime) -> Err | None:
    """Resolve the calendars of a job in the transaction that stores it; add the public holidays that are missing.

    They are locked, so that no calendar changes or disappears meanwhile.
    """
    return add_missing_holidays(actor, [job], now) or attach_calendars(job, is_locked=True)


def add_missing_holidays(actor: Actor, jobs: Iterable[Job], now: datetime) -> Err | None:
    """Add the public holidays that checked jobs name and that have no calendar yet, and refer the jobs to them.

    Call it in the transaction that stores the jobs.
    """
    by_owner: dict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        if has_unsaved(job.closed_by):
            by_owner[job.owner_id].append(job)
    for owner_id, owned in by_owner.items():
        owner = actor.user if actor.user.pk == owner_id else owned[0].owner
        names = [name for job in owned for name in job.named_calendars]
        # This locks the profile, so call it before any calendar is locked.
        if problem := add_holidays(actor, owner, names, now):
            return problem
        for job in owned:
            if problem := attach_calendars(job):
                return problem
    return None


def _called(job: Job) -> Q:
    closing = Q(name__in=job.calendars)
    events = _events_of(job)
    return closing | Q(name__iexact=events.calendar) if events else closing


def _events_of(job: Job) -> EventTimes | None:
    try:
        trigger = job.undelayed_trigger
    except TriggerError:
        # Validation refuses this schedule.
        return None
    return trigger.times if isinstance(trigger, AtEvents) else None


def _find_events(job: Job, found: Mapping[str, Calendar]) -> Err | None:
    """Spell the calendar in the schedule as its owner does, or return what is wrong with it."""
    if (events := _events_of(job)) is None:
        return None
    exact = next((name for name in found if name == events.calendar), None)
    calendar = exact or next((name for name in found if name.lower() == events.calendar.lower()), None)
    if calendar is None:
        return invalid("cron", _unknown(job.owner_id, events.calendar))
    if found[calendar].kind == Calendar.Kind.HOURS:
        return invalid("cron", f"{calendar} has weekly hours and no events. Choose another calendar.")
    job.cron = replace(events, calendar=calendar).expression
    if len(job.cron) > limits.CRON_LENGTH:
        return invalid("cron", f"This is longer than {limits.CRON_LENGTH} characters: shorten the title.")
    return None


def _problem(job: Job) -> Err | None:
    names = job.calendars
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return invalid("calendars", "Give a list of the names of calendars.")
    if len(names) > MAX_CALENDARS_PER_JOB or len(set(names)) < len(names):
        return invalid("calendars", f"Name at most {MAX_CALENDARS_PER_JOB} calendars, each once.")
    try:
        trigger = job.undelayed_trigger
    except TriggerError:
        # Validation refuses this schedule.
        return None
    if isinstance(trigger, AtEvents):
        if job.on_closed != Job.OnClosed.SKIP:
            return invalid("on_closed", "A job that runs with events can only skip closed times.")
        return None
    if job.trigger_type == Job.TriggerType.ONCE or isinstance(trigger, Unplanned):
        return invalid("calendars", "Leave this empty: only schedules that repeat have calendars.")
    if job.on_closed != Job.OnClosed.SKIP and runs_per_minute(trigger) * _MINUTES_PER_DAY > MAX_MOVED_PER_DAY:
        reason = f"A job that runs more than {MAX_MOVED_PER_DAY} times a day can only skip closed times."
        return invalid("on_closed", reason)
    return None


def _unknown(owner_id: int, name: str) -> str:
    missing = f"There is no calendar {name[:64]!r}."
    if len(name) <= NAME_LENGTH and (usual := usual_name(name)):
        return f"{missing} For the public holidays there, write {usual}."
    names = list(Calendar.objects.filter(owner=owner_id).order_by("name").values_list("name", flat=True)[:20])
    choices = f"Choose from: {', '.join(names)}" if names else "Create it under Settings"
    return f"{missing} {choices}, or name public holidays, like DE or DE-BY."
