"""Calendars of a job: look them up by name when the job is stored, and check them against its schedule."""

from collections.abc import Mapping
from dataclasses import replace

from django.db.models import Q

from schedules import engine, limits
from schedules.models import Calendar, Job
from schedules.models.calendars import MAX_CALENDARS_PER_JOB
from schedules.models.triggers import columns_of
from schedules.result import Err, invalid
from schedules.when.event_times import AtEvents, EventTimes
from schedules.when.moves import MAX_MOVED_PER_DAY, JobTrigger
from schedules.when.slot_batches import runs_per_minute
from schedules.when.triggers import Trigger, TriggerError
from schedules.when.unplanned import Unplanned

_MINUTES_PER_DAY = 24 * 60


def attach_calendars(job: Job, *, is_locked: bool = False) -> Err | None:
    """Resolve the calendars that a job names, or return what is wrong with them.

    Lock them in the transaction that stores the job, so that no calendar changes or disappears meanwhile.
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
    references = {row.name: row.reference for row in rows.only("name", "digest")}
    if unknown := [name for name in job.calendars if name not in references]:
        return invalid("calendars", _unknown(job.owner_id, unknown[0]))
    if problem := _find_events(job, references):
        return problem
    job.closed_by = engine.references_of(job, references)
    return None


def with_events(owner_id: int, trigger: Trigger, timezone: str) -> JobTrigger:
    """Add the events of the owner's calendar to a trigger that runs with events and has no job yet."""
    if not isinstance(trigger, AtEvents):
        return trigger
    job = Job(owner_id=owner_id, timezone=timezone, **columns_of(trigger))
    attach_calendars(job)
    return job.trigger


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


def _find_events(job: Job, references: Mapping[str, str]) -> Err | None:
    """Spell the calendar in the schedule as its owner does, or return what is wrong with it."""
    if (events := _events_of(job)) is None:
        return None
    exact = next((name for name in references if name == events.calendar), None)
    calendar = exact or next((name for name in references if name.lower() == events.calendar.lower()), None)
    if calendar is None:
        return invalid("cron", _unknown(job.owner_id, events.calendar))
    kind = Calendar.objects.values_list("kind", flat=True).get(owner=job.owner_id, name=calendar)
    if kind == Calendar.Kind.HOURS:
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
    names = list(Calendar.objects.filter(owner=owner_id).order_by("name").values_list("name", flat=True)[:20])
    hint = f"Choose from: {', '.join(names)}." if names else "There are none yet: create it under Settings."
    return f"There is no calendar {name[:64]!r}. {hint}"
