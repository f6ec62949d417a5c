"""The states of a job, separate from its model because queries need them too."""

from django.db import models


class JobStatus(models.TextChoices):
    """The stored status; `state_of` returns the state to show."""

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


# A job in one of these may still run.
ACTIVE = (JobStatus.PENDING, JobStatus.RUNNING, JobStatus.PAUSED)
