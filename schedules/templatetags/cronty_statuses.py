"""Template tags for statuses, outcomes and causes, and their icons."""

from collections.abc import Iterable
from functools import cache, lru_cache

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from schedules.models import EventType, Execution
from schedules.models.executions import OUTCOME_LETTERS
from schedules.models.standings import STANDINGS
from schedules.tasks.heartbeat import HEARTBEAT

register = template.Library()

_CIRCLE = "M22 12a10 10 0 1 1-20 0 10 10 0 1 1 20 0"
# Outlines from Lucide (ISC licence), on a grid of 24 by 24.
ICONS = {
    "check": f"{_CIRCLE}M8 12l3 3 5-6",
    "cross": f"{_CIRCLE}M15 9l-6 6m0-6 6 6",
    "alarm": f"{_CIRCLE}M12 7v6m0 4h.01",
    "turning": "M21 12a9 9 0 1 1-6.2-8.6",
    "circle": "M21 12a9 9 0 1 1-18 0 9 9 0 1 1 18 0",
    "pause": f"{_CIRCLE}M10 15V9m4 6V9",
    "flag": "M4 22V4h13l-2 4 2 4H4",
    "ban": f"{_CIRCLE}M5 5l14 14",
    "clock": f"{_CIRCLE}M12 6v6l4 2",
    "inbox": "M22 12h-6l-2 3h-4l-2-3H2l3-7h14l3 7v7H2v-7",
    "skip": "M5 4l10 8-10 8zM19 5v14",
    "play": "M6 3l14 9-14 9z",
    "retry": "M3 12a9 9 0 1 0 3-6.7L3 8m0-5v5h5",
    "list": "M8 6h13M8 12h13M8 18h13M3 6h.01M3 12h.01M3 18h.01",
    "calendar": "M8 2v4m8-4v4M3 10h18M3 4h18v17H3z",
    "more": "M5 12h.01M12 12h.01M19 12h.01",
    "theme": f"{_CIRCLE}M12 2v20M12 6a6 6 0 0 1 0 12",
    "search": "M19 11a8 8 0 1 1-16 0 8 8 0 1 1 16 0M21 21l-4.3-4.3",
    "bell": "M6 8a6 6 0 0 1 12 0c0 7 3 9 3 9H3s3-2 3-9M10.3 21a2 2 0 0 0 3.4 0",
    "globe": f"{_CIRCLE}M2 12h20M12 2a15 15 0 0 1 0 20a15 15 0 0 1 0-20",
    "message": "M21 15a2 2 0 0 1-2 2H7l-4 4V5a2 2 0 0 1 2-2h14a2 2 0 0 1 2 2z",
    "mail": "M2 5h20v14H2zM2 7l10 7L22 7",
    "terminal": "M4 17l6-6-6-6M12 19h8",
    "code": "M16 18l6-6-6-6M8 6l-6 6 6 6",
    "warning": "M12 3l10 18H2zM12 10v4m0 4h.01",
    "plus": "M12 5v14M5 12h14",
    "pulse": "M2 12h5l3-8 4 16 3-8h5",
    "pencil": "M17 3l4 4L8 20l-5 1 1-5z",
    "bin": "M4 6h16M9 6V3h6v3M6 6l1 15h10l1-15",
    "key": "M13 9a5 5 0 1 1-10 0 5 5 0 1 1 10 0M12 12l9 9m-4-4l3-3",
}
# Word, colour and icon of each status of jobs and runs; colour alone is not accessible.
STATUSES = {
    "stopped_failing": (STANDINGS["stopped_failing"], "fail", "alarm"),
    "late": ("Late", "fail", "alarm"),
    "failing": ("Failing", "fail", "cross"),
    "retrying": ("Retrying", "warn", "retry"),
    "running": ("Running", "run", "turning"),
    "healthy": ("Healthy", "ok", "check"),
    "new": ("New", "pau", "circle"),
    "paused": ("Paused", "pau", "pause"),
    "completed": (STANDINGS["completed"], "pau", "flag"),
    "failed": ("Failed", "fail", "cross"),
    "cancelled": ("Cancelled", "pau", "ban"),
    "queued": ("Queued", "pau", "clock"),
    "awaited": ("Waiting for a ping", "pau", "clock"),
    "claimed": ("Starting", "run", "turning"),
    "waiting": ("Waiting for an agent", "warn", "inbox"),
    "asking": ("Needs you", "warn", "inbox"),
    "succeeded": ("Succeeded", "ok", "check"),
    "skipped": ("Skipped", "pau", "skip"),
    "missed": ("Missed", "fail", "alarm"),
    "lost": ("Lost", "fail", "alarm"),
}
OUTCOMES = {letter: outcome for outcome, letter in OUTCOME_LETTERS.items()}
# The icon of an event, by the first word of its verb.
VERB_ICONS = {
    "create": "plus",
    "pause": "pause",
    "resume": "play",
    "run": "play",
    "cancel": "ban",
    "stop": "ban",
    "end": "ban",
    "revoke": "ban",
    "delete": "bin",
    "restore": "retry",
    "finish": "flag",
    "complete": "check",
    "answer": "check",
    "confirm": "check",
    "allow": "check",
    "deny": "ban",
    "reply": "check",
    "decline": "ban",
    "dismiss": "inbox",
    "release": "inbox",
    "issue": "key",
    "add": "plus",
    "switch": "flag",
    "rotate": "key",
    "connect": "key",
}
# The icons of built-in tasks; `kind_icon` has those of commands and other functions.
KIND_ICONS = {
    "heartbeat": "pulse",
    "notify": "bell",
    "webhook": "globe",
    "prompt": "message",
    "email": "mail",
}
CAUSES = {
    "schedule": "Scheduled",
    "manual": "Manual",
    "catch_up": "Catch-up",
    "reminder": "Reminder",
    "after": "After another job",
    "trigger": "Trigger address",
    "event": "Event",
}


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    return format_html(
        '<svg class="icon{}" viewBox="0 0 24 24" aria-hidden="true"><path d="{}"/></svg>',
        " spin" if name == "turning" else "",
        ICONS[name],
    )


