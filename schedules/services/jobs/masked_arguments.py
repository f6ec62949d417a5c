"""Masked arguments: forms mask what looks like a password, and edits fill it in again unless its target changed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schedules.limits import strip_unprintable
from schedules.models import Job
from schedules.models.job_texts import named_arguments, names_of, shown_arguments
from schedules.result import Ok, Result, invalid
from schedules.secrets.masking import MASK, masked

__all__ = ["fill_in", "merged_arguments", "named_arguments", "shown_arguments"]

DEFAULT_NAME_LENGTH = 80
Place = tuple[str | int, ...]
Columns = dict[str, Any]

# Names of arguments that decide who receives the other arguments.
_TARGET = re.compile(
    r"url|uri|host|server|address|endpoint|domain|topic|target|recipient|(^|[-_])(port|to)($|[-_.])", re.I
)


@dataclass(frozen=True, slots=True)
class Hidden:
    """A stored value that people see as a mask."""

    value: Any


class _UnknownMaskError(Exception):
    """There is a mask where the job has no hidden value."""

    def __init__(self, place: Place) -> None:
        self.place = place


def default_name(task: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Return the name of a job that was given none: its task, and the first argument that is a text and not secret."""
    values = masked(named_arguments(task, args, kwargs)).values()
    first = next((text for text in values if isinstance(text, str) and text != MASK), "")
    name = " ".join(strip_unprintable(f"{task}: {first}" if first else task).split())
    return name if len(name) <= DEFAULT_NAME_LENGTH else f"{name[: DEFAULT_NAME_LENGTH - 1].rstrip()}…"


def fill_in(job: Job | None, changes: Mapping[str, Any]) -> Result[Columns]:
    """Replace masks in new arguments with the job's values; refuse this if they would go to another target.

    Without a job, refuse every mask.
    """
    filled = dict(changes)
    if changes.keys().isdisjoint(("task", "args", "kwargs")):
        return Ok(filled)
    task, args, kwargs = _columns(job, changes)
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        # Validation refuses them next.
        return Ok(filled)
    names = names_of(task, args)
    stored = named_arguments(job.task, job.args, job.kwargs) if job else {}
    hidden = _hide(stored, masked(stored))
    revealed: list[Place] = []

    def refused(place: Place, reason: str) -> Result[Columns]:
        return invalid("args" if place[0] in names else "kwargs", f"{'.'.join(map(str, place))}: {reason}")

    try:
        new = _reveal(named_arguments(task, args, kwargs), hidden, (), revealed)
    except _UnknownMaskError as unknown:
        return refused(unknown.place, f"write the real value instead of {MASK}")
    # Unchanged columns keep their hidden values, too.
    untouched = {*(() if "args" in changes else names), *(() if "kwargs" in changes else kwargs)}
    revealed += [
        place
        for place, leaf in _leaves(hidden)
        if isinstance(leaf, Hidden) and place[0] in untouched & new.keys()
    ]
    if job and revealed and (task != job.task or _targets_in(new) != _targets_in(stored)):
        return refused(revealed[0], "write it again, because it would go to another address or task")
    if "args" in changes:
        filled["args"] = [new[name] for name in names]
    if "kwargs" in changes:
        filled["kwargs"] = {name: new[name] for name in kwargs}
    return Ok(filled)


def merged_arguments(
    job: Job, args: list[Any] | None, changes: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a job with changes by name, where None removes one; masked values stay masked.

    `args` are the new positional arguments, or None for the old ones.
    """
    old_args, kwargs = shown_arguments(job)
    args = old_args if args is None else list(args)
    names = names_of(job.task, args)
    kwargs = {name: value for name, value in kwargs.items() if name not in names}
    for name, value in changes.items():
        if name in names:
            args[names.index(name)] = value
        elif value is None:
            kwargs.pop(name, None)
        else:
            kwargs[name] = value
    return args, kwargs


def _columns(job: Job | None, changes: Mapping[str, Any]) -> tuple[str, Any, Any]:
    old = (job.task, job.args, job.kwargs) if job else ("", [], {})
    task, args, kwargs = (
        changes.get(name, value) for name, value in zip(("task", "args", "kwargs"), old, strict=True)
    )
    return task, args, kwargs


def _hide(value: Any, shown: Any) -> Any:
    """Copy a value, and wrap in Hidden what its shown form masks."""
    match shown:
        case dict():
            return {key: _hide(value[key], item) for key, item in shown.items()}
        case list():
            return [_hide(item, other) for item, other in zip(value, shown, strict=True)]
        case _:
            return Hidden(value) if shown == MASK != value else value


def _reveal(value: Any, hidden: Any, place: Place, revealed: list[Place]) -> Any:
    """Copy a value, replace its masks with the hidden values, and add their places to `revealed`."""
    match value:
        case dict():
            children = hidden if isinstance(hidden, dict) else {}
            return {
                key: _reveal(item, children.get(key), (*place, key), revealed) for key, item in value.items()
            }
        case list():
            children = dict(enumerate(hidden)) if isinstance(hidden, list) else {}
            return [
                _reveal(item, children.get(key), (*place, key), revealed) for key, item in enumerate(value)
            ]
        case str() if value == MASK:
            if not isinstance(hidden, Hidden):
                raise _UnknownMaskError(place)
            revealed.append(place)
            return hidden.value
        case _:
            return value


def _targets_in(arguments: Columns) -> dict[Place, Any]:
    return {
        place: leaf
        for place, leaf in _leaves(arguments)
        if any(isinstance(key, str) and _TARGET.search(key) for key in place)
    }


def _leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    match value:
        case dict():
            for key, item in value.items():
                yield from _leaves(item, (*place, key))
        case list():
            for number, item in enumerate(value):
                yield from _leaves(item, (*place, number))
        case _:
            yield place, value
