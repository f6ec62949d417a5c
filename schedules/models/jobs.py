"""Jobs: what to run, when, under which policies, and in which state."""

import functools
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Self

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connection, models
from django.db.models import F, Q

from schedules import limits
from schedules.models.job_problems import problems_of
from schedules.models.job_table import CONSTRAINTS, INDEXES
from schedules.models.triggers import CalendarUnit, TriggerType, shared_cron, trigger_of
from schedules.tasks import registry
from schedules.when.skips import Skips
from schedules.when.triggers import Trigger

LATE_AFTER = timedelta(minutes=2)
# The public ids of failure notices start with this; unlike a name, no caller can choose it.
NOTICE_PREFIX = "notice"


def new_public_id(prefix: str, now: datetime) -> str:
    """Create a public id from a prefix, a random number and the time."""
    return f"{prefix}_{secrets.randbelow(10**9)}_{int(now.timestamp())}"


def is_public_id(text: str) -> bool:
    """Return whether the text may be an id; PostgreSQL raises an error for some other text."""
    return text.isascii() and text.isprintable()


def begins_with(column: str, text: str) -> Q:
    """Match a column by its beginning, in the form for which the database uses an index."""
    if connection.vendor == "sqlite":
        # Its LIKE ignores case and therefore uses no index.
        return Q(**{f"{column}__gte": text, f"{column}__lt": f"{text}\U0010ffff"})
    return Q(**{f"{column}__startswith": text})


class _Holds(models.Func):
    """Whether a JSON list contains a text, on SQLite."""

    template = "EXISTS (SELECT 1 FROM JSON_EACH(%(expressions)s)"
    arg_joiner = ") WHERE value = "
    output_field = models.BooleanField()


class JobQuerySet(models.QuerySet["Job"]):
    def notices(self) -> Self:
        """Failure notices, which Cronty creates itself."""
        return self.filter(begins_with("public_id", f"{NOTICE_PREFIX}_"))

    def without_notices(self) -> Self:
        return self.exclude(public_id__startswith=f"{NOTICE_PREFIX}_")

    def kept(self) -> Self:
        """Jobs that are not in the trash."""
        return self.filter(deleted_at=None)

    def trashed(self) -> Self:
        return self.filter(deleted_at__isnull=False)

    def owned_by(self, user: Any) -> Self:
        return self.filter(owner=user)

    def called(self, public_id: str) -> Self:
        """The job with this id, if any; text that PostgreSQL cannot compare finds nothing."""
        # Unordered, because there is at most one.
        return self.filter(public_id=public_id).order_by() if is_public_id(public_id) else self.none()

    def find(self, public_id: str) -> "Job | None":
        """Return the job with this id, or None; faster than `first`, which would sort."""
        return next(iter(self.called(public_id)[:1]), None)

    def named_like(self, beginning: str) -> Self:
        """Jobs whose name looks as if it begins with this text, which must be a skeleton."""
        return self.filter(begins_with("name_skeleton", beginning))

    def tagged(self, tag: str) -> Self:
        if connection.features.supports_json_field_contains:
            return self.filter(tags__contains=[tag])
        return self.filter(_Holds("tags", models.Value(tag)))

    def active(self) -> Self:
        """Jobs that may still run: pending, running or paused."""
        return self.filter(deleted_at=None, status__in=Job.ACTIVE)

    def armed(self) -> Self:
        return self.filter(deleted_at=None, status=Job.Status.PENDING)

    def due(self, now: datetime) -> Self:
        return self.armed().filter(next_run_at__lte=now)

    def late(self, now: datetime) -> Self:
        """Jobs that are overdue by more than LATE_AFTER, which points to a problem."""
        return self.due(now - LATE_AFTER)

    def with_activity(self) -> Self:
        """Annotate `is_running`: whether a run is under way."""
        return self.annotate(is_running=_has_run_under_way())

    def in_state(self, state: str) -> Self:
        """Jobs in this state, as `state_of` defines it."""
        match state:
            case Job.Status.RUNNING:
                under_way = self.filter(_has_run_under_way(), status=Job.Status.PENDING)
                last_runs = self.filter(status=Job.Status.RUNNING)
                # By keys: for a condition with OR, the database would look through all jobs.
                keys = [rows.order_by().values("pk") for rows in (under_way, last_runs)]
                return self.filter(pk__in=keys[0].union(keys[1], all=True))
            case Job.Status.PENDING:
                return self.filter(~_has_run_under_way(), status=Job.Status.PENDING)
        return self.filter(status=state)

    def listed(self, state: str) -> Self:
        """Jobs in this state, the next to run first and then the newest, in the order of an index."""
        match state:
            case Job.Status.RUNNING:
                return self.in_state(state)
            case Job.Status.PENDING:
                # Without the condition, SQLite would begin with the jobs that have no next run.
                pending = self.in_state(state).filter(next_run_at__isnull=False)
                return pending.order_by("next_run_at", "-pk")
        return self.stopped(state)

    def stopped(self, status: str) -> Self:
        """Jobs with this status, which have no next run; newest first, in the order of an index."""
        if status == Job.Status.RUNNING:
            # Their last run is not finished: an index has those runs, and a firing writes to no index of such jobs.
            return self.filter(status=status, pk__in=_unfinished("live")).order_by("-pk")
        # SQLite uses the partial index only if the query repeats its condition.
        ended = self.exclude(status=Job.Status.PENDING).exclude(status=Job.Status.RUNNING)
        return ended.filter(status=status).order_by("-pk")


