"""Jobs: what to run, when, under which policies, and in which state."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F

from schedules import limits
from schedules.models.calendars import ClosedPolicy, closed_by, with_calendars
from schedules.models.job_problems import problems_of
from schedules.models.job_queries import ACTIVE, JobQueries, JobStatus
from schedules.models.job_table import CONSTRAINTS, INDEXES
from schedules.models.triggers import TRIGGER_COLUMNS, CalendarUnit, TriggerType, trigger_of
from schedules.tasks import registry
from schedules.when.event_times import AT_EVENT, read_event_times
from schedules.when.moves import JobTrigger
from schedules.when.skips import Skips
from schedules.when.spread import spread_out
from schedules.when.triggers import Trigger, cron_trigger


def new_public_id(prefix: str, now: datetime) -> str:
    """Create a public id from a prefix, a random number and the time."""
    return f"{prefix}_{secrets.randbelow(10**9)}_{int(now.timestamp())}"


def state_of(status: str, has_run_under_way: bool) -> str:
    """Return the state to show; a pending job with a run under way is running."""
    return JobStatus.RUNNING.value if status == JobStatus.PENDING and has_run_under_way else status


def trigger_of_job(job: Any) -> JobTrigger:
    """Return the trigger of a job, or of a named row with its columns; raises TriggerError if they are invalid."""
    if isinstance(job, Job):
        return job.trigger
    if job.trigger_type == TriggerType.CRON:
        # Avoid `_asdict`, which takes longer than all the rest.
        trigger = spread_out(cron_trigger(job.cron, job.timezone, True), job.spread, job.public_id)
    else:
        trigger = spread_out(trigger_of(job._asdict(), is_stored=True), job.spread, job.public_id)
    return with_calendars(trigger, job) if job.closed_by else trigger


def shared_schedule(job: Any) -> tuple[str, ...]:
    """Return what alone determines the slots of a job, or of a row with its columns; empty if its id does, too."""
    is_shared = job.cron and not job.spread
    return (job.cron, job.timezone, job.skips, job.closed_by, job.on_closed) if is_shared else ()


def why_skipped(job: Any, slot: datetime) -> str:
    """Return why a slot of a job, or of a row with its columns, is left out, or an empty text if it runs."""
    skips = skips_of(job)
    return skips.reason(slot) if skips else ""


def skips_of(job: Any) -> Skips | None:
    """Return the days and slots that a job, or a row with its columns, skips, or None."""
    if not (job.skips or job.closed_by):
        return None
    return Skips(frozenset(job.skips.split()), job.timezone, closed_by(job))


def argument_of(job: Any, name: str) -> Any:
    """Return an argument of a job, or of a row with its task and arguments, or None."""
    if name in job.kwargs:
        return job.kwargs[name]
    task = registry.get(job.task)
    return dict(zip(task.signature.parameters, job.args, strict=False)).get(name) if task else None


# The prefix of the reason of automatic pauses.
PAUSED_AFTER = "Paused after"


class JobQuerySet(JobQueries["Job"]):
    """Queries of jobs."""


class Job(models.Model):
    """What to run, when, under which policies, and in which state."""

    Status: TypeAlias = JobStatus
    TriggerType = TriggerType
    OnClosed: TypeAlias = ClosedPolicy

    class Overlap(models.TextChoices):
        SKIP = "skip", "Skip the new run"
        QUEUE = "queue", "Queue the new run"
        ALLOW = "allow", "Run in parallel"

    class CatchUp(models.TextChoices):
        ONCE = "once", "Run once to catch up"
        ALL = "all", "Run every missed run"
        NONE = "none", "Skip missed runs"

    ACTIVE = ACTIVE
    TRIGGER_FIELDS = (
        *TRIGGER_COLUMNS,
        "timezone",
        "spread",
        "ends_at",
        "max_runs",
        "calendars",
        "on_closed",
    )
    # All that determines when a job runs, besides its id.
    SLOT_FIELDS = (*TRIGGER_COLUMNS, "timezone", "spread", "skips", "closed_by", "on_closed")
    # What means nothing to a job that runs once.
    REPEATING_FIELDS = ("spread", "calendars", "on_closed")
    # The prefix of a channel's name in the column `alerts`.
    CHANNEL_PREFIX = limits.CHANNEL_PREFIX
    POLICY_FIELDS = (
        "attempts",
        "backoff",
        "fixed_backoff",
        "timeout",
        "overlap",
        "catch_up",
        "pause_after_failures",
        "at_most_once",
        "urgent",
        "alerts",
    )

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="cronty_jobs", db_index=False
    )
    public_id = models.CharField(max_length=64, editable=False)
    name = models.CharField(max_length=limits.NAME_LENGTH)
    # What the name looks like, to find names that are easily taken for it.
    name_skeleton = models.CharField(max_length=limits.NAME_LENGTH, default="", editable=False)
    # A digest of task, arguments and schedule, to find jobs that do the same.
    likeness = models.CharField(max_length=32, default="", editable=False)
    task = models.CharField(max_length=100)
    args = models.JSONField(default=list, blank=True)
    kwargs = models.JSONField(default=dict, blank=True)

    trigger_type = models.CharField(max_length=10, choices=TriggerType)
    run_at = models.DateTimeField(null=True, blank=True)
    every = models.DurationField(null=True, blank=True)
    # For an interval on the wall clock of its zone: whether `every` is days, or months of 30 days.
    calendar_unit = models.CharField(max_length=6, choices=CalendarUnit, blank=True, default="")
    anchor_at = models.DateTimeField(null=True, blank=True)
    cron = models.CharField(max_length=limits.CRON_LENGTH, blank=True)
    timezone = models.CharField(max_length=64, default="UTC")
    spread = models.DurationField(default=timedelta(0))
    ends_at = models.DateTimeField(null=True, blank=True)
    max_runs = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    skips = models.TextField(blank=True, default="", editable=False)
    calendars = models.JSONField(default=list, blank=True)
    on_closed = models.CharField(max_length=8, choices=OnClosed, default=OnClosed.SKIP)
    # The keys of its calendars, each with the digest of what it marks.
    closed_by = models.TextField(blank=True, default="", editable=False)
    # The job whose end it waits for, if its schedule names one.
    follows = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="followers",
        db_index=False,
    )
    # How often its schedule fires on a day it runs, for the owner's budget.
    runs_per_minute = models.FloatField(default=0.0, editable=False)

    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING, editable=False)
    next_run_at = models.DateTimeField(null=True, editable=False)
    last_run_at = models.DateTimeField(null=True, editable=False)
    last_success_at = models.DateTimeField(null=True, editable=False)
    last_duration = models.DurationField(null=True, editable=False)
    run_count = models.PositiveIntegerField(default=0, editable=False)
    # The number of scheduled runs, limited by max_runs.
    slot_count = models.PositiveIntegerField(default=0, editable=False)
    failure_streak = models.PositiveIntegerField(default=0, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    # The last 30 outcomes, one letter each, newest last.
    recent = models.CharField(max_length=30, blank=True, editable=False)

    attempts = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(10)]
    )
    backoff = models.DurationField(default=timedelta(seconds=10))
    fixed_backoff = models.BooleanField(default=False)
    timeout = models.DurationField(default=timedelta(minutes=1))
    overlap = models.CharField(max_length=5, choices=Overlap, default=Overlap.SKIP)
    catch_up = models.CharField(max_length=4, choices=CatchUp, default=CatchUp.ONCE)
    pause_after_failures = models.PositiveSmallIntegerField(default=10)
    at_most_once = models.BooleanField(default=False)
    urgent = models.BooleanField(default=False)
    alerts = models.CharField(max_length=200, blank=True, default="")

    grants = models.JSONField(default=list, blank=True)

    paused_until = models.DateTimeField(null=True, editable=False)
    paused_at = models.DateTimeField(null=True, editable=False)
    pause_reason = models.CharField(max_length=limits.NAME_LENGTH, blank=True, editable=False)
    has_unreadable_schedule = models.BooleanField(default=False, editable=False)

    # Since when it waits for a person to confirm what an agent made.
    proposed_at = models.DateTimeField(null=True, editable=False)
    proposed_by = models.CharField(max_length=limits.ACTOR_LENGTH, blank=True, default="", editable=False)

    label = models.CharField(max_length=limits.NAME_LENGTH, blank=True)
    tags = models.JSONField(default=list, blank=True)
    made_by = models.CharField(max_length=limits.ACTOR_LENGTH, blank=True, editable=False)
    # The file or folder that describes it, if any.
    source = models.CharField(max_length=limits.NAME_LENGTH, blank=True, default="", editable=False)
    source_key = models.CharField(max_length=limits.NAME_LENGTH, blank=True, default="", editable=False)
    # A digest of the columns as the file was applied: if it differs, the job was changed elsewhere.
    source_digest = models.CharField(max_length=32, blank=True, default="", editable=False)
    idempotency_key = models.CharField(max_length=200, null=True, editable=False)  # noqa: DJ001  (NULL is not unique)
    request_digest = models.CharField(max_length=64, blank=True, editable=False)

    # How many signing keys its webhook has had.
    signing_version = models.PositiveIntegerField(default=1, editable=False)
    signing_changed_at = models.DateTimeField(null=True, editable=False)

    revision = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)
    deleted_at = models.DateTimeField(null=True, editable=False)
    # The last column, because it may be long and SQLite reads a row from its beginning.
    # All that people see of it, in small letters, to find it by its words and tags.
    search_text = models.TextField(blank=True, default="", editable=False)

    is_running: bool
    """Whether a run is under way; set only by `with_activity` or by `Actor`."""
    event: Any = None
    """The event of the change that was just made to this object, if any."""

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = [F("next_run_at").asc(nulls_last=True), "-pk"]
        constraints = CONSTRAINTS
        indexes = INDEXES

    def __str__(self) -> str:
        return self.name

    @property
    def trigger(self) -> JobTrigger:
        """The trigger that fires the job, including its random delay; raises TriggerError if the columns are invalid."""
        trigger = self.undelayed_trigger
        if not (self.spread or self.closed_by):
            return trigger
        delayed = spread_out(trigger, self.spread, self.public_id)
        return with_calendars(delayed, self) if self.closed_by else delayed

    @property
    def undelayed_trigger(self) -> Trigger:
        """The trigger as a person wrote it; raises TriggerError if the columns are invalid."""
        grid = self.anchor_at or (None if self._state.adding else self.created_at)
        return trigger_of(
            {
                "trigger_type": self.trigger_type,
                "run_at": self.run_at,
                "every": self.every,
                "calendar_unit": self.calendar_unit,
                "anchor_at": grid,
                "cron": self.cron,
                "timezone": self.timezone,
            }
        )

    @property
    def runs_with_events(self) -> bool:
        """Whether it runs with the events of a calendar that its schedule names."""
        return self.cron.lstrip()[: len(AT_EVENT)].lower() == AT_EVENT

    @property
    def follows_calendars(self) -> bool:
        """Whether it uses calendars, for closed times or in its schedule."""
        return bool(self.calendars) or self.runs_with_events

    @property
    def named_calendars(self) -> list[str]:
        """The names of all calendars that it uses; last, the one with whose events it runs, if any."""
        events = read_event_times(self.cron) if self.runs_with_events else None
        return [*self.calendars, events.calendar] if events else self.calendars

    def argument(self, name: str) -> Any:
        """Return the argument with this name, whether passed by name or by position, or None."""
        return argument_of(self, name)

    def waits_to_start(self, now: datetime) -> bool:
        """Return whether the job's last run is a due prompt that no agent holds, or waits for the end of quiet hours."""
        if self.status != self.Status.RUNNING:
            return False
        live = list(self.executions.live().only("status", "lease_until", "attempt", "reason"))
        return bool(live) and all(
            run.waits_for_quiet_end or (run.status == run.Status.WAITING and not run.is_held_at(now))
            for run in live
        )

    def next_slot(self, after: datetime) -> datetime | None:
        """Return the next slot after a moment, or None if no run is left."""
        if self.max_runs is not None and self.slot_count >= self.max_runs:
            return None
        slot = self.trigger.next_after(after)
        return None if slot is None or (self.ends_at and slot > self.ends_at) else slot

    def apply_changes(self, changes: Mapping[str, Any], now: datetime) -> None:
        """Set the values that an UPDATE has just written, to avoid reading the row again."""
        for name, value in changes.items():
            setattr(self, name, value)
        self.revision += 1
        self.updated_at = now

    @property
    def state(self) -> str:
        """The state to show; the job must be read `with_activity`."""
        return state_of(self.status, getattr(self, "is_running", False))

    def clean(self) -> None:
        if problems := problems_of(self):
            raise ValidationError(problems)