@register.simple_tag
def kind_icon(task_name: str, is_command: bool) -> SafeString:
    return icon(KIND_ICONS.get(task_name, "terminal" if is_command else "code"))


@register.simple_tag
def verb_icon(verb: str) -> SafeString:
    return icon(VERB_ICONS.get(verb.partition(" ")[0], "pencil"))


@register.simple_tag
@lru_cache(maxsize=128)
def status(key: str, size: str = "") -> SafeString:
    """Show a status as icon and word; cached, because a list shows 50 of them."""
    word, colour, shape = STATUSES.get(key, (key, "pau", "circle"))
    return format_html('<span class="st {} {}">{}{}</span>', colour, size, icon(shape), word)


@register.simple_tag
@lru_cache(maxsize=64)
def standing(key: str, size: str = "") -> SafeString:
    """Show how a job stands, as icon and word."""
    _, colour, shape = STATUSES[key]
    return format_html('<span class="st {} {}">{}{}</span>', colour, size, icon(shape), STANDINGS[key])


@register.filter
def is_bad(key: str) -> bool:
    return STATUSES[key][1] == "fail"


@register.filter
def standing_word(key: str) -> str:
    return STANDINGS[key]


@register.filter
def status_word(key: str) -> str:
    return STATUSES[key][0] if key in STATUSES else key


@register.filter
def last_outcome(recent: str) -> str:
    return OUTCOMES.get(recent[-1:], "")


@register.filter
def cause(key: str) -> str:
    return CAUSES.get(key, key)


@register.filter
def events_in_words(types: Iterable[str]) -> str:
    """List types of events as a phrase: "A prompt is due, a run failed"."""
    names = dict(EventType.choices)
    text = ", ".join(f"{names[each][0].lower()}{names[each][1:]}" for each in types)
    return f"{text[:1].upper()}{text[1:]}"


@register.filter
def started_by(run: Execution) -> str:
    """Return what started a run; a ping outside a slot counts as a ping, although its cause is "manual"."""
    return "Ping" if is_pinged(run) else cause(run.cause)


@register.filter
def is_pinged(run: Execution) -> bool:
    return run.task == HEARTBEAT and run.cause == Execution.Cause.MANUAL
