"""Template tags that draw runs as SVG: recent outcomes, durations, and the next 24 hours."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import lru_cache
from math import sqrt
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from schedules.models import Execution
from schedules.templatetags.cronty_statuses import OUTCOMES, STATUSES
from schedules.templatetags.cronty_times import clock_words, duration, local_and_utc
from schedules.when.zones import local

register = template.Library()

LETTERS = {"succeeded": "s", "failed": "f", "lost": "l", "cancelled": "c", "missed": "m", "skipped": "k"}
NAMED_JOBS = 3
# Fewer bars are drawn as narrow as if there were this many.
MIN_BARS = 30
BAR_HEIGHT = 70
AHEAD_HEIGHT = 34
# As many bars as fit into a list, at 6 px or more each.
STRIP_RUNS = 24


@register.simple_tag
@lru_cache(maxsize=1024)
def strip(recent: str) -> SafeString:
    """Draw the last outcomes as bars, newest on the right, with one path per kind of outcome to keep the page small."""
    paths: dict[str, str] = {}
    recent = recent[-STRIP_RUNS:]
    for index, letter in enumerate(recent):
        paths[letter] = paths.get(letter, "") + f"M{index * 7} 0h5v18h-5z"
    counts = ", ".join(f"{recent.count(letter)} {OUTCOMES.get(letter, letter)}" for letter in paths)
    # Cached, because a list shows 50 strips, and most jobs have the same history.
    return render_to_string(
        "schedules/parts/strip.html",
        {"recent": recent, "counts": counts, "paths": paths, "width": STRIP_RUNS * 7 - 2},
    )


@register.inclusion_tag("schedules/parts/bars.html")
def bars(runs: Iterable[Execution], zone: str = "UTC") -> dict[str, Any]:
    """Draw the durations of the last runs, oldest on the left, with an outline for a run that never started."""
    rows = list(runs)
    longest = max((run.took.total_seconds() for run in rows if run.took), default=0) or 1
    drawn = []
    slots = max(len(rows), MIN_BARS)
    for index, run in enumerate(rows, start=slots - len(rows)):
        height = max(4, run.took.total_seconds() / longest * BAR_HEIGHT) if run.took else BAR_HEIGHT
        took = f" · {duration(run.took)}" if run.took else ""
        drawn.append(
            {
                "link": reverse("schedules:run", args=[run.pk]) if run.pk else "",
                "letter": LETTERS.get(run.status, "r"),
                "x": index * 10 + 1,
                "y": f"{BAR_HEIGHT + 1 - height:.1f}",
                "height": f"{height:.1f}",
                "title": f"{local_and_utc(run.scheduled_for, zone)} · {STATUSES[run.status][0]}{took}",
            }
        )
    scale = {"longest": timedelta(seconds=longest) if any(run.took for run in rows) else None}
    ends = {"first": rows[0].scheduled_for, "last": rows[-1].scheduled_for} if rows else {}
    return {"bars": drawn, "width": slots * 10, "zone": zone, **scale, **ends}


@register.inclusion_tag("schedules/parts/next_24_hours.html")
def next_24_hours(ahead: Any) -> dict[str, Any]:
    """Draw how many runs start in each quarter of an hour, with failing and overdue jobs in red."""
    max_count = max((bucket.count for bucket in ahead.buckets), default=0) or 1
    share = 100 / len(ahead.buckets)
    drawn = []
    for index, bucket in enumerate(ahead.buckets):
        if not bucket.count:
            continue
        height = 5 + (AHEAD_HEIGHT - 5) * sqrt(bucket.count / max_count)
        is_red = (index == 0 and ahead.late) or ahead.failing & bucket.jobs.keys()
        drawn.append(
            {
                "title": _bucket_title(bucket, ahead),
                "colour": "late" if is_red else "bar",
                "left": f"{index * share:.3f}",
                "x": f"{(index + 0.15) * share:.3f}",
                "y": f"{AHEAD_HEIGHT - height:.1f}",
                "height": f"{height:.1f}",
            }
        )
    return {
        "total": ahead.total,
        "height": AHEAD_HEIGHT,
        "hours": list(_hours(ahead)),
        "dense": _names([f"{name} ({count:,})" for name, count in ahead.dense.items()]),
        "bars": drawn,
        "share": f"{share:.3f}",
        "width": f"{share * 0.7:.3f}",
    }


def _bucket_title(bucket: Any, ahead: Any) -> str:
    names = [f"{name} ({count})" if count > 1 else name for name, count in bucket.jobs.items()]
    start, end = (local(moment, ahead.zone) for moment in (bucket.start, bucket.start + ahead.QUARTER))
    runs = f"{bucket.count} run{'' if bucket.count == 1 else 's'}"
    failing = sorted(ahead.failing & bucket.jobs.keys())
    warning = f" · failing now: {_names(failing)}" if failing else ""
    return f"{clock_words(start)}–{clock_words(end)} · {runs}: {_names(names)}{warning}"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_JOBS} more" if len(names) > NAMED_JOBS else ""
    return ", ".join(names[:NAMED_JOBS]) + more


def _hours(ahead: Any) -> Iterator[dict[str, Any]]:
    """Yield a mark for every third hour of the clock, with labels for those that fit on a phone."""
    # Step through elapsed time by quarters of an hour, because clocks may skip or repeat an hour or half an hour.
    past_quarter = (ahead.start - ahead.start.replace(minute=0, second=0, microsecond=0)) % ahead.QUARTER
    for quarter in range(1, ahead.QUARTERS + 1):
        moment = ahead.start - past_quarter + quarter * ahead.QUARTER
        clock = local(moment, ahead.zone)
        x = (moment - ahead.start) / (ahead.QUARTERS * ahead.QUARTER) * 100
        if clock.minute or clock.hour % 3 or x >= 100:
            continue
        has_label = clock.hour % 6 == 0 and 15 < x < 95
        yield {"x": f"{x:.2f}", "label": clock_words(clock) if has_label else ""}
