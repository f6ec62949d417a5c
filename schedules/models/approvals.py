"""Approvals: requests of prompt runs to a person, to allow a tool call or answer a question, one row each."""

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from schedules import limits
from schedules.models.executions import Execution
from schedules.models.jobs import Job

SHOWN_COLUMNS = (
    "execution_id",
    "attempt",
    "job_id",
    "owner_id",
    "runner",
    "session_id",
    "folder",
    "call_id",
    "call_digest",
    "tool",
    "arguments",
    "why",
    "grant",
)
"""What a person sees before answering; the answer is only valid for exactly this."""
MAX_PER_RUN = 20
"""How many times one run may ask."""
ASK_PERSON = "ask_person"
"""The tool name of a question, which is no call of the program and so has no call id."""
LONGEST_REPLY = 4000
# How much longer than its approval a run waits, so that it does not start before the approval is closed.
MARGIN = timedelta(days=1)


def digest_of_shown(values: Mapping[str, Any]) -> str:
    """Return the digest of what a person sees."""
    shown = {name: values[name] for name in SHOWN_COLUMNS}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


class Approval(models.Model):
    """One call that a run may make only if a person allows it, or one question.

    Meanwhile, either the run waits in the queue, or it goes on and its program waits.
    """

    class Status(models.TextChoices):
        WAITING = "waiting"
        """Nobody has answered yet."""
        ALLOWED = "allowed"
        """A person has allowed the call, or answered the question; the run's next attempt continues with that."""
        USED = "used"
        """The run has continued: the call is not allowed again."""
        DENIED = "denied"
        EXPIRED = "expired"
        """Nobody has answered in time, which is a denial."""
        WITHDRAWN = "withdrawn"
        """The run ended before an answer."""

    SUBJECT = "approval"
    """The prefix of the subject of its incident."""

    # No database constraints: pruning deletes both sides, and must not check every run.
    execution = models.ForeignKey(
        Execution, on_delete=models.DO_NOTHING, related_name="approvals", db_constraint=False, db_index=False
    )
    attempt = models.PositiveSmallIntegerField()
    job = models.ForeignKey(
        Job, null=True, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    status = models.CharField(max_length=9, choices=Status, default=Status.WAITING)
    runner = models.CharField(max_length=100)
    session_id = models.CharField(max_length=200)
    folder = models.TextField()
    call_id = models.CharField(max_length=200)
    # Of the call as the program has made it.
    call_digest = models.CharField(max_length=64)
    tool = models.CharField(max_length=200)
    # All of them, with secrets masked.
    arguments = models.JSONField()
    # What the agent said before the call.
    why = models.TextField(blank=True)
    # The rule that would always allow it; empty if there is none.
    grant = models.CharField(max_length=200, blank=True)
    digest = models.CharField(max_length=64)
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)
    answered_by = models.CharField(max_length=limits.ACTOR_LENGTH, blank=True)
    is_always = models.BooleanField(default=False)
    reply = models.TextField(blank=True, default="")
    used_at = models.DateTimeField(null=True)

    # Whether the program of the run waits for the answer.
    in_run = models.BooleanField(default=False)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                name="approval_is_asked_once_in_an_attempt", fields=["execution", "attempt", "call_id"]
            )
        ]
        indexes = [
            # Read every few seconds, so these indexes hold only what waits.
            models.Index(name="approval_expires", fields=["expires_at"], condition=Q(status="waiting")),
            models.Index(name="approval_of_owner", fields=["owner", "id"], condition=Q(status="waiting")),
        ]

    def __str__(self) -> str:
        return f"Approval {self.pk} of run {self.execution_id}"

    @property
    def is_genuine(self) -> bool:
        """Return whether everything shown is unchanged since the run asked."""
        return self.digest == digest_of_shown(vars(self))

    @property
    def is_question(self) -> bool:
        return self.tool == ASK_PERSON and not self.call_id

    @property
    def question(self) -> str:
        """The text of a question, with invisible characters as codes; empty for a call."""
        return dict(self.shown_arguments).get("question", "") if self.is_question else ""

    @property
    def choices(self) -> list[str]:
        """The suggested answers of a question."""
        choices = self.arguments.get("choices") if isinstance(self.arguments, dict) else None
        listed = choices if self.is_question and isinstance(choices, list) else []
        return [limits.with_codes(str(choice)) for choice in listed]

    @property
    def request_sentence(self) -> str:
        """What it asked for, in a sentence."""
        if self.is_question:
            return f"It had asked: {limits.shortened(' '.join(self.question.split()), 300)}"
        return f"It had asked for {self.call_summary}."

    @property
    def call_summary(self) -> str:
        """The tool with the beginning of its arguments, or the question, in one line."""
        if self.is_question:
            return limits.shortened(" ".join(self.question.split()), 300)
        texts = [" ".join(text.split()) for _, text in self.shown_arguments]
        return limits.shortened(f"{self.tool}: {', '.join(texts)}" if texts else self.tool, 300)

    @property
    def subject(self) -> str:
        """The subject of its incident."""
        return f"{self.SUBJECT} {self.pk}"

    @property
    def shown_arguments(self) -> list[tuple[str, str]]:
        """Each argument as text, complete, with invisible characters as codes."""
        return shown_arguments(self.arguments)


def shown_arguments(arguments: Any) -> list[tuple[str, str]]:
    """Return each argument of a call as text, complete, with invisible characters as codes."""
    named = arguments if isinstance(arguments, dict) else {"input": arguments}
    return [(limits.with_codes(str(name)), _as_text(value)) for name, value in named.items()]


def _as_text(value: Any) -> str:
    return limits.with_codes(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    )
