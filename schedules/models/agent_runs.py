"""What agents did in runs of prompts, one row for each attempt; stops of agents; and gates of prompts."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from schedules import limits
from schedules.models.executions import Execution
from schedules.models.jobs import Job


class AgentRun(models.Model):
    """One attempt of a run by a runner."""

    class Verdict(models.TextChoices):
        DONE = "done"
        NOTHING_TO_DO = "nothing_to_do", "Nothing to do"
        """It checked, and nothing had to be done: a success without news."""
        NEEDS_YOU = "needs_you", "Needs you"
        """It cannot go on without a person."""
        REFUSED = "refused"
        """It was not permitted to use a tool that it needed."""
        OVER_BUDGET = "over_budget", "Over budget"
        """It reached a limit of turns, tokens or money."""
        TIMED_OUT = "timed_out", "Timed out"
        FAILED = "failed"
        UNKNOWN = "unknown"
        """It did not say how it ended, or said nothing at all."""

    GOOD = (Verdict.DONE, Verdict.NOTHING_TO_DO)

    # No database constraints: pruning deletes both sides, and must not check every run.
    execution = models.ForeignKey(
        Execution, on_delete=models.DO_NOTHING, related_name="agent_runs", db_constraint=False, db_index=False
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
    runner = models.CharField(max_length=100)
    kind = models.CharField(max_length=20)
    # Empty while it runs, and of a run that was skipped.
    verdict = models.CharField(max_length=13, choices=Verdict, blank=True)
    started_at = models.DateTimeField()
    # It waits for a place, or ended while it did: its program has not started.
    is_waiting = models.BooleanField(default=False)
    ended_at = models.DateTimeField(null=True)
    program_version = models.CharField(max_length=40, blank=True)
    session_id = models.CharField(max_length=200, blank=True)
    turns = models.PositiveIntegerField(default=0)
    # Also those that came from a cache.
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    # US dollars as the program reports them, if it does.
    cost = models.DecimalField(max_digits=12, decimal_places=6, null=True)
    session_cost = models.DecimalField(max_digits=12, decimal_places=6, null=True)
    session_tokens = models.PositiveBigIntegerField(null=True)
    tool_calls = models.PositiveIntegerField(default=0)
    # The first calls: name, input and outcome of each.
    tools = models.JSONField(default=list)
    denials = models.JSONField(default=list)
    answer = models.TextField(blank=True)
    words = models.TextField(blank=True)
    # The daily limit that was used up, so that the run was skipped.
    cap = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["-started_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                name="agent_run_is_the_only_one_of_its_attempt", fields=["execution", "attempt"]
            )
        ]
        indexes = [
            models.Index(name="agent_run_of_runner", fields=["runner", "-started_at", "-id"]),
            models.Index(name="agent_run_of_owner", fields=["owner", "-started_at", "-id"]),
            models.Index(name="agent_run_of_job", fields=["job", "-started_at", "-id"]),
            models.Index(name="agent_run_live", fields=["runner", "id"], condition=Q(ended_at=None)),
            models.Index(name="agent_run_capped", fields=["cap"], condition=~Q(cap="")),
        ]

    def __str__(self) -> str:
        return f"Run {self.execution_id} by {self.runner}, attempt {self.attempt}"

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


class AgentStop(models.Model):
    """A stop of the agents of one person, or of everybody, until a person ends it."""

    EVERYBODY = ""

    # The key of the user; empty for everybody.
    scope = models.CharField(max_length=64, primary_key=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=limits.ACTOR_LENGTH)

    class Meta:
        ordering = ["scope"]

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """Who stopped whose agents, as a sentence."""
        whose = "the agents of everybody" if self.scope == self.EVERYBODY else "all agents"
        return f"{self.by} stopped {whose}."


class PromptGate(models.Model):
    """The answer of a job's gate for which an agent was last woken, as a digest."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"Gate of job {self.job_id}"
