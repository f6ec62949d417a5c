"""Masked arguments: forms mask what looks like a password, and an edit that changes where it goes needs it again."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from inspect import Parameter
from typing import Any

from schedules.models import Job
from schedules.result import Err, Ok, Result, invalid
from schedules.secrets import masking
from schedules.tasks import registry

Place = tuple[str | int, ...]
Columns = dict[str, Any]

# Arguments that decide who receives the others.
_TARGET = re.compile(
    r"url|uri|host|server|address|endpoint|domain|topic|target|recipient|(^|[-_])(port|to)($|[-_.])", re.I
)


def fill_in(job: Job | None, changes: Mapping[str, Any]) -> Result[Columns]:
    """Replace masks in new arguments by the values of the job; refuse if these would go to another target.

    Without a job, every mask is refused.
    """
    filled = dict(changes)
    if changes.keys().isdisjoint(("task", "args", "kwargs")):
        return Ok(filled)
    task, args, kwargs = _columns(job, changes)
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        # The validation that follows refuses them.
        return Ok(filled)
    names = _names_of(task, args)
    new = named_arguments(task, args, kwargs)
    if job is None and masking.MASK not in (leaf for _, leaf in _leaves(new)):
        return Ok(filled)
    stored = named_arguments(job.task, job.args, job.kwargs) if job else {}
    new = deepcopy(new)
    # Columns that are not part of the change hold the values themselves; show them as forms do.
    untouched = {*(() if "args" in changes else names), *(() if "kwargs" in changes else kwargs)}
    kept = [place for place, leaf in _leaves(new) if leaf == masking.MASK]
    values = _masked_in(stored)
    for place in kept:
        if place not in values:
            return _refused(place, names, f"write the real value instead of {masking.MASK}")
        _set_at(new, place, values[place])
    kept += [place for place in values if place[0] in untouched and place[0] in new]
    if job and kept and (task != job.task or _targets_in(new) != _targets_in(stored)):
        return _refused(kept[0], names, "write it again, because it would go to another address or task")
    if "args" in changes:
        filled["args"] = [new[name] for name in names]
    if "kwargs" in changes:
        filled["kwargs"] = {name: new[name] for name in kwargs}
    return Ok(filled)


def shown_arguments(job: Job) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a job with passwords and the like masked, also those that were given by position."""
    names = _names_of(job.task, job.args)
    shown = masking.masked(named_arguments(job.task, job.args, job.kwargs))
    return [shown[name] for name in names], {name: shown[name] for name in job.kwargs}


def merged_arguments(
    job: Job, args: list[Any] | None, changes: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a job with these changed by name; None removes one. What is masked stays so.

    `args` are its new positional arguments, or None for the old ones.
    """
    old_args, kwargs = shown_arguments(job)
    args = old_args if args is None else list(args)
    names = _names_of(job.task, args)
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


def _names_of(task: str, args: list[Any]) -> list[str]:
    if not args:
        return []
    known = registry.get(task)
    parameters = known.signature.parameters.values() if known else ()
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    named = [each.name for each in parameters if each.kind in kinds]
    # The others have the name of a parameter like `*tokens`, which tells whether they are secret.
    rest = next((each.name for each in parameters if each.kind is Parameter.VAR_POSITIONAL), "args")
    return [*named, *(f"{rest}.{number}" for number in range(len(args)))][: len(args)]


def named_arguments(task: str, args: list[Any], kwargs: Mapping[str, Any]) -> Columns:
    """Return the arguments of a task by name, also those that were given by position."""
    return dict(zip(_names_of(task, args), args, strict=True)) | dict(kwargs)


def _masked_in(arguments: Columns) -> dict[Place, Any]:
    """Return what is masked of the arguments, by its place."""
    found = {
        place: _get_at(arguments, place)
        for place, leaf in _leaves(masking.masked(arguments))
        if leaf == masking.MASK
    }
    return {place: value for place, value in found.items() if value != masking.MASK}


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


def _get_at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def _set_at(value: Any, place: Place, item: Any) -> None:
    _get_at(value, place[:-1])[place[-1]] = item


def _refused(place: Place, names: list[str], words: str) -> Err:
    return invalid("args" if place[0] in names else "kwargs", f"{'.'.join(map(str, place))}: {words}")
