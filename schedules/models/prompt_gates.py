"""Gates of prompts: the address that a job asks before it wakes an agent, as it was when the agent last acted on it."""

from django.db import models

from schedules.models.jobs import Job


class PromptGate(models.Model):
    """What the address of a job's gate answered last time that an agent was woken for it."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["job"]

    def __str__(self) -> str:
        return f"Gate of job {self.job_id}"
