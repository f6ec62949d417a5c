"""Executions: one row per slot, which is both the ledger and the queue."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Case, F, Q, Value, When

from schedules import limits
from schedules.models.jobs import Job
from schedules.tasks.placeholders import NOTIFICATION, facts_of, fill_in


def slot_key(job_public_id: str, scheduled_for: datetime, cause: str) -> str:
    """Return the idempotency key of a slot, which stays the same over attempts and after a restore from a backup."""
    key = f"{job_public_id}@{_compact(scheduled_for.astimezone(UTC))}"
    return f"{key}-{cause}" if cause in Execution.UNPLANNED else key


# Cached, because the runs of a burst have the same slot.
@lru_cache(maxsize=1024)
def _compact(moment: datetime) -> str:
    # Not `strftime`, which takes several times as long.
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{text.replace('-', '').replace(':', '')}Z"


OUTCOME_LETTERS = {"succeeded": "S", "failed": "F", "lost": "L", "cancelled": "C"}
"""The letters of final outcomes in `Job.recent`; skipped and missed slots are left out."""

ATTEMPT_ERROR_LENGTH = 300
MAX_EARLIER_ATTEMPTS = 20

# The columns that an execution copies from its job, because the job may change later.
COPIED_FROM_JOB = {"owner_id": "owner_id", "job_name": "name", "task": "task"}

# Whether a job was stopped, so that no attempt of its run may start any more; a pause does not stop manual runs. This is for
# querysets, and `job_was_stopped` for values already read; a test compares the two.
JOB_WAS_STOPPED = (
    Q(job=None)
    | Q(job__deleted_at__isnull=False)
    | Q(job__status=Job.Status.CANCELLED)
    | Q(job__status=Job.Status.PAUSED) & ~Q(cause="manual")
)


def job_was_stopped(cause: str, job_status: str | None, job_deleted_at: datetime | None) -> bool:
    """Return whether no attempt of a run may start any more; the status of a deleted job is None."""
    if job_status is None or job_deleted_at is not None or job_status == Job.Status.CANCELLED:
        return True
    return job_status == Job.Status.PAUSED and cause != Execution.Cause.MANUAL


# A prompt that must not be answered any more: its job was stopped for good or has another task now.
_IS_OUTDATED = (
    Q(job=None)
    | Q(job__deleted_at__isnull=False)
    | Q(job__status=Job.Status.CANCELLED)
    | ~Q(job__task=F("task"))
)
# A prompt of a paused job stays in the inbox, but no agent gets it.
_IS_PAUSED = Q(job__status=Job.Status.PAUSED) & ~Q(cause="manual")
# A prompt that an agent may already have acted on; `leased_to` is empty if a person took it from the agent.
_MUST_NOT_BE_REPEATED = Q(job__at_most_once=True) & ~Q(leased_to="")
# The `reason` of a run whose agent has asked a person.
ASKS = "It waits until a person answers."
# How the `reason` of a run begins that waits for the end of its owner's quiet hours, or has waited for it.
HELD_UNTIL = "Held until "
_WAITS_FOR_SOMEBODY = Q(status="waiting", lease_until=None) | (
    Q(status="queued") & (Q(reason=ASKS) | Q(reason__startswith=HELD_UNTIL, attempt=0))
)
# Shared by queries and partial indexes: SQLite uses these only if a query repeats the condition.
_IS_UNSUCCESSFUL = ~Q(status="succeeded") & Q(finished_at__isnull=False)


def is_for_somebody(run: Any) -> bool:
    """Return whether a live run is one of `waiting_for_somebody`, without a query."""
    if run.status == "waiting":
        return run.lease_until is None
    is_held = run.attempt == 0 and run.reason.startswith(HELD_UNTIL)
    return bool(run.status == "queued" and (run.reason == ASKS or is_held))


class ExecutionQuerySet(models.QuerySet["Execution"]):
    def ready(self, now: datetime) -> Self:
        """Queued runs that may start: manual runs, retries, and runs that waited for their predecessor."""
        return self.filter(status=Execution.Status.QUEUED, available_at__lte=now)

    def live(self) -> Self:
        # SQLite uses the partial index only if the query repeats its condition on `finished_at`.
        return self.filter(finished_at=None, status__in=Execution.LIVE)

    def indexed_for(self, status: str | None) -> Self:
        """Only the runs with this status if an index covers them, else all.

        The indexes cover the runs that ended without success.
        """
        if status not in Execution.UNSUCCESSFUL:
            return self
        return self.filter(_IS_UNSUCCESSFUL, status=status)

    def under_way(self) -> Self:
        """Runs that have started but not ended, including retries and prompts that an agent has claimed.

        They make a job "running" for agents and on pages; runs that wait for their first start, an agent or a person do
        not.
        """
        is_new = Q(status=Execution.Status.QUEUED, attempt=0)
        return self.filter(~is_new, ~_WAITS_FOR_SOMEBODY, finished_at=None, status__in=Execution.LIVE)

    def retrying(self) -> Self:
        """Runs that failed or were interrupted, and wait for their next attempt."""
        return self.filter(finished_at=None, status=Execution.Status.QUEUED, attempt__gt=0).exclude(
            reason=ASKS
        )

    def asking(self) -> Self:
        """Runs whose agent has asked something, and that go on when a person answers."""
        return self.filter(finished_at=None, status=Execution.Status.QUEUED, reason=ASKS)

    def waiting_for_somebody(self) -> Self:
        """Prompts that no agent has claimed since they became due or were released, runs that ask a person, and those
        that wait for the end of quiet hours.
        """
        return self.filter(_WAITS_FOR_SOMEBODY, finished_at=None)

    def unlocked(self) -> Self:
        """Lock and return the rows that no other transaction has locked, so that a locked row does not delay the others."""
        free = self.order_by().select_for_update(skip_locked=True, no_key=True)
        return self.model._default_manager.filter(pk__in=free.values("pk"))  # type: ignore[return-value]

    def end(self, status: str, now: datetime, reason: str, **values: Any) -> int:
        """Write how these runs ended, and release their leases; return how many there were."""
        return self.update(
            status=status, finished_at=now, available_at=None, lease_until=None, reason=reason, **values
        )

    def held(self) -> Self:
        """Claimed or running: a cluster holds a lease."""
        return self.filter(lease_until__isnull=False, status__in=Execution.HELD)

    def abandoned(self, now: datetime) -> Self:
        """Claimed or running, but with an expired lease."""
        return self.held().filter(lease_until__lt=now)

    def waiting(self) -> Self:
        return self.filter(status=Execution.Status.WAITING)

    def unheld(self, now: datetime) -> Self:
        """Prompts that no agent holds at the moment."""
        return self.waiting().filter(Q(lease_until=None) | Q(lease_until__lt=now))

    def claimable(self, now: datetime) -> Self:
        """Prompts that any agent may claim."""
        return self.unheld(now).exclude(_IS_OUTDATED).exclude(_IS_PAUSED).exclude(_MUST_NOT_BE_REPEATED)

    def lost_prompts(self, now: datetime) -> Self:
        """Prompts of at-most-once jobs that an agent held for too long."""
        return self.unheld(now).exclude(_IS_OUTDATED).filter(_MUST_NOT_BE_REPEATED)

    def left_over(self, now: datetime) -> Self:
        """Prompts that no agent holds, and whose job was stopped for good or has another task now."""
        return self.unheld(now).filter(_IS_OUTDATED)


class Execution(models.Model):
    """One slot of one job, and its outcome: the ledger and the queue in one table."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        """Waits for `available_at`, or, if that is empty, for the previous run to end."""
        CLAIMED = "claimed"
        """A cluster claimed it and will start it within the lease."""
        RUNNING = "running"
        """A worker runs it and renews the lease."""
        WAITING = "waiting"
        """A prompt that waits for an agent to claim and complete it."""
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        """No attempt is left, or the failure was final."""
        SKIPPED = "skipped"
        """Not run on purpose; `reason` says why."""
        MISSED = "missed"
        """Not run because no worker was available."""
        CANCELLED = "cancelled"
        """Withdrawn before it started."""
        LOST = "lost"
        """Its workers died repeatedly while they ran it; how far they got is unknown."""

    class Cause(models.TextChoices):
        SCHEDULE = "schedule"
        MANUAL = "manual"
        CATCH_UP = "catch_up"
        REMINDER = "reminder"
        """Repeats the notification of a run that nobody has answered yet."""
        AFTER = "after"
        """The job that this one follows has ended."""
        TRIGGER = "trigger"
        """Somebody has called the job's trigger address."""
        EVENT = "event"
        """The job delivers an event to a receiver."""

    STARTED = (Cause.MANUAL, Cause.AFTER, Cause.TRIGGER, Cause.EVENT)
    """The causes of runs that something other than the schedule started."""
    UNPLANNED = (*STARTED, Cause.REMINDER)
    """The causes of runs without a slot."""

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
    UNSUCCESSFUL = tuple(status for status in FINAL if status != "succeeded")

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
    attempt = models.PositiveSmallIntegerField(default=0)
    # For prompts, since when agents can claim them again after a pause of their job.
    available_at = models.DateTimeField(null=True)
    # No index: `lease_until` finds what a cluster holds now, and an index over the history would only grow.
    cluster = models.ForeignKey(
        "Cluster", null=True, on_delete=models.SET_NULL, related_name="executions", db_index=False
    )
    claimed_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    # The agent that holds a waiting prompt.
    leased_to = models.CharField(max_length=limits.ACTOR_LENGTH, blank=True)
    # Tells apart agents of the same name after the first lease has expired.
    lease_key = models.CharField(max_length=32, blank=True, default="")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    # The time between its slot and its first start.
    lateness = models.DurationField(null=True)
    result = models.JSONField(null=True)
    error = models.TextField(blank=True)
    traceback = models.TextField(blank=True)
    # The attempts before the last one: number, start, end and error of each.
    earlier_attempts = models.JSONField(null=True)
    last_slot = models.DateTimeField(null=True)
    slots = models.PositiveIntegerField(default=1)
    # The run that has started this one: by its end, or by a request to a trigger address.
    origin = models.PositiveBigIntegerField(null=True)
    # What has started it: the end of another run, the body of a request, or an event.
    given = models.JSONField(null=True)

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        ordering = ["-scheduled_for", "-pk"]
        constraints = [
            # Runs without a slot have null in the last column, so any number of them is allowed. They are included because
            # this is also the index of a job's history.
            models.UniqueConstraint(
                F("job"),
                F("scheduled_for"),
                Case(When(Q(cause__in=["schedule", "catch_up"]), then=Value(1))),
                name="execution_is_the_only_one_of_its_slot",
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
            models.Index(
                name="execution_waiting", fields=["scheduled_for", "id"], condition=Q(status="waiting")
            ),
            models.Index(
                name="execution_waiting_of_owner",
                fields=["owner", "scheduled_for", "id"],
                condition=Q(status="waiting"),
            ),
            models.Index(name="execution_owner_history", fields=["owner", "-scheduled_for", "-id"]),
            models.Index(name="execution_history", fields=["-scheduled_for", "-id"]),
            models.Index(
                name="execution_unsuccessful",
                fields=["status", "-scheduled_for", "-id"],
                condition=_IS_UNSUCCESSFUL,
            ),
            models.Index(
                name="execution_unsuccessful_owner",
                fields=["owner", "status", "-scheduled_for", "-id"],
                condition=_IS_UNSUCCESSFUL,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_name} {self.scheduled_for:%Y-%m-%d %H:%M:%S}"

    @classmethod
    def of(cls, job: Any, scheduled_for: datetime, **values: Any) -> Self:
        """Build the row of one slot, with the columns that it copies from the job, or from a row with its columns."""
        copied = {name: getattr(job, source) for name, source in COPIED_FROM_JOB.items()}
        return cls(job_id=job.pk, scheduled_for=scheduled_for, **copied, **values)

    def attempt_ended(self, finished_at: datetime, error: str) -> list[dict[str, Any]]:
        """Return the earlier attempts including the one that has just ended and will be retried."""
        ended = {
            "attempt": self.attempt,
            "started_at": (self.started_at or finished_at).isoformat(),
            "finished_at": finished_at.isoformat(),
            "error": error[:ATTEMPT_ERROR_LENGTH],
        }
        return [*(self.earlier_attempts or []), ended][-MAX_EARLIER_ATTEMPTS:]

    @property
    def key(self) -> str:
        """The idempotency key of deliveries, the same for every attempt."""
        return slot_key(self.job.public_id if self.job else "gone", self.scheduled_for, self.cause)

    def argument(self, name: str) -> Any:
        """Return an argument of the run's job, with placeholders filled in from what started the run."""
        if self.job is None:
            return None
        given = {**(self.given or {}), **self._facts()} if self.task == NOTIFICATION else self.given
        return fill_in(self.job.argument(name), given, task=self.task)

    def _facts(self) -> dict[str, dict[str, str]]:
        assert self.job is not None
        return facts_of(
            job_id=self.job.public_id,
            job_name=self.job.name,
            scheduled_for=self.scheduled_for,
            timezone=self.job.timezone,
            attempt=self.attempt,
        )

    @property
    def waits_for_quiet_end(self) -> bool:
        """Whether it waits for the end of its owner's quiet hours."""
        return self.status == self.Status.QUEUED and not self.attempt and self.reason.startswith(HELD_UNTIL)

    def is_held_at(self, now: datetime) -> bool:
        """Return whether an agent holds this prompt."""
        return self.lease_until is not None and self.lease_until >= now

    @property
    def is_asking(self) -> bool:
        """Whether its agent has asked a person and waits for the answer."""
        return self.status == self.Status.QUEUED and self.reason == ASKS

    @property
    def shown_status(self) -> str:
        """The status, but "asking" or "retrying" for such queued runs."""
        if self.is_asking:
            return "asking"
        return "retrying" if self.status == self.Status.QUEUED and self.attempt else str(self.status)

    @property
    def was_held(self) -> bool:
        """Whether an agent has claimed this prompt before."""
        return bool(self.leased_to or self.lease_key)

    @property
    def took(self) -> timedelta | None:
        return self.finished_at - self.started_at if self.started_at and self.finished_at else None
