"""What a job may run. Register your own: `from schedules.tasks import task`."""

from schedules.tasks.registry import Final, RetryLater, Run, task

__all__ = ["Final", "RetryLater", "Run", "task"]
