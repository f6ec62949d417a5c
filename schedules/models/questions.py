"""Questions that notifications ask their readers, with the reminders and the answers."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q

from schedules import limits
from schedules.models.executions import Execution
from schedules.models.jobs import Job
from schedules.tasks.asking import place_words

MAX_ANSWERS = 100
"""How many answers one question accepts and keeps; each snooze is one."""


class Question(models.Model):
    """One run that asked for an answer, and whether it got one."""

    class Status(models.TextChoices):
        OPEN = "open"
        """Nobody has answered yet."""
        SNOOZED = "snoozed"
        """Somebody asked to be reminded again at `due_at`."""
        DONE = "done"
        SKIPPED = "skipped"
        """Somebody skipped the next run."""
        CLOSED = "closed"
        """Nobody is reminded any more; `reason` says why. It can still be answered with "done"."""

    PENDING = (Status.OPEN, Status.SNOOZED)
    ANSWERED = (Status.DONE, Status.SKIPPED)

    # No database constraint: pruning deletes both sides, and must not check every run.
    execution = models.OneToOneField(
        Execution, primary_key=True, on_delete=models.DO_NOTHING, related_name="question", db_constraint=False
    )
    job = models.ForeignKey(
        Job, null=True, on_delete=models.SET_NULL, related_name="questions", db_index=False
    )
    status = models.CharField(max_length=7, choices=Status, default=Status.OPEN)
    reason = models.CharField(max_length=limits.NAME_LENGTH, blank=True)
    asked_at = models.DateTimeField()
    # When the next reminder is sent, if one is.
    due_at = models.DateTimeField(null=True)
    # How many reminders were sent that nobody asked for, the escalation included.
    reminders = models.PositiveSmallIntegerField(default=0)
    answered_at = models.DateTimeField(null=True)
    answered_by = models.CharField(max_length=limits.ACTOR_LENGTH, blank=True)
    # Each answer: what, when, by whom, until when, and with which link.
    answers = models.JSONField(default=list)

    class Meta:
        indexes = [
            # Read every few seconds, so this index holds only what is pending.
            models.Index(name="question_due", fields=["due_at"], condition=Q(due_at__isnull=False)),
            models.Index(name="question_job", fields=["job", "-execution"]),
        ]

    def __str__(self) -> str:
        return f"Question of run {self.pk}"

    @property
    def is_pending(self) -> bool:
        return self.status in self.PENDING

    @property
    def took(self) -> timedelta | None:
        """How long it took until somebody answered."""
        return self.answered_at - self.asked_at if self.answered_at else None

    @property
    def revision(self) -> int:
        """The number of answers so far, so that a page can detect a new one."""
        return len(self.answers)

    @property
    def snoozed_until(self) -> datetime | None:
        return self.due_at if self.status == self.Status.SNOOZED else None


class Reminder(models.Model):
    """One run that repeated a question."""

    execution = models.OneToOneField(
        Execution, primary_key=True, on_delete=models.DO_NOTHING, related_name="reminder", db_constraint=False
    )
    question = models.ForeignKey(
        Question, on_delete=models.DO_NOTHING, related_name="sent", db_constraint=False
    )
    # Which one it is; 0 for one that a snooze asked for.
    number = models.PositiveSmallIntegerField()
    most = models.PositiveSmallIntegerField()
    # Where it went because nobody had answered the others.
    topic = models.CharField(max_length=64, blank=True)
    """A topic, or `channel:` and the name of a channel."""

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"Reminder of run {self.question_id}"

    @property
    def place_words(self) -> str:
        """The other topic or channel that it went to, or an empty text."""
        return place_words(self.topic)
