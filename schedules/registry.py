"""The old address of `schedules.tasks`, kept for tasks that were written for it."""

from schedules.tasks.registry import *  # noqa: F403