def state_of(status: str, has_run_under_way: bool) -> str:
    """Return the state to show; a pending job with a run under way is running."""
    return Job.Status.RUNNING.value if status == Job.Status.PENDING and has_run_under_way else status


def trigger_of_job(job: Any) -> Trigger:
    """Return the trigger of a job, or of a named row of its columns; raises TriggerError if they are invalid."""
    if isinstance(job, Job):
        return job.trigger
    if job.trigger_type == TriggerType.CRON:
        # Without a dictionary of the row's columns, which takes longer than all the rest.
        return shared_cron(job.cron, job.timezone, True)
    return trigger_of(job._asdict(), is_stored=True)


def why_skipped(job: Any, slot: datetime) -> str:
    """Return why a slot of a job, or of a row with its columns, is left out, or an empty text if it runs."""
    skips = skips_of(job)
    return skips.reason(slot) if skips else ""


def skips_of(job: Any) -> Skips | None:
    """Return what a job, or a row with its columns, leaves out, or None for nothing."""
    return Skips(frozenset(job.skips.split()), job.timezone) if job.skips else None


def argument_of(job: Any, name: str) -> Any:
    """Return an argument of a job, or of a row with its task and arguments, or None."""
    if name in job.kwargs:
        return job.kwargs[name]
    task = registry.get(job.task)
    return dict(zip(task.signature.parameters, job.args, strict=False)).get(name) if task else None


@functools.cache
def has_unfinished(which: str) -> Q:
    """Match the jobs of the runs that a method of ExecutionQuerySet finds among the unfinished ones."""
    # One subquery for all jobs, because it can use a partial index; per job, SQLite would read the whole history.
    return Q(pk__in=_unfinished(which))


def _has_run_under_way() -> Q:
    return has_unfinished("under_way")


def _unfinished(which: str) -> Any:
    """Return the jobs of the runs that a method of ExecutionQuerySet finds."""
    executions: Any = apps.get_model("schedules", "Execution").objects
    return getattr(executions, which)().filter(job__isnull=False).order_by().values("job")


