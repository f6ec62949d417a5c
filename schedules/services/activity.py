"""Events in words: describe what a change did, as a person would say it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from django.db.models import DateTimeField, DurationField
from django.utils.dateparse import parse_datetime, parse_duration

from schedules.models import Event, Job
from schedules.models.job_texts import named_arguments
from schedules.models.triggers import TriggerType, trigger_of
from schedules.spec.job import JobSpec
from schedules.tasks import registry
from schedules.tasks.forms.schema_fields import label_of
from schedules.when import durations
from schedules.when.triggers import TriggerError
from schedules.when.zones import short_words

NOTHING = "none"
_MAX_VALUE_LENGTH = 200
# A changed schedule leaves out the words that both versions begin with: at least two, if at most two others follow.
_MAX_REST_WORDS = 2
_MIN_SHARED_WORDS = 2
# The labels of what is no option of a job.
_LABELS = {"skips": "Skipped runs", "held_by": "Claimed by"}
_TYPE_OF_COLUMN = {kind.column: kind for kind in TriggerType}
# The columns that make up one schedule, which is described as a whole.
_SCHEDULE = ("trigger_type", "calendar_unit", "anchor_at", *_TYPE_OF_COLUMN)
# The columns of a job that are needed to describe its events.
JOB_COLUMNS = ("public_id", "task", "timezone", *_SCHEDULE)
_CHOICES: dict[str, Mapping[str, Any]] = {
    field.name: dict(field.choices or ())
    for field in Job._meta.concrete_fields
    if field.name in JobSpec.model_fields
}
_MOMENTS = {field.name for field in Job._meta.concrete_fields if isinstance(field, DateTimeField)} | {"until"}
_DURATIONS = {field.name for field in Job._meta.concrete_fields if isinstance(field, DurationField)}
# The verb says it all: these events keep values only for undo.
_VERBS_WITHOUT_DETAILS = ("cancel", "delete", "restore", "resume", "confirm")
_NOT_SHOWN = ("execution",)


class Change(NamedTuple):
    """One value that an event changed; `before` is None for a value set for the first time."""

    label: str
    before: str | None
    after: str

    @property
    def rest(self) -> str:
        """The new value; of a schedule, without the words that both begin with: "Sundays at 04:00 → 03:00"."""
        if self.label != "Schedule" or self.before is None:
            return self.after
        old, new = self.before.split(), self.after.split()
        shared = 0
        while shared < min(len(old), len(new)) and old[shared] == new[shared]:
            shared += 1
        is_short = (
            shared >= _MIN_SHARED_WORDS
            and 0 < len(new) - shared <= _MAX_REST_WORDS
            and 0 < len(old) - shared <= _MAX_REST_WORDS
        )
        return " ".join(new[shared:]) if is_short else self.after

    @property
    def text(self) -> str:
        """The change on one line: "Timeout 1 min → 10 min"."""
        label = "" if self.label == "Schedule" else f"{self.label} "
        return f"{label}{self.after}" if self.before is None else f"{label}{self.before} → {self.rest}"


def changes_of_event(event: Event, zone: str = "") -> list[Change]:
    """List what an event changed, in words; times are in the job's time zone unless another is given."""
    if event.verb in _VERBS_WITHOUT_DETAILS:
        return []
    return changes_between(event.before, event.after, event.job, zone)


def changes_between(
    before: Mapping[str, Any], after: Mapping[str, Any], job: Job | None, zone: str = ""
) -> list[Change]:
    """List the differences between two sets of columns, as events store them."""
    zone = zone or after.get("timezone") or (job.timezone if job else "UTC")
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    changes: list[Change] = []
    if any(name in _SCHEDULE for name in names):
        changes += _schedule_change(before, after, job)
    for name in names:
        if name in _SCHEDULE or name in _NOT_SHOWN:
            continue
        if name in ("args", "kwargs"):
            if name == "args" or "args" not in names:
                changes += _argument_changes(before, after, job)
        else:
            changes += _change(label_of_column(name), name, before, after, zone)
    return changes


def summary_of(event: Event, zone: str = "") -> str:
    """Return what an event changed on one line: "Sundays at 04:00 → 03:00; Timeout 1 min → 10 min"."""
    return "; ".join(change.text for change in changes_of_event(event, zone))


def label_of_column(name: str) -> str:
    """Return the label of a column for people."""
    option = JobSpec.model_fields.get(name)
    return option.title if option and option.title else _LABELS.get(name, name.replace("_", " ").capitalize())


