"""Calendars, by owner and name, and the lookup of compiled ones by the versions that jobs refer to."""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import models

from schedules.when import calendar_data, calendars
from schedules.when.calendars import ClosedTimes
from schedules.when.event_times import AtEvents, EventTimes
from schedules.when.moves import JobTrigger, moved_by
from schedules.when.triggers import load_zone

# Compiled calendars of this process by key, each with its digest. Entries are small, and nobody has many calendars.
_CACHE: dict[int, tuple[str, calendars.Calendar]] = {}
_MAX_CACHED = 2000


class Calendar(models.Model):
    """Days, hours or events that close moments for the jobs that name it."""

    class Kind(models.TextChoices):
        HOLIDAYS = "holidays", "Public holidays"
        DATES = "dates", "Own dates"
        HOURS = "hours", "Weekly hours"
        ICS = "ics", "ICS calendar"

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cronty_calendars", db_index=False
    )
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=8, choices=Kind)
    # Whether it closes what it marks; otherwise, it closes everything else.
    closes = models.BooleanField(default=True)
    # The zone of its days and hours; empty for that of each job.
    timezone = models.CharField(max_length=64, blank=True)
    # What it is made from, as a person wrote it.
    rule = models.JSONField(default=dict)
    # How a schedule in words calls it.
    words = models.CharField(max_length=200, editable=False)
    compiled = models.TextField(editable=False)
    digest = models.CharField(max_length=16, editable=False)
    until = models.DateField(null=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)
    # The address of an ICS calendar, encrypted.
    sealed = models.TextField(blank=True, default="", editable=False)
    # An ICS file, to read further years of it.
    source = models.TextField(blank=True, default="", editable=False)
    # Tells whether an address says something new.
    source_digest = models.CharField(max_length=32, blank=True, default="", editable=False)
    # The events that cannot be read.
    unread = models.PositiveIntegerField(default=0, editable=False)
    tried_at = models.DateTimeField(null=True, editable=False)
    read_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(blank=True, default="", editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(name="calendar_of_owner_has_its_name", fields=["owner", "name"])
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def place(self) -> str:
        """The encryption context of its address, so that nobody can copy it to another calendar in the database."""
        return json.dumps(["calendar", self.owner_id, self.name])

    @property
    def reference(self) -> str:
        """How a job refers to it: by its key and the digest of what it marks."""
        return f"{self.pk}.{self.digest}"

    @property
    def facts(self) -> dict[str, Any]:
        """What an event records of it."""
        return {"kind": self.kind, "closes": self.closes, "timezone": self.timezone, **self.rule}


def reference_unsaved(calendar: Calendar) -> str:
    """Return a reference to a calendar that is not stored, for previews and plans in this process."""
    key = -1 - (int(calendar.digest, 16) >> 1)
    _CACHE[key] = calendar.digest, calendar_data.read(calendar.compiled)
    return f"{key}.{calendar.digest}"


def has_unsaved(closed_by: str) -> bool:
    """Return whether one of these references is to a calendar that is not stored."""
    return "-" in closed_by


# Marks the reference to the calendar whose events a job runs with, which closes nothing.
EVENTS_OF = "e"


def with_calendars(trigger: JobTrigger, job: Any) -> JobTrigger:
    """Return the trigger of a job, or of a row with its columns, adjusted to its calendars."""
    if isinstance(trigger, AtEvents):
        reference = next((each for each in job.closed_by.split() if each[0] == EVENTS_OF), "")
        return AtEvents(trigger.times, _slots(reference[1:], trigger.times, job.timezone))
    return moved_by(trigger, closed_by(job))


def closed_by(job: Any) -> ClosedTimes | None:
    """Return the closed times of a job, or of a row with its columns, or None if it has no calendars."""
    return _closed(job.closed_by, job.timezone, job.on_closed) if job.closed_by else None


@lru_cache(maxsize=256)
def _slots(reference: str, times: EventTimes, timezone: str) -> tuple[datetime, ...] | None:
    """Return the slots from the events of a calendar, in the version of this reference."""
    key, _, digest = reference.partition(".")
    if not key:
        return None
    if _CACHE.get(int(key), ("",))[0] != digest:
        _load([int(key)])
    if int(key) not in _CACHE:
        return None
    calendar = _CACHE[int(key)][1]
    return times.slots_of(calendar.occurrences, load_zone(calendar.timezone or timezone))


def _closed(references: str, timezone: str, move: str) -> ClosedTimes | None:
    cached = {}
    for reference in references.split():
        if reference[0] == EVENTS_OF:
            continue
        key, _, digest = reference.partition(".")
        entry = _CACHE.get(int(key))
        if entry is None or entry[0] != digest:
            return _reloaded(references, timezone, move)
        cached[key] = entry[1]
    return _shared(tuple(cached.values()), timezone, move) if cached else None


@lru_cache(maxsize=256)
def _shared(compiled: tuple[calendars.Calendar, ...], timezone: str, move: str) -> ClosedTimes:
    """Return the same object for all jobs with the same calendars, so that each day is computed once."""
    return ClosedTimes(compiled, timezone, "" if move == ClosedPolicy.SKIP else move)


def _reloaded(references: str, timezone: str, move: str) -> ClosedTimes:
    """Load calendars that this process has not cached, or that have changed since."""
    closing = [each for each in references.split() if each[0] != EVENTS_OF]
    keys = [int(reference.partition(".")[0]) for reference in closing]
    _load(keys)
    return _shared(tuple(_CACHE[key][1] for key in keys if key in _CACHE), timezone, move)


def _load(keys: Sequence[int]) -> None:
    if len(_CACHE) > _MAX_CACHED:
        _CACHE.clear()
    rows = Calendar.objects.filter(pk__in=keys).values_list("pk", "digest", "compiled")
    for key, digest, compiled in rows:
        if _CACHE.get(key, ("",))[0] != digest:
            _CACHE[key] = digest, calendar_data.read(compiled)


class ClosedPolicy(models.TextChoices):
    """What a job does with a run at a moment that its calendars close."""

    SKIP = "skip", "Skip the run"
    NEXT = calendars.NEXT, "Run at the next open time"
    PREVIOUS = calendars.PREVIOUS, "Run at the last open time before"


MAX_CALENDARS_PER_JOB = 10
