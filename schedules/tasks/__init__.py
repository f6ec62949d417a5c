"""Tasks: the functions that jobs may run; a project registers its own with `from schedules.tasks import task`."""

from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.registry import task

__all__ = ["Final", "RetryLater", "Run", "task"]
