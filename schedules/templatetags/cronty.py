"""How is a status, a moment or a history shown? The small parts that every page is made of."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.forms import BoundField, CheckboxInput, Form, Select
from django.utils.html import conditional_escape, escape
from django.utils.safestring import SafeString, mark_safe

from schedules import clock, limits
from schedules.models import Event, Job
from schedules.services.reading import words_of
from schedules.tasks import registry
from schedules.when import durations

register = template.Library()
register.filter("words", words_of)

# Lucide (ISC): drawn with a 24-unit pen.
ICONS = {
    "check": '<circle cx="12" cy="12" r="10"/><path d="m8 12 3 3 5-6"/>',
    "cross": '<circle cx="12" cy="12" r="10"/><path d="m15 9-6 6m0-6 6 6"/>',
    "alarm": '<circle cx="12" cy="12" r="10"/><path d="M12 7v6m0 4h.01"/>',
    "turning": '<path d="M21 12a9 9 0 1 1-6.2-8.6"/>',
    "circle": '<circle cx="12" cy="12" r="9"/>',
    "pause": '<circle cx="12" cy="12" r="10"/><path d="M10 15V9m4 6V9"/>',
    "flag": '<path d="M4 22V4h13l-2 4 2 4H4"/>',
    "ban": '<circle cx="12" cy="12" r="10"/><path d="m5 5 14 14"/>',
    "clock": '<circle cx="12" cy="12" r="10"/><path d="M12 6v6l4 2"/>',
    "inbox": '<path d="M22 12h-6l-2 3h-4l-2-3H2l3-7h14l3 7v7H2v-7"/>',
    "skip": '<path d="m5 4 10 8-10 8zM19 5v14"/>',
    "play": '<path d="m6 3 14 9-14 9z"/>',
    "warning": '<path d="m12 3 10 18H2zM12 10v4m0 4h.01"/>',
}
# Word, colour and icon of every status of a job as shown, and of a run: never colour alone.
STATUSES = {
    "late": ("Late", "fail", "alarm"),
    "failing": ("Failing", "fail", "cross"),
    "running": ("Running", "run", "turning"),
    "healthy": ("Healthy", "ok", "check"),
    "new": ("New", "pau", "circle"),
    "paused": ("Paused", "pau", "pause"),
    "completed": ("Finished", "pau", "flag"),
    "failed": ("Failed", "fail", "cross"),
    "cancelled": ("Cancelled", "pau", "ban"),
    "queued": ("Queued", "pau", "clock"),
    "claimed": ("Starting", "run", "turning"),
    "waiting": ("Waiting for an agent", "warn", "inbox"),
    "succeeded": ("Succeeded", "ok", "check"),
    "skipped": ("Skipped", "pau", "skip"),
    "missed": ("Missed", "fail", "alarm"),
    "lost": ("Lost", "fail", "alarm"),
}
OUTCOMES = {"S": "succeeded", "F": "failed", "L": "lost", "C": "cancelled"}
CAUSES = {"schedule": "on schedule", "manual": "run by hand", "catch_up": "catching up"}
# Each up to where it would be rounded to a whole one of the next, if that is near enough.
UNITS = ((59.5, 1, "s"), (7170, 60, "min"), (171_000, 3600, "h"), (float("inf"), 86_400, "d"))


def relative(moment: datetime, now: datetime) -> str:
    """Say about how far away a moment is: "in 49 s", "3 h ago"; app.js knows the same words."""
    seconds = (moment - now).total_seconds()
    size = abs(seconds)
    if size < 1:
        return "now"
    unit, name = next((unit, name) for end, unit, name in UNITS if size < end)
    words = f"{int(size / unit + 0.5)} {name}"
    return f"in {words}" if seconds > 0 else f"{words} ago"


def local(moment: datetime, zone: str) -> datetime:
    try:
        return moment.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError, OverflowError):
        return moment.astimezone(UTC)


def both_clocks(moment: datetime, zone: str) -> str:
    """Write a moment in full, in its zone and in UTC."""
    here = local(moment, zone)
    full = f"{here:%a} {here.day} {here:%b %Y %H:%M:%S} {here.tzname()}"
    return full if here.tzname() == "UTC" else f"{full} · {moment.astimezone(UTC):%a %H:%M:%S} UTC"


def day_and_clock(moment: datetime, zone: str, now: datetime, *, exact: bool = False) -> str:
    """Write a moment as short as it stays clear: a weekday this year, else the year."""
    here = local(moment, zone)
    is_this_year = here.year == local(now, zone).year
    day = f"{here:%a} {here.day} {here:%b}" if is_this_year else f"{here.day} {here:%b %Y}"
    return f"{day} {here:%H:%M:%S}" if exact else f"{day} {here:%H:%M}"


@register.simple_tag
def icon(name: str) -> SafeString:
    spin = " spin" if name == "turning" else ""
    return mark_safe(f'<svg class="icon{spin}" viewBox="0 0 24 24" aria-hidden="true">{ICONS[name]}</svg>')  # noqa: S308  # nosec B308 B703


@register.simple_tag
def status(key: str, size: str = "") -> SafeString:
    """Show a status as icon and word."""
    word, colour, shape = STATUSES.get(key, (key, "pau", "circle"))
    return mark_safe(f'<span class="st {colour} {size}">{icon(shape)}{escape(word)}</span>')  # noqa: S308  # nosec B308 B703


@register.simple_tag
def ago(moment: datetime | None, zone: str = "UTC") -> SafeString:
    """Show how far away a moment is; the full time in its zone and in UTC on hover."""
    if moment is None:
        return mark_safe('<span class="mut">never</span>')  # nosec B308
    return _time(moment, zone, relative(moment, clock.now()), " data-rel")


@register.simple_tag
def at(moment: datetime | None, zone: str = "UTC", *, exact: bool = False) -> SafeString:
    """Show a moment on the clock of a zone, to the minute or to the second."""
    if moment is None:
        return mark_safe('<span class="mut">—</span>')  # nosec B308
    return _time(moment, zone, day_and_clock(moment, zone, clock.now(), exact=exact))


@register.simple_tag
def to_the_second(moment: datetime | None, zone: str = "UTC") -> SafeString:
    if moment is None:
        return mark_safe('<span class="mut">—</span>')  # nosec B308
    return _time(moment, zone, f"{local(moment, zone):%H:%M:%S}")


def _time(moment: datetime, zone: str, words: str, extra: str = "") -> SafeString:
    title = escape(both_clocks(moment, zone))
    stamp = moment.astimezone(UTC).isoformat()
    return mark_safe(f'<time datetime="{stamp}" title="{title}"{extra}>{words}</time>')  # noqa: S308  # nosec B308 B703


@register.filter
def need_seconds(moments: list[datetime]) -> bool:
    """Would some of these moments be told wrong, or apart, by the minute alone?"""
    return any(moment.second for moment in moments)


@register.filter
def in_utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%a %H:%M} UTC"


@register.filter
def duration(span: timedelta | float | None) -> str:
    """Write a duration, given as such or in seconds: "2 min 30 s"."""
    if span is None:
        return "—"
    return durations.short(span if isinstance(span, timedelta) else timedelta(seconds=float(span)))


@register.filter
def expression(job: Job) -> str:
    """The schedule as the table has it, beside its words."""
    if job.trigger_type == Job.TriggerType.CRON:
        return job.cron
    return f"every {duration(job.every)}" if job.every else "once"


@register.filter
def task_title(name: str) -> str:
    task = registry.get(name)
    return task.title if task else name


@register.filter
def cause(key: str) -> str:
    return CAUSES.get(key, key)


@register.filter
def last_outcome(recent: str) -> str:
    return OUTCOMES.get(recent[-1:], "")


@register.filter
def item(mapping: Mapping[str, Any], key: str) -> Any:
    return mapping.get(key)


@register.filter
def pretty(value: Any) -> str:
    """Write a stored JSON value for reading, its secrets hidden; text stays text."""
    if isinstance(value, str):
        return value
    return json.dumps(limits.masked(value), ensure_ascii=False, indent=2)


@register.simple_tag
def field(bound: BoundField, label: str = "") -> SafeString:
    """Show a form field: label, control, hint, and its errors beside it."""
    hint_id, error_id = f"{bound.auto_id}_hint", f"{bound.auto_id}_error"
    # A hint of Django's own may be a list, which a paragraph cannot hold.
    hint = (
        f'<div class="hint" id="{hint_id}">{conditional_escape(bound.help_text)}</div>'
        if bound.help_text
        else ""
    )
    problems = escape(" ".join(str(error) for error in bound.errors))
    errors = f'<p class="err" id="{error_id}">{problems}</p>' if problems else ""
    described = " ".join(filter(None, [hint and hint_id, errors and error_id]))
    attrs: dict[str, str | bool] = {"aria-describedby": described} if described else {}
    if errors:
        attrs["aria-invalid"] = "true"
    label_words = escape(label or bound.label or "")
    control = bound.as_widget(attrs=attrs)
    widget = bound.field.widget
    if isinstance(widget, CheckboxInput):
        inner = f'<label for="{bound.auto_id}">{control} {label_words}</label>'
    else:
        optional = "" if widget.is_required or isinstance(widget, Select) else _OPTIONAL
        inner = f'<label for="{bound.auto_id}">{label_words}{optional}</label>{control}'
    return mark_safe(f'<div class="f">{inner}{hint}{errors}</div>')  # noqa: S308  # nosec B308 B703


_OPTIONAL = ' <span class="opt">optional</span>'

DONE = {
    "create": "made",
    "edit": "changed",
    "pause": "paused",
    "resume": "resumed",
    "cancel": "cancelled",
    "delete": "moved to the trash",
    "restore": "restored",
    "run": "ran",
    "finish": "finished",
    "complete": "answered a prompt of",
    "dismiss": "dismissed a prompt of",
    "release": "took back a prompt of",
    "issue token": "made the token",
    "revoke token": "revoked the token",
}


@register.filter
def done(event: Event) -> str:
    return DONE.get(event.verb, event.verb)


@register.filter
def door(key: str) -> str:
    return "MCP" if key == Event.Door.MCP else key


@register.filter
def changes(event: Event) -> list[tuple[str, str, str]]:
    """List what an event changed, as (column, before, after)."""
    names = [name for name in {**event.before, **event.after} if name != "execution"]
    return [
        (name.replace("_", " "), _value(event.before.get(name)), _value(event.after.get(name)))
        for name in names
        if event.before.get(name) != event.after.get(name)
    ]


def _value(value: Any) -> str:
    if value in (None, "", [], {}):
        return "—"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


@register.filter
def status_word(key: str) -> str:
    return STATUSES[key][0] if key in STATUSES else key


@register.filter
def cut_words(text: str) -> list[str]:
    return text.split()


@register.filter
def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


@register.filter
def hide_secrets(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    masked = limits.masked(dict(values))
    return list(masked.items())


@register.filter
def is_long(value: Any) -> bool:
    return not isinstance(value, str) or len(value) > 120 or "\n" in value


@register.filter
def when_errors(form: Form) -> list[str]:
    """What keeps the schedule in a form from being read; silent about what is not filled in yet."""
    shown = ("phrase", "every_count", "run_at", "timezone")
    return [str(error) for name in shown if form[name].value() for error in form[name].errors]


@register.simple_tag(name="clock")
def clock_time(moment: datetime, zone: str) -> str:
    return f"{local(moment, zone):%H:%M}"
