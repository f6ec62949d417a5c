"""Which columns of a job a caller may set, and what kind of value each takes."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models

from schedules import limits
from schedules.models import Job

EDITABLE = (
    "name",
    "task",
    "args",
    "kwargs",
    *Job.TRIGGER_FIELDS,
    "attempts",
    "backoff",
    "timeout",
    "overlap",
    "catch_up",
    "pause_after_failures",
    "label",
    "tags",
)
_MAY_BE_EMPTY = ("cron", "label")
_KINDS: dict[type[models.Field[Any, Any]], tuple[type, str]] = {
    models.CharField: (str, "Give a text."),
    models.DateTimeField: (datetime, "Give a date and time with its zone: 2026-12-24T18:00+01:00."),
    models.DurationField: (timedelta, "Give a duration."),
    models.IntegerField: (int, "Give a whole number."),
}


def tidied(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copy what a caller set, with empty text for None; a name that is no such column is a bug."""
    if unknown := set(fields) - set(EDITABLE):
        raise TypeError(f"not editable: {', '.join(sorted(unknown))}")
    return {name: "" if value is None and name in _MAY_BE_EMPTY else value for name, value in fields.items()}


def kind_problems(fields: Mapping[str, Any]) -> dict[str, list[str]]:
    """Find values that a column's own validation would round, or trip over instead of refusing."""
    return {name: [problem] for name, value in fields.items() if (problem := _kind_problem(name, value))}


def _kind_problem(name: str, value: Any) -> str | None:
    column = Job._meta.get_field(name)
    if isinstance(column, models.JSONField):
        return limits.json_problem(value, max_bytes=settings.CRONTY_MAX_JSON_BYTES)
    kind, words = next(wanted for field, wanted in _KINDS.items() if isinstance(column, field))
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        return words
    return limits.moment_problem(value) if isinstance(value, datetime) else None
