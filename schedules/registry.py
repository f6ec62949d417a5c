"""The former module of the task registry, kept for projects that import from it."""

from schedules.tasks.interface import WAITING, Final, RetryLater, Run, SpecialResult
from schedules.tasks.registry import Task, all_tasks, get, names, plain_names, task

__all__ = [
    "WAITING",
    "Final",
    "RetryLater",
    "Run",
    "SpecialResult",
    "Task",
    "all_tasks",
    "get",
    "names",
    "plain_names",
    "task",
]
