"""Completion of jobs and tasks in a shell."""

from contextlib import suppress

import click
from click.shell_completion import CompletionItem
from django.db import Error

from schedules.models import Event
from schedules.models.name_skeletons import skeleton
from schedules.services import Actor
from schedules.services.people.profiles import find_user, first_user
from schedules.tasks import registry

MOST = 50


def complete_job(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
    """Return the names of jobs that begin like this."""
    with suppress(Error):
        user = find_user(context.params["user"]) if context.params.get("user") else first_user()
        if user:
            jobs = Actor(user, Event.Door.TERMINAL).jobs().named_like(skeleton(beginning))
            found = jobs.order_by("name").values_list("name", "task")[:MOST]
            return [CompletionItem(name, help=task) for name, task in found]
    return []


def complete_task(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
    """Return the tasks that begin like this."""
    tasks = [task for task in registry.all_tasks() if task.name.startswith(beginning)]
    return [CompletionItem(task.name, help=task.title) for task in tasks]