class Job(models.Model):
    """What to run, when, under which policies, and in which state."""

    class Status(models.TextChoices):
        PENDING = "pending"
        """Armed for `next_run_at`. A repeating job is pending between and during runs."""
        RUNNING = "running"
        """Its last run is under way; the engine then marks the job as completed or failed."""
        PAUSED = "paused"
        """Stopped by a user, an agent or repeated failures, until it is resumed or `paused_until` passes."""
        COMPLETED = "completed"
        """No slot is left: a one-time job has run, or `max_runs` or `ends_at` was reached."""
        FAILED = "failed"
        """A one-time job whose last attempt failed."""
        CANCELLED = "cancelled"
        """Ended by a user or an agent; it never fires again."""

    TriggerType = TriggerType

    class Overlap(models.TextChoices):
        SKIP = "skip", "Skip the new run"
        QUEUE = "queue", "Queue the new run"
        ALLOW = "allow", "Run in parallel"

    class CatchUp(models.TextChoices):
        ONCE = "once", "Run once to catch up"
        ALL = "all", "Run every missed run"
        NONE = "none", "Skip missed runs"

    ACTIVE = (Status.PENDING, Status.RUNNING, Status.PAUSED)
    TRIGGER_FIELDS = (
        "trigger_type",
        "run_at",
        "every",
        "calendar_unit",
        "anchor_at",
        "cron",
        "timezone",
        "ends_at",
        "max_runs",
    )
    POLICY_FIELDS = (
        "attempts",
        "backoff",
        "timeout",
        "overlap",
        "catch_up",
        "pause_after_failures",
        "at_most_once",
    )

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="cronty_jobs", db_index=False
    )
    public_id = models.CharField(max_length=64, editable=False)
    name = models.CharField(max_length=limits.NAME_LENGTH)
    name_skeleton = models.CharField(
        max_length=limits.NAME_LENGTH,
        default="",
        db_default="",
        editable=False,
        help_text="What the name looks like, to find names that are easily taken for it.",
    )
    likeness = models.CharField(
        max_length=32,
        default="",
        db_default="",
        editable=False,
        help_text="A digest of task, arguments and schedule, to find jobs that do the same.",
    )
    task = models.CharField(max_length=100)
    args = models.JSONField(default=list, blank=True)
    kwargs = models.JSONField(default=dict, blank=True)

    trigger_type = models.CharField(max_length=10, choices=TriggerType)
    run_at = models.DateTimeField(null=True, blank=True)
    every = models.DurationField(null=True, blank=True)
    calendar_unit = models.CharField(
        max_length=6,
        choices=CalendarUnit,
        blank=True,
        default="",
        db_default="",
        help_text="For an interval on the wall clock of its zone: whether `every` is days, or months of 30 days.",
    )
    anchor_at = models.DateTimeField(null=True, blank=True, help_text="The first slot of an interval.")
    cron = models.CharField(max_length=limits.CRON_LENGTH, blank=True)
    timezone = models.CharField(max_length=64, default="UTC")
    ends_at = models.DateTimeField(null=True, blank=True)
    max_runs = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    skips = models.TextField(
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The days and slots that it leaves out, separated by blanks.",
    )
    runs_per_minute = models.FloatField(
        default=0.0,
        db_default=0.0,
        editable=False,
        help_text="How often its schedule fires on a day it runs, for the owner's budget.",
    )

    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING, editable=False)
    next_run_at = models.DateTimeField(null=True, editable=False)
    last_run_at = models.DateTimeField(null=True, editable=False)
    run_count = models.PositiveIntegerField(default=0, editable=False)
    slot_count = models.PositiveIntegerField(
        default=0, editable=False, help_text="The number of scheduled runs, limited by max_runs."
    )
    failure_streak = models.PositiveIntegerField(default=0, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    recent = models.CharField(
        max_length=30,
        blank=True,
        editable=False,
        help_text="The last 30 outcomes, one letter each, newest last.",
    )

    attempts = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(10)]
    )
    backoff = models.DurationField(default=timedelta(seconds=10))
    timeout = models.DurationField(default=timedelta(minutes=1))
    overlap = models.CharField(max_length=5, choices=Overlap, default=Overlap.SKIP)
    catch_up = models.CharField(max_length=4, choices=CatchUp, default=CatchUp.ONCE)
    pause_after_failures = models.PositiveSmallIntegerField(
        default=10, help_text="Pause after this many failures in a row; 0 means never."
    )
    at_most_once = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Do not start a run again after its worker died: it ends as lost.",
    )

    paused_until = models.DateTimeField(null=True, editable=False)
    paused_at = models.DateTimeField(null=True, editable=False)
    pause_reason = models.CharField(max_length=limits.NAME_LENGTH, blank=True, editable=False)
    has_unreadable_schedule = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="It was paused because its schedule cannot be read.",
    )

    label = models.CharField(max_length=limits.NAME_LENGTH, blank=True)
    tags = models.JSONField(default=list, blank=True)
    made_by = models.CharField(max_length=limits.ACTOR_LENGTH, blank=True, editable=False)
    source = models.CharField(
        max_length=limits.NAME_LENGTH,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The file or folder that describes it, if any.",
    )
    source_key = models.CharField(
        max_length=limits.NAME_LENGTH, blank=True, default="", db_default="", editable=False
    )
    source_digest = models.CharField(
        max_length=32,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="A digest of the columns as the file was applied: if it differs, the job was changed elsewhere.",
    )
    idempotency_key = models.CharField(max_length=200, null=True, editable=False)  # noqa: DJ001
    request_digest = models.CharField(max_length=64, blank=True, editable=False)

    signing_version = models.PositiveIntegerField(
        default=1, db_default=1, editable=False, help_text="How many signing keys its webhook has had."
    )
    signing_changed_at = models.DateTimeField(null=True, editable=False)

    revision = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)
    deleted_at = models.DateTimeField(null=True, editable=False)

    is_running: bool
    """Whether a run is under way, if that was read: with `with_activity`, or by `Actor`."""

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = [F("next_run_at").asc(nulls_last=True), "-pk"]
        constraints = CONSTRAINTS
        indexes = INDEXES

    def __str__(self) -> str:
        return self.name

    @property
    def trigger(self) -> Trigger:
        """The trigger that the columns describe; raises TriggerError if they are invalid."""
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

    def argument(self, name: str) -> Any:
        """Return the argument with this name, whether it was given by name or by position, or None."""
        return argument_of(self, name)

    def next_slot(self, after: datetime) -> datetime | None:
        """Return the next slot after a moment, or None if no run is left."""
        if self.max_runs is not None and self.slot_count >= self.max_runs:
            return None
        slot = self.trigger.next_after(after)
        return None if slot is None or (self.ends_at and slot > self.ends_at) else slot

    def take_over(self, changes: Mapping[str, Any], now: datetime) -> None:
        """Set what an UPDATE has just written, so that the row need not be read again."""
        for name, value in changes.items():
            setattr(self, name, value)
        self.revision += 1
        self.updated_at = now

    @property
    def state(self) -> str:
        """The state to show; the job must be read with its activity."""
        return state_of(self.status, getattr(self, "is_running", False))

    def clean(self) -> None:
        if problems := problems_of(self):
            raise ValidationError(problems)
