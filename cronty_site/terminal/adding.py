"""The subcommand `add`, which creates a job from a schedule, a task and its arguments."""

from collections.abc import Sequence
from typing import Any

import click

from cronty_site.terminal.arguments import (
    columns_of_options,
    find_task,
    read_arguments,
    schedule_fields,
    spec_options,
)
from cronty_site.terminal.completion import complete_task
from cronty_site.terminal.output import line, note, print_json, say
from cronty_site.terminal.rows import clock_text, job_json, ping_url_of
from cronty_site.terminal.session import Session, subcommand
from schedules import services
from schedules.secrets import masking
from schedules.services.jobs.forecasts import preview_of, whole_words_of
from schedules.services.jobs.masked_arguments import named_arguments
from schedules.services.people.stored_secrets import secret_warnings
from schedules.spec.job import JobSpec
from schedules.tasks.registry import Task

NAME_LENGTH = 80


@subcommand(
    "add",
    examples="""
    cronty add "every weekday at 8:30" notify message="Stand up" topic=my-phone
    cronty add "every 6 hours" webhook url=https://example.org/hook method=PUT
    cronty add "tomorrow at 9:00" prompt "Read my inbox" --name Inbox --tag home
    """,
)
@click.argument("when")
@click.argument("task", shell_complete=complete_task)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--name", help="The name of the job.  [default: its task and first text]")
@spec_options(JobSpec)
@click.option("--paused", is_flag=True, help="Create it paused.")
def add_command(
    session: Session,
    when: str,
    task: str,
    arguments: Sequence[str],
    name: str | None,
    paused: bool,
    **options: Any,
) -> None:
    """Create a job: WHEN it runs, which TASK, and the task's arguments.

    WHEN is a phrase, five cron fields in quotes, or a time, in your own zone or in --timezone. An argument is NAME=TEXT, or NAME:=JSON; values without a
    name are given in order.
    """
    registered = find_task(session, task)
    given = columns_of_options(session, session.zone, options)
    zone = given.setdefault("timezone", session.zone)
    columns = schedule_fields(session, when, "WHEN", zone, session.actor.user.pk, given)
    args, kwargs = read_arguments(session, registered, arguments)
    default_name = _name_of(registered, args, kwargs)
    created = session.expect(
        services.schedule(
            session.actor,
            paused=paused,
            **columns,
            name=name or default_name,
            task=task,
            args=args,
            kwargs=session.actor.read_profile().with_default_place(task, args, kwargs),
        )
    )
    job = created.job
    if session.as_json:
        print_json(job_json(job) | {"ping_url": ping_url_of(job)})
        return
    ahead = preview_of(job, session.now, 1)
    if ahead.next_runs:
        first = f"first run {clock_text(ahead.next_runs[0], zone)}"
    else:
        first = f"waiting for {ahead.waits_for}" if ahead.waits_for else "paused"
    say(f"Created: {job.name} (#{job.pk}) · {whole_words_of(job)} · {zone} · {first}", "green")
    if address := ping_url_of(job):
        say(f"Ping address: {address}")
    for warning in (*ahead.warnings, *secret_warnings(session.actor, job)):
        note(warning)
    if created.similar:
        note(f"{created.similar.name} ({created.similar.public_id}) does the same on the same schedule.")


def _name_of(task: Task, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Return a default name: the task, and the first argument that is a text and not secret."""
    values = masking.masked(named_arguments(task.name, args, kwargs)).values()
    first = line(next((text for text in values if isinstance(text, str) and text != masking.MASK), ""))
    name = f"{task.name}: {first}" if first else task.name
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1].rstrip()}…"
