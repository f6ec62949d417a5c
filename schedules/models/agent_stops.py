"""Stops of agents: while one exists, no agent begins to work on a prompt."""

from django.db import models

from schedules import limits


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
