"""How does a history or a day ahead look? Drawn as SVG by the server, without a template loop.

A loop in a template takes ten times as long; whatever goes in is escaped here.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Any

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from schedules.models import Execution
from schedules.templatetags.cronty import OUTCOMES, STATUSES, both_clocks, duration, local

register = template.Library()

LETTERS = {"succeeded": "s", "failed": "f", "lost": "l", "cancelled": "c", "missed": "m", "skipped": "k"}
NAMED_JOBS = 3
AHEAD_HEIGHT = 34
_BAND = f'<rect class="band" x="0" y="{AHEAD_HEIGHT - 6}" width="100%" height="6"/>'


@register.simple_tag
def strip(recent: str) -> SafeString:
    """Draw the last outcomes as bars, newest on the right; one path per outcome keeps the page small."""
    if not recent:
        return mark_safe('<span class="mut small">No runs yet</span>')  # nosec B308
    boxes: dict[str, str] = {}
    for place, letter in enumerate(recent):
        boxes[letter] = boxes.get(letter, "") + f"M{place * 7} 0h5v18h-5z"
    counts = ", ".join(f"{recent.count(letter)} {OUTCOMES.get(letter, letter)}" for letter in boxes)
    paths = "".join(f'<path class="b-{escape(key.lower())}" d="{path}"/>' for key, path in boxes.items())
    return mark_safe(  # noqa: S308  # nosec B308 B703
        f'<svg class="strip" viewBox="0 0 208 18" role="img" aria-label="Last {len(recent)} runs: {escape(counts)}">'
        f"<title>{escape(counts)}</title>{paths}</svg>"
    )


@register.simple_tag
def bars(runs: Iterable[Execution], zone: str = "UTC") -> SafeString:
    """Draw how long the last runs took, oldest on the left; what never ran is an outline."""
    rows = list(runs)
    longest = max((run.took.total_seconds() for run in rows if run.took), default=0) or 1
    drawn = []
    for place, run in enumerate(rows, start=60 - len(rows)):
        height = max(4, run.took.total_seconds() / longest * 70) if run.took else 70
        took = f" · {duration(run.took)}" if run.took else ""
        title = escape(f"{both_clocks(run.scheduled_for, zone)} · {STATUSES[run.status][0]}{took}")
        drawn.append(
            f'<rect class="b-{LETTERS.get(run.status, "r")}" x="{place * 10 + 1}" y="{71 - height:.1f}" width="8"'
            f' height="{height:.1f}" rx="1"><title>{title}</title></rect>'
        )
    return mark_safe(  # noqa: S308  # nosec B308 B703
        '<svg class="bars" viewBox="0 0 600 72" preserveAspectRatio="none" role="img"'
        f' aria-label="How long the last {len(rows)} runs took">{"".join(drawn)}</svg>'
    )


@register.simple_tag
def next_24_hours(ahead: Any) -> SafeString:
    """Draw how much fires in each quarter of an hour; overdue jobs stand at the left edge in red."""
    most = max((bucket.count for bucket in ahead.buckets), default=0) or 1
    share = 100 / len(ahead.buckets)
    drawn = []
    for place, bucket in enumerate(ahead.buckets):
        if not bucket.count:
            continue
        height = 5 + (AHEAD_HEIGHT - 5) * sqrt(bucket.count / most)
        colour = "late" if place == 0 and ahead.late else "bar"
        x = place * share
        drawn.append(
            f'<g><title>{escape(_bucket_words(bucket, ahead))}</title><rect class="hit" x="{x:.3f}%" y="0"'
            f' width="{share:.3f}%" height="{AHEAD_HEIGHT}"/><rect class="{colour}" x="{x + share * 0.15:.3f}%"'
            f' y="{AHEAD_HEIGHT - height:.1f}" width="{share * 0.7:.3f}%" height="{height:.1f}" rx="1"/></g>'
        )
    label = f"Runs planned in the next 24 hours: {ahead.total}"
    if ahead.dense:
        names = ", ".join(f"{name} ({count:,})" for name, count in list(ahead.dense.items())[:NAMED_JOBS])
        more = f" and {len(ahead.dense) - NAMED_JOBS} more" if len(ahead.dense) > NAMED_JOBS else ""
        drawn.insert(0, f"<g><title>{escape(f'All day: {names}{more}')}</title>{_BAND}</g>")
    return mark_safe(  # noqa: S308  # nosec B308 B703
        f'<svg class="ahead" role="img" aria-label="{label}">{_hours(ahead)}{"".join(drawn)}</svg>'
    )


def _bucket_words(bucket: Any, ahead: Any) -> str:
    names = [f"{name} ({count})" if count > 1 else name for name, count in bucket.jobs.items()]
    more = f" and {len(names) - NAMED_JOBS} more" if len(names) > NAMED_JOBS else ""
    start, end = (local(moment, ahead.zone) for moment in (bucket.start, bucket.start + ahead.QUARTER))
    runs = f"{bucket.count} run{'' if bucket.count == 1 else 's'}"
    return f"{start:%H:%M}—{end:%H:%M} · {runs}: {', '.join(names[:NAMED_JOBS])}{more}"


def _hours(ahead: Any) -> str:
    """Mark every third hour of the clock, and name those that fit on a phone."""
    base = AHEAD_HEIGHT + 0.5
    marks = [
        f'<line class="grid" x1="0" x2="100%" y1="{base}" y2="{base}"/>',
        f'<text x="0" y="{base + 17}">now</text>',
    ]
    # Quarter by quarter in elapsed time: clocks may skip or repeat an hour, or half of one.
    past_quarter = (ahead.start - ahead.start.replace(minute=0, second=0, microsecond=0)) % ahead.QUARTER
    for quarter in range(1, ahead.QUARTERS + 1):
        moment = ahead.start - past_quarter + quarter * ahead.QUARTER
        clock = local(moment, ahead.zone)
        x = (moment - ahead.start) / (ahead.QUARTERS * ahead.QUARTER) * 100
        if clock.minute or clock.hour % 3 or x >= 100:
            continue
        marks.append(f'<line class="grid" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="{base + 4}"/>')
        if clock.hour % 6 == 0 and 12 < x < 95:
            marks.append(f'<text x="{x:.2f}%" y="{base + 17}" text-anchor="middle">{clock:%H:%M}</text>')
    return "".join(marks)
