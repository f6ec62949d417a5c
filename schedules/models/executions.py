"""What is stored of every slot: the ledger, which is the queue, too."""

from datetime import UTC, datetime, timedelta
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from schedules import limits
from schedules.models.jobs import Job


def slot_key(job_public_id: str, scheduled_for: datetime, cause: str) -> str:
    """Name one slot of one job, the same in every attempt and after a restore from a backup."""
    moment = scheduled_for.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return f"{job_public_id}@{moment}" + ("-manual" if cause == Execution.Cause.MANUAL else "")


# A pause stops all but what was asked for by hand.
_ITS_JOB_WAS_STOPPED = (
    Q(job=None)
    | Q(job__deleted_at__isnull=False)
    | Q(job__status=Job.Status.CANCELLED)
    | Q(job__status=Job.Status.PAUSED) & ~Q(cause="manual")
    | ~Q(job__task=F("task"))
)


class ExecutionQuerySet(models.QuerySet["Execution"]):
    def ready(self, now: datetime) -> Self:
        """Queued runs whose moment has come: run-now, retries, and runs let go by an overlap."""
        return self.filter(status=Execution.Status.QUEUED, available_at__lte=now)

    def live(self) -> Self:
        # The null test is what lets SQLite use the small index: it cannot see through a list of parameters.
        return self.filter(finished_at=None, status__in=Execution.LIVE)

    def under_way(self) -> Self:
        """Begun and not ended; what waits for its first start is not under way yet."""
        return self.live().exclude(status=Execution.Status.QUEUED, attempt=0)

    def held(self) -> Self:
        """Claimed or running: somebody has them, under a lease."""
        return self.filter(lease_until__isnull=False, status__in=Execution.HELD)

    def abandoned(self, now: datetime) -> Self:
        """Claimed or running, but whoever held them stopped renewing the lease."""
        return self.held().filter(lease_until__lt=now)

    def waiting(self) -> Self:
        return self.filter(status=Execution.Status.WAITING)

    def unheld(self, now: datetime) -> Self:
        """Prompts that no agent holds at the moment."""
        return self.waiting().filter(Q(lease_until=None) | Q(lease_until__lt=now))

    def claimable(self, now: datetime) -> Self:
        """Prompts for any agent to take."""
        return self.unheld(now).exclude(_ITS_JOB_WAS_STOPPED)

    def left_over(self, now: datetime) -> Self:
        """Prompts that no agent holds, of a job that was stopped or does something else by now."""
        return self.unheld(now).filter(_ITS_JOB_WAS_STOPPED)


class Execution(models.Model):
    """One slot of one job, and what became of it: the ledger and the queue in one."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        """Waits for `available_at`; without one it waits for the run before it to end."""
        CLAIMED = "claimed"
        """A cluster took it and will start it within the lease."""
        RUNNING = "running"
        """A worker is at it and renews the lease."""
        WAITING = "waiting"
        """A prompt that waits for an agent to claim and complete it."""
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        """Its attempts are spent, or the failure was final."""
        SKIPPED = "skipped"
        """Not run on purpose; `reason` says whose."""
        MISSED = "missed"
        """Not run because nobody was there to run it."""
        CANCELLED = "cancelled"
        """Taken back before it started."""
        LOST = "lost"
        """Its workers died under it, more than once; nobody knows how far it came."""

    class Cause(models.TextChoices):
        SCHEDULE = "schedule"
        MANUAL = "manual"
        CATCH_UP = "catch_up"

    HELD = (Status.CLAIMED, Status.RUNNING)
    LIVE = (Status.QUEUED, Status.CLAIMED, Status.RUNNING, Status.WAITING)
    FINAL = (
        Status.SUCCEEDED,
        Status.FAILED,
        Status.SKIPPED,
        Status.MISSED,
        Status.CANCELLED,
        Status.LOST,
    )

    job = models.ForeignKey(
        Job, null=True, on_delete=models.SET_NULL, related_name="executions", db_index=False
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="cronty_executions", db_index=False
    )
    job_name = models.CharField(max_length=limits.NAME_LENGTH)
    task = models.CharField(max_length=100)
    scheduled_for = models.DateTimeField()
    cause = models.CharField(max_length=8, choices=Cause, default=Cause.SCHEDULE)
    status = models.CharField(max_length=9, choices=Status, default=Status.QUEUED)
    reason = models.CharField(max_length=300, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0, help_text="How often it was started.")
    available_at = models.DateTimeField(null=True)
    # Without an index: a cluster's history only grows, and what it holds now is found by its lease.
    cluster = models.ForeignKey(
        "Cluster", null=True, on_delete=models.SET_NULL, related_name="executions", db_index=False
    )
    claimed_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    leased_to = models.CharField(
        max_length=limits.ACTOR_LENGTH, blank=True, help_text="The agent that holds a waiting prompt."
    )
    lease_key = models.CharField(
        max_length=32,
        blank=True,
        db_default="",
        default="",
        help_text="Which of the agents of that name, if it was not the first to hold it.",
    )
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    lateness = models.DurationField(null=True, help_text="First start minus the moment it was due.")
    result = models.JSONField(null=True)
    error = models.TextField(blank=True)
    traceback = models.TextField(blank=True)
    last_slot = models.DateTimeField(
        null=True, help_text="For a gap: its last slot; scheduled_for is its first."
    )
    slots = models.PositiveIntegerField(default=1, help_text="How many slots this row accounts for.")

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        ordering = ["-scheduled_for", "-pk"]
        constraints = [
            models.UniqueConstraint(
                name="execution_is_the_only_one_of_its_slot",
                fields=["job", "scheduled_for"],
                condition=~Q(cause="manual"),
            ),
            models.CheckConstraint(
                name="execution_gap_has_a_last_slot",
                condition=Q(slots=1) | Q(slots__gt=1, last_slot__isnull=False),
            ),
        ]
        indexes = [
            models.Index(name="execution_ready", fields=["available_at"], condition=Q(status="queued")),
            models.Index(
                name="execution_held", fields=["lease_until"], condition=Q(lease_until__isnull=False)
            ),
            models.Index(name="execution_live_job", fields=["job"], condition=Q(finished_at=None)),
            models.Index(name="execution_waiting", fields=["scheduled_for"], condition=Q(status="waiting")),
            models.Index(name="execution_job_history", fields=["job", "-scheduled_for"]),
            models.Index(name="execution_owner_history", fields=["owner", "-scheduled_for"]),
            models.Index(name="execution_history", fields=["-scheduled_for"]),
        ]

    def __str__(self) -> str:
        return f"{self.job_name} {self.scheduled_for:%Y-%m-%d %H:%M:%S}"

    @property
    def key(self) -> str:
        """What a receiver may use to take a delivery once: the same for every attempt at this slot."""
        return slot_key(self.job.public_id if self.job else "gone", self.scheduled_for, self.cause)

    def is_held_at(self, now: datetime) -> bool:
        """Does an agent hold this prompt?"""
        return self.lease_until is not None and self.lease_until >= now

    @property
    def was_held(self) -> bool:
        """Has an agent claimed this prompt before?"""
        return bool(self.leased_to or self.lease_key)

    @property
    def took(self) -> timedelta | None:
        return self.finished_at - self.started_at if self.started_at and self.finished_at else None
