"""Template filters that format jobs, events and stored values as text."""

import json
from typing import Any

from django import template
from django.forms import Form

from schedules import clock
from schedules.models import Event, Job
from schedules.models.counting import count_words
from schedules.models.triggers import MONTH, CalendarUnit
from schedules.secrets import masking
from schedules.services.activity import Change, changes_of_event
from schedules.services.installation.command_words import how_to_run
from schedules.services.jobs.forecasts import words_of
from schedules.tasks import registry
from schedules.templatetags.cronty_times import day_and_clock, duration, on_readers_clock

register = template.Library()

register.simple_tag(how_to_run)
register.filter("counted", count_words)

VERBS = {
    "create": "created",
    "edit": "changed",
    "pause": "paused",
    "resume": "resumed",
    "confirm": "confirmed",
    "cancel": "stopped",
    "delete": "moved to the trash",
    "restore": "restored",
    "restore backup": "restored from a backup",
    "run": "ran",
    "stop": "stopped a run of",
    "finish": "finished",
    "complete": "answered a prompt for",
    "dismiss": "dismissed a prompt for",
    "release": "released a prompt for",
    "answer": "answered the reminder of",
    "allow": "allowed a call of the agent of",
    "deny": "denied a call of the agent of",
    "reply": "answered a question of the agent of",
    "decline": "declined a question of the agent of",
    "issue token": "created the token",
    "revoke token": "revoked the token",
    "connect app": "connected the app",
    "rotate key": "rotated the signing key of",
    "set secret": "set the secret",
    "delete secret": "deleted the secret",
    "set calendar": "set the calendar",
    "delete calendar": "deleted the calendar",
    "set channel": "set the channel",
    "confirm channel": "confirmed the channel",
    "rename channel": "renamed the channel",
    "delete channel": "deleted the channel",
    "open trigger": "gave a trigger address to",
    "rotate trigger": "gave a new trigger address to",
    "close trigger": "closed the trigger address of",
    "switch on channel": "switched on the events of the channel",
    "switch off channel": "switched off the events of the channel",
    "rotate channel": "created a new secret for the channel",
    "snooze alert": "snoozed alerts of",
    "set preferences": "changed the settings",
    "end access": "ended all sessions and tokens of",
    "stop agents": "stopped the agents of",
    "start agents": "started the agents again of",
}
# Labels for the interface through which a change was made.
DOORS: dict[str, str] = {
    Event.Door.MCP: "MCP",
    Event.Door.API: "API",
    Event.Door.COMMAND: "Server command",
    Event.Door.TERMINAL: "Terminal",
    Event.Door.PING: "First ping",
    Event.Door.CODE: "Python code",
    Event.Door.ENGINE: "Scheduler",
    Event.Door.LINK: "Notification",
}
LONG_VALUE = 120


@register.filter
def schedule_text(job: Job) -> str:
    """Describe the schedule of a job, with times on the reader's clock."""
    return on_readers_clock(words_of(job))


@register.filter
def expression(job: Job) -> str:
    """Return the schedule as it is stored, to show beside its description."""
    if job.trigger_type == Job.TriggerType.CRON:
        return job.cron
    if job.every and job.calendar_unit == CalendarUnit.MONTHS:
        return f"every {job.every // MONTH} months"
    return f"every {duration(job.every)}" if job.every else "once"


@register.filter
def short_schedule(job: Job, description: str) -> str:
    """Shorten the description of a schedule for a column: a one-time job shows only its moment."""
    return day_and_clock(job.run_at, job.timezone, clock.now()) if job.run_at else description


@register.filter
def task_title(name: str) -> str:
    task = registry.get(name)
    return task.title if task else name


@register.filter
def pretty(value: Any) -> str:
    """Format a stored JSON value for reading, with secrets masked; text is unchanged."""
    if isinstance(value, str):
        return value
    return json.dumps(masking.masked(value), ensure_ascii=False, indent=2)


@register.filter
def is_long(value: Any) -> bool:
    return not isinstance(value, str) or len(value) > LONG_VALUE or "\n" in value


@register.filter
def split_words(text: str) -> list[str]:
    return text.split()


@register.filter
def grouped(number: int) -> str:
    """Format a number with thousands separators."""
    return f"{number:,}"


@register.filter
def verb(event: Event) -> str:
    return VERBS.get(event.verb, event.verb)


@register.filter
def action(verb: str) -> str:
    """Return the label of an event without its subject: "Stopped a run"."""
    return VERBS[verb].removesuffix(" of").removesuffix(" for").capitalize()


@register.filter
def door(key: str) -> str:
    return DOORS.get(key, key.capitalize())


@register.filter
def changes(event: Event) -> list[Change]:
    """List what an event changed, with times on the reader's clock."""
    return [
        Change(
            change.label, change.before and on_readers_clock(change.before), on_readers_clock(change.after)
        )
        for change in changes_of_event(event)
    ]


@register.filter
def when_errors(form: Form) -> list[str]:
    """List the errors of a schedule's main fields, except those that are still empty."""
    fields = [form[name] for name in ("phrase", "every_count", "run_at", "timezone")]
    return [str(error) for field in fields if field.value() for error in field.errors]
