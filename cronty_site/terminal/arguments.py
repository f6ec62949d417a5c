"""Read what `add` and `edit` have in common: the arguments of a task, the schedule, and the policies of a job."""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import click

from cronty_site.terminal.failures import Failure, did_you_mean
from cronty_site.terminal.output import line
from cronty_site.terminal.session import Session
from schedules.models import Job
from schedules.models.alert_rules import RULES_OF_JOB
from schedules.services.jobs.schedule_texts import read_schedule
from schedules.services.jobs.validation import usable_tasks, with_given
from schedules.tasks import registry
from schedules.tasks.registry import Task
from schedules.when.phrases import PhraseError, parse_delay, parse_end

# Repeated options; a single empty text clears the list.
_LISTS = ("calendars", "grants")
# The options for the columns that the text of a schedule may set, too.
_OPTIONS = {"ends_at": "--until", "calendars": "--calendar"}
_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):?=")


class Duration(click.ParamType[timedelta]):
    """A duration as a phrase, or 0."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            return timedelta(0) if value in ("0", "0s") else parse_delay(value)
        except PhraseError as error:
            self.fail(str(error), param, ctx)


_SCHEDULE_POLICIES = (
    click.option(
        "--spread",
        type=Duration(),
        help='Start up to this much later, like "20m", by the same random delay each time; 0 for none.',
    ),
    click.option("--max-runs", type=int, help="Stop after this many scheduled runs."),
    click.option("--until", help="No run after this time; a date includes its whole day."),
    click.option(
        "--calendar",
        "calendars",
        multiple=True,
        help='A calendar that closes days or hours for it, or holidays like DE-BY; repeat it for several; "" for none.',
    ),
    click.option(
        "--on-closed",
        type=click.Choice(Job.OnClosed.values),
        help="What happens to a run at a closed time.",
    ),
)
_POLICIES = (
    click.option("--label", help="A short text beside the name."),
    click.option("--attempts", type=int, help="Tries per run, 1 to 10."),
    click.option("--timeout", type=Duration(), help='Time limit of a run, like "5m".'),
    click.option(
        "--backoff", type=Duration(), help='Wait before the next try, like "10s"; it doubles each time.'
    ),
    click.option(
        "--fixed-backoff/--no-fixed-backoff", default=None, help="Wait equally long before each try."
    ),
    click.option("--alerts", help=f'{RULES_OF_JOB}; "" for your own settings.'),
    click.option(
        "--overlap", type=click.Choice(Job.Overlap.values), help="What to do while the last run goes on."
    ),
    click.option(
        "--catch-up", type=click.Choice(Job.CatchUp.values), help="Which missed runs to make up for."
    ),
    click.option(
        "--grant",
        "grants",
        multiple=True,
        metavar="RULE",
        help='A permission of its agent, like "Bash(git push:*)"; repeat it for several; "" for none.',
    ),
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
    """Add the options for label, policies, permissions and end of a job."""
    for option in reversed((*_POLICIES, *_SCHEDULE_POLICIES)):
        function = option(function)
    return function


def schedule_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that belong to a schedule."""
    for option in reversed(_SCHEDULE_POLICIES):
        function = option(function)
    return function


def columns_of_policies(session: Session, zone: str, until: str | None, **fields: Any) -> dict[str, Any]:
    """Return the columns for the options that were given."""
    columns = {name: value for name, value in fields.items() if value not in (None, ())}
    columns |= {name: list(filter(None, columns[name])) for name in _LISTS if name in columns}
    return columns | ({"ends_at": session.read(parse_end, until, "--until", zone)} if until else {})


def schedule_fields(
    session: Session, text: str, option: str, zone: str, owner_id: int, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the text of a schedule sets, together with the columns that options give beside it."""
    schedule = session.read(partial(read_schedule, owner_id=owner_id), text, option, zone)
    return session.expect(with_given(schedule.fields, given, _OPTIONS))


def find_task(session: Session, name: str) -> Task:
    """Return the task with this name; the error for an unknown one lists the others."""
    task = registry.get(name)
    if task is None or task.system:
        usable = [each.name for each in usable_tasks(session.actor)]
        raise Failure(
            f"Unknown task: {line(name)}.{did_you_mean(name, usable)} Choose one of: {', '.join(usable)}.",
            code="invalid",
        )
    return task


def read_arguments(session: Session, task: Task, texts: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Split arguments by position and by name; values for parameters that take no text are parsed as JSON."""
    schema = task.schema
    properties: dict[str, Any] = schema["properties"]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
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


def _unknown_argument(session: Session, task: Task, name: str, names: list[str]) -> Exception:
    takes = ", ".join(names) or "no arguments"
    return Failure(
        f"{task.name} has no argument {name}.{did_you_mean(name, names, '{}=')} It takes {takes}."
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
