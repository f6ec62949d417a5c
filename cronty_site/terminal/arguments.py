"""Read what `add` and `edit` have in common: the arguments of a task, and the options of a job."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import click

from cronty_site.terminal.failures import Failure
from cronty_site.terminal.output import line
from cronty_site.terminal.session import Session
from schedules import clock
from schedules.services.reading import did_you_mean
from schedules.spec.job import JobSpec, ScheduleSpec, choices_of, shown_type
from schedules.spec.readers import read_span
from schedules.when.phrases import PhraseError

# What options are called that do not have the name of their field.
_NAMES = {"ends_at": "until", "calendars": "calendar", "grants": "grant", "tags": "tag"}
_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):?=")
OPTIONS = {name: f"--{_NAMES.get(name, name).replace('_', '-')}" for name in JobSpec.of_columns()}
# The options whose values are read; whether a permission can be given is another question.
OPTION_NAMES = {name: option for name, option in OPTIONS.items() if name != "grants"}


class Duration(click.ParamType[timedelta]):
    """A duration, which may be 0."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            return read_span(value, clock.now())
        except PhraseError as error:
            self.fail(str(error), param, ctx)


def spec_options(spec: type[ScheduleSpec]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option for each field that this describes."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, field in reversed(spec.of_columns().items()):
            flag, kind, choices = OPTIONS[name], shown_type(field), choices_of(field)
            is_list = kind == list[str]
            flags = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
            more = f'{field.description.rstrip(".")}; repeat it for several; "" for none.'
            add_option = click.option(
                flags,
                name,
                type=click.Choice(choices) if choices else str if is_list else kind,
                default=None,
                multiple=is_list,
                help=more if is_list else field.description,
            )
            function = add_option(function)
        return function

    return add


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given; "" for a list removes what is in it."""
    values = {name: value for name, value in options.items() if value not in (None, ())}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def find_task(session: Session, name: str) -> Mapping[str, Any]:
    """Return the task with this name, with the schema of its arguments; the error for an unknown one lists the others."""
    tasks = {task["name"]: task for task in session.call("list_tasks")["tasks"]}
    if name not in tasks:
        raise Failure(
            f"Unknown task: {line(name)}.{did_you_mean(name, tasks)} Choose one of: {', '.join(tasks)}.",
            code="invalid",
        )
    task: Mapping[str, Any] = tasks[name]
    return task


def read_arguments(task: Mapping[str, Any], texts: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Split arguments by position and by name; values for parameters that take no text are parsed as JSON."""
    schema = task["arguments"]
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
            if _NAMED.match(text) and not task["takes_more_values"]:
                raise _unknown_argument(task["name"], name, list(properties))
            place = next(iter(list(properties)[len(args) :]), "")
            args.append(_value(place, text, takes_text=_takes_text(properties.get(place, {}))))
    return args, kwargs


def _unknown_argument(task: str, name: str, names: list[str]) -> Exception:
    takes = ", ".join(names) or "no arguments"
    return Failure(
        f"{task} has no argument {name}.{did_you_mean(name, names, '{}=')} It takes {takes}."
        ' Write the name of the argument before a value that contains "=".',
        code="invalid",
    )


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
