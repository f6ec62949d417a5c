"""Prompt gates: the last answer of the address that a job checks before it wakes an agent."""

from django.db import models

from schedules.models.jobs import Job


class PromptGate(models.Model):
    """The answer of a job's gate for which an agent was last woken, as a digest."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"Gate of job {self.job_id}"