def _change(
    label: str, name: str, before: Mapping[str, Any], after: Mapping[str, Any], zone: str
) -> Iterator[Change]:
    old, new = before.get(name), after.get(name)
    if _is_empty(old) and _is_empty(new):
        return
    format_duration = durations.short
    if (
        name in _DURATIONS
        and old
        and new
        and _duration(old, format_duration) == _duration(new, format_duration)
    ):
        format_duration = durations.in_words
    old_text, new_text = (
        _duration(each, format_duration) if name in _DURATIONS else _text_of(name, each, zone)
        for each in (old, new)
    )
    yield Change(label, old_text if name in before else None, new_text)


def _text_of(name: str, value: Any, zone: str) -> str:
    if _is_empty(value):
        return NOTHING
    if _CHOICES.get(name):
        return str(_CHOICES[name].get(value, value))
    if name == "task":
        task = registry.get(value)
        return task.title if task else str(value)
    if name in _MOMENTS:
        return _moment(value, zone)
    if name == "skips":
        return ", ".join(_moment(each, zone) for each in value)
    return plain_text(value)


def _is_empty(value: Any) -> bool:
    return value in (None, "", [], {})


def plain_text(value: Any) -> str:
    """Format a stored value without JSON punctuation."""
    match value:
        case None | "" | [] | {}:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case dict():
            text = ", ".join(f"{name}: {plain_text(each)}" for name, each in value.items())
        case list():
            text = ", ".join(map(plain_text, value))
        case _:
            text = str(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"


def _moment(value: Any, zone: str) -> str:
    with suppress(ValueError, TypeError):
        # A skipped day has no time.
        if len(value) > len("2026-12-24") and (moment := parse_datetime(value)):
            return short_words(moment, zone)
    return plain_text(value)


def _duration(value: Any, format_duration: Callable[[timedelta], str]) -> str:
    with suppress(ValueError, TypeError):
        if (span := parse_duration(value)) is not None:
            return format_duration(span) if span else NOTHING
    return plain_text(value)


def _schedule_change(
    before: Mapping[str, Any], after: Mapping[str, Any], job: Job | None
) -> Iterator[Change]:
    has_old = any(name in before for name in _SCHEDULE)
    old = _describe_schedule(before, job) if has_old else None
    new = _describe_schedule(after, job)
    if old != new and new:
        yield Change("Schedule", old, new)
    elif before.get("anchor_at") != after.get("anchor_at"):
        # The first run may move while the description stays the same.
        zone = after.get("timezone") or (job.timezone if job else "UTC")
        yield from _change("Starts", "anchor_at", before, after, zone)


def _describe_schedule(columns: Mapping[str, Any], job: Job | None) -> str:
    """Describe the schedule in these columns; missing ones come from the job, if it still has this kind of schedule."""
    own = {name: value for name, value in columns.items() if value not in (None, "")}
    kind = own.get("trigger_type") or next(
        (kind for column, kind in _TYPE_OF_COLUMN.items() if column in own), job.trigger_type if job else ""
    )
    values: dict[str, Any] = dict.fromkeys((*_SCHEDULE, "timezone"))
    if job and job.trigger_type == kind:
        values = {name: getattr(job, name) for name in values}
    values["timezone"] = job.timezone if job else "UTC"
    for name in values.keys() & columns.keys():
        values[name] = _column(name, columns[name])
    try:
        return trigger_of(values | {"trigger_type": kind}, is_stored=True).words()
    except TriggerError:
        return str(columns.get("cron") or kind)


def _column(name: str, value: Any) -> Any:
    if name in _MOMENTS:
        return value and parse_datetime(value)
    return value and parse_duration(value) if name in _DURATIONS else value


def _argument_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], job: Job | None
) -> Iterator[Change]:
    old, new = _arguments(before, job), _arguments(after, job)
    task = registry.get(after.get("task") or (job.task if job else ""))
    has_old = "args" in before or "kwargs" in before
    for name in {**old, **new}:
        if old.get(name) != new.get(name) and not (_is_empty(old.get(name)) and _is_empty(new.get(name))):
            before_text = plain_text(old.get(name)) if has_old else None
            yield Change(label_of(task, name), before_text, plain_text(new.get(name)))


def _arguments(columns: Mapping[str, Any], job: Job | None) -> dict[str, Any]:
    task = columns.get("task") or (job.task if job else "")
    return named_arguments(task, columns.get("args") or [], columns.get("kwargs") or {})
