"""The functions that jobs may run; a project registers its own with `from schedules.tasks import task`."""

from schedules.tasks.registry import Final, RetryLater, Run, task

__all__ = ["Final", "RetryLater", "Run", "task"]
