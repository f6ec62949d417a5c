"""Stops of agents: while there is one, no agent starts to work on a prompt."""

from django.db import models

from schedules import limits


class AgentStop(models.Model):
    """Somebody has stopped the agents of one person, or of everybody; only they end it again."""

    EVERYBODY = ""

    scope = models.CharField(
        max_length=64, primary_key=True, help_text="The key of the user; empty for everybody."
    )
    at = models.DateTimeField()
    by = models.CharField(max_length=limits.ACTOR_LENGTH)

    class Meta:
        ordering = ["scope"]

    def __str__(self) -> str:
        return self.words

    @property
    def words(self) -> str:
        """Who stopped whose agents, as a sentence."""
        whose = "the agents of everybody" if self.scope == self.EVERYBODY else "all agents"
        return f"{self.by} stopped {whose}."
