"""What `add` and `edit` read in the same way: the arguments of a task, the schedule, and the policies of a job."""

import inspect
import json
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import click

from cronty_site.terminal.output import line
from cronty_site.terminal.session import Session
from cronty_site.terminal.suggestions import did_you_mean
from schedules.models import Job
from schedules.models.triggers import columns_of
from schedules.services.jobs.validation import usable_tasks
from schedules.tasks import registry
from schedules.tasks.registry import Task
from schedules.when.phrases import PhraseError, parse_delay
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import CalendarInterval, Interval, Trigger

_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):?=")


def _duration(context: click.Context, parameter: click.Parameter, text: str | None) -> timedelta | None:
    try:
        if text in ("0", "0s"):
            return timedelta(0)
        return None if text is None else parse_delay(text)
    except PhraseError as error:
        raise click.BadParameter(str(error)) from error


_POLICIES = (
    click.option("--label", help="A short text beside the name."),
    click.option("--attempts", type=int, help="Tries per run, 1 to 10."),
    click.option("--timeout", callback=_duration, help='Time limit of a run, like "5m".'),
    click.option("--backoff", callback=_duration, help='Wait before the next try, growing, like "10s".'),
    click.option(
        "--overlap", type=click.Choice(Job.Overlap.values), help="What to do while the last run goes on."
    ),
    click.option(
        "--catch-up", type=click.Choice(Job.CatchUp.values), help="Which missed runs to make up for."
    ),
    click.option(
        "--spread",
        callback=_duration,
        help='Start up to this much later, like "20m", by the same random delay each time; 0 for none.',
    ),
    click.option("--max-runs", type=int, help="Stop after this many scheduled runs."),
    click.option("--until", help="No run after this time; a date includes its whole day."),
    click.option(
        "--pause-after-failures",
        type=click.IntRange(0),
        help="Pause the job after so many failed runs in a row; 0 never does.",
    ),
    click.option(
        "--at-most-once/--no-at-most-once",
        default=None,
        help="Never start a run again that may have started, like a payment.",
    ),
)


def policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for label, policies and end of a job."""
    for option in reversed(_POLICIES):
        function = option(function)
    return function


def columns_of_policies(session: Session, zone: str, until: str | None, **given: Any) -> dict[str, Any]:
    """Return the columns for those of the options that were given."""
    columns = {name: value for name, value in given.items() if value is not None}
    return columns | ({"ends_at": session.end(until, "--until", zone)} if until else {})


def read_schedule(session: Session, text: str, zone: str, name: str = "WHEN") -> Trigger:
    try:
        return parse_trigger(text, now=session.now, timezone=zone)
    except PhraseError as error:
        raise click.BadParameter(f"{line(text)}: {error}", param_hint=name) from error


def columns_of_schedule(trigger: Trigger) -> dict[str, Any]:
    columns = columns_of(trigger)
    if isinstance(trigger, Interval | CalendarInterval):
        columns["anchor_at"] = trigger.start
    return columns


def find_task(session: Session, name: str) -> Task:
    """Return the task with this name; an unknown one is refused with the names of the others."""
    known = registry.get(name)
    if known is None or known.system:
        usable = [each.name for each in usable_tasks(session.actor)]
        raise session.failure(
            f"Unknown task: {line(name)}.{did_you_mean(name, usable)} Choose one of: {', '.join(usable)}.",
            code="invalid",
        )
    return known


def read_arguments(session: Session, task: Task, given: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Split the arguments into those by position and those by name; what takes no text is read as JSON."""
    schema = task.schema
    properties: dict[str, Any] = schema["properties"]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in given:
        name, separator, value = text.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if separator and name in properties:
            kwargs[name] = _value(name, value, takes_text=not is_json and _takes_text(properties[name]))
        elif _NAMED.match(text) and schema.get("additionalProperties"):
            kwargs[name] = _value(name, value, takes_text=not is_json)
        else:
            if _NAMED.match(text) and not _takes_more_values(task):
                raise _unknown_argument(session, task, name, list(properties))
            place = next(iter(list(properties)[len(args) :]), "")
            args.append(_value(place, text, takes_text=_takes_text(properties.get(place, {}))))
    return args, kwargs


def _unknown_argument(session: Session, task: Task, name: str, known: list[str]) -> Exception:
    takes = ", ".join(known) or "no arguments"
    return session.failure(
        f"{task.name} has no argument {name}.{did_you_mean(name, known, '{}=')} It takes {takes}."
        ' Write the name of the argument before a value that contains "=".',
        code="invalid",
    )


def _takes_more_values(task: Task) -> bool:
    """Return whether a task takes values that have no name."""
    kinds = {parameter.kind for parameter in task.signature.parameters.values()}
    return inspect.Parameter.VAR_POSITIONAL in kinds


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
