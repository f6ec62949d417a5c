"""Facts of a run that the text of a notification can include: {{ job.name }}, {{ run.date }} and a few more."""

import re
from datetime import datetime
from typing import Any

from schedules.when.moments import short_words
from schedules.when.triggers import TriggerError, load_zone

TEXTS = ("message", "title")
NAMES = (
    *("job.name", "job.id", "run.scheduled_for"),
    *("run.date", "run.time", "run.weekday", "run.attempt"),
)
PLACEHOLDER = re.compile(r"\{\{\s*(\w+(?:\.[\w-]+)*)\s*\}\}")


def facts_of(
    *, job_id: str, job_name: str, scheduled_for: datetime, timezone: str, attempt: int
) -> dict[str, dict[str, str]]:
    """Return the facts as texts, with times in the job's time zone."""
    try:
        local = scheduled_for.astimezone(load_zone(timezone))
    except TriggerError:
        local = scheduled_for
    return {
        "job": {"name": job_name, "id": job_id},
        "run": {
            "scheduled_for": short_words(scheduled_for, timezone),
            "date": f"{local:%Y-%m-%d}",
            "time": f"{local:%H:%M}",
            "weekday": f"{local:%A}",
            "attempt": str(attempt),
        },
    }


def has_name(text: Any) -> bool:
    """Return whether a text contains a placeholder."""
    return isinstance(text, str) and PLACEHOLDER.search(text) is not None
