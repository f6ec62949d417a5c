"""Shell completion of jobs and tasks."""

from contextlib import suppress

import click
from click.shell_completion import CompletionItem
from django.db import Error

from schedules.models import Event
from schedules.services import Actor
from schedules.services.job_list import jobs_named_like
from schedules.services.people.profiles import find_user, first_user
from schedules.tasks import registry

MAX_COMPLETIONS = 50


def complete_job(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
    """Complete the name of a job."""
    with suppress(Error):
        user = find_user(context.params["user"]) if context.params.get("user") else first_user()
        if user:
            actor = Actor(user, Event.Door.TERMINAL)
            names = jobs_named_like(actor, beginning, "name", "task", limit=MAX_COMPLETIONS)
            return [CompletionItem(name, help=task) for name, task in names]
    return []


def complete_task(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
    """Complete the name of a task."""
    tasks = [task for task in registry.all_tasks() if task.name.startswith(beginning)]
    return [CompletionItem(task.name, help=task.title) for task in tasks]
