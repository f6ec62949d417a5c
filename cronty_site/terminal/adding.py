"""The subcommand that creates a job from a schedule, a task and its arguments."""

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from cronty_site.terminal.completion import complete_task
from cronty_site.terminal.output import line, note, print_json, say
from cronty_site.terminal.session import Session, check_zone, subcommand
from cronty_site.terminal.shapes import clock_text, job_json
from schedules import limits, services
from schedules.models import Job
from schedules.models.triggers import columns_of
from schedules.services.reading import preview_of
from schedules.services.secrets import secret_warnings
from schedules.services.validation import usable_tasks
from schedules.tasks import registry
from schedules.tasks.registry import Task
from schedules.when.phrases import PhraseError, parse_delay
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import CalendarInterval, Interval

NAME_LENGTH = 80
_NAMED = re.compile(r"[a-z_][a-z0-9_]*:?=")


def _duration(context: click.Context, parameter: click.Parameter, text: str | None) -> timedelta | None:
    try:
        return None if text is None else parse_delay(text)
    except PhraseError as error:
        raise click.BadParameter(str(error)) from error


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
@click.option("--name", help="The name of the job.  [default: from its first argument]")
@click.option("--timezone", help="The zone of the times.  [default: the user's]")
@click.option("--tag", "tags", multiple=True, help="A tag; repeat it for several.")
@click.option("--label", default="")
@click.option("--attempts", type=int, help="Tries per run, 1 to 10.")
@click.option("--timeout", callback=_duration, help='Time limit of a run, like "5m".')
@click.option("--backoff", callback=_duration, help='Wait before the next try, growing, like "10s".')
@click.option(
    "--overlap", type=click.Choice(Job.Overlap.values), help="What to do while the last run goes on."
)
@click.option("--catch-up", type=click.Choice(Job.CatchUp.values), help="Which missed runs to make up for.")
@click.option("--max-runs", type=int, help="Stop after this many scheduled runs.")
@click.option("--until", help="No run after this time; a date includes its whole day.")
@click.option("--paused", is_flag=True, help="Create it paused.")
def add_command(
    session: Session,
    when: str,
    task: str,
    arguments: Sequence[str],
    name: str | None,
    timezone: str | None,
    tags: Sequence[str],
    until: str | None,
    paused: bool,
    **policies: Any,
) -> None:
    """Create a job: WHEN it runs, which TASK, and the task's arguments.

    WHEN is a phrase, five cron fields in quotes, or a time. An argument is NAME=TEXT, or NAME:=JSON; values without a
    name are given in order.
    """
    zone = check_zone(timezone or session.zone)
    known = registry.get(task)
    if known is None or known.system:
        usable = ", ".join(each.name for each in usable_tasks(session.actor))
        raise session.failure(f"Unknown task: {line(task)}. Choose one of: {usable}.", code="invalid")
    try:
        trigger = parse_trigger(when, now=session.now, timezone=zone)
    except PhraseError as error:
        raise session.failure(f"{line(when)}: {error}", code="invalid") from error
    args, kwargs = _arguments(known, arguments)
    topic = session.actor.read_profile().default_topic
    if task == "notify" and topic and len(args) < 2:
        kwargs = {"topic": topic} | kwargs
    columns = columns_of(trigger)
    if isinstance(trigger, Interval | CalendarInterval):
        columns["anchor_at"] = trigger.start
    given = {field: value for field, value in policies.items() if value is not None}
    if until:
        given["ends_at"] = session.end(until, "--until", zone)
    answer = services.schedule(
        session.actor,
        paused=paused,
        **columns,
        **given,
        name=name or _name_of(known, args, kwargs),
        task=task,
        args=args,
        kwargs=kwargs,
        timezone=zone,
        tags=list(tags),
    )
    if unknown := [line(text) for text in args if _NAMED.match(str(text))]:
        note(f"Read as values, because {task} has no argument of such a name: {', '.join(unknown)}")
    made = session.expect(answer)
    job = made.job
    if session.as_json:
        print_json(job_json(job))
        return
    ahead = preview_of(job, session.now, 1)
    first = f"first run {clock_text(ahead.next_runs[0], zone)}" if ahead.next_runs else "paused"
    say(f"Created: {job.name} (#{job.pk}) · {ahead.description} · {zone} · {first}", "green")
    for warning in (*ahead.warnings, *secret_warnings(session.actor, job)):
        note(warning)
    if made.similar:
        note(f"{made.similar.name} ({made.similar.public_id}) does the same on the same schedule.")


def _arguments(task: Task, given: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Split the arguments into those by position and those by name; what takes no text is read as JSON."""
    properties: dict[str, Any] = task.schema["properties"]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in given:
        name, separator, value = text.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not separator or name not in properties:
            places = list(properties)
            place = places[len(args)] if len(args) < len(places) else ""
            args.append(_value(place, text, takes_text=_takes_text(properties.get(place, {}))))
        else:
            kwargs[name] = _value(name, value, takes_text=not is_json and _takes_text(properties[name]))
    return args, kwargs


def _takes_text(schema: dict[str, Any]) -> bool:
    kinds = [schema, *schema.get("anyOf", [])]
    # A schema without a type, like that of a webhook's body, takes anything.
    return (
        "$ref" in schema
        or all("type" not in kind for kind in kinds)
        or any(kind.get("type") == "string" for kind in kinds)
    )


def _value(name: str, text: str, *, takes_text: bool) -> Any:
    if takes_text:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {line(text)}", param_hint=name) from error


def _name_of(task: Task, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Return a name for a job that was given none: its first text, else the title of the task."""
    texts = [value for value in (*args, *kwargs.values()) if isinstance(value, str)]
    first = line(texts[0] if texts else "")
    return limits.shortened(first, NAME_LENGTH) if first else task.title
