"""Make jobs and commands from the entries of a crontab; they behave as under cron."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedules.limits import NAME_LENGTH, line_problem, strip_unprintable
from schedules.services.files.crontab import Entry
from schedules.services.files.crontab_names import readable_name
from schedules.when import durations

# Like cron: runs may overlap, missed runs are not made up for, and runs are not stopped before the longest timeout.
LIKE_CRON = {"overlap": "allow", "catch_up": "none", "pause_after_failures": 0}
TIMEOUT = "1d"
MAX_NAME = 80
LONGEST_COMMAND_NAME = 40
_PARAMETER = re.compile(r"\{([a-z][a-z0-9_]{0,49})\}")

Definition = dict[str, Any]


def make_jobs(
    entries: Sequence[Entry],
    existing: Mapping[str, Definition],
    is_taken: Callable[[str], bool],
) -> tuple[dict[str, Definition], dict[str, dict[str, Any]]]:
    """Return the commands to add, and the jobs that run them, both by name.

    An existing command with the same definition is reused. `is_taken` says which other names are taken.
    """
    commands = dict(existing)
    jobs: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for entry in entries:
        definition = definition_of(entry)
        name = next((name for name, other in commands.items() if _same(other, definition)), None)
        if name is None:
            name = _free(_command_name(entry), lambda name: name in commands or is_taken(name), "-{}")
            commands[name] = definition
        key = _free(_job_key(entry), jobs.__contains__, " ({})")
        job_name = _free(_job_name(entry) or key, names.__contains__, " ({})")
        names.add(job_name)
        jobs[key] = {
            **({"name": job_name} if job_name != key else {}),
            "schedule": entry.schedule,
            "timezone": entry.timezone,
            "task": name,
            **({"spread": durations.typed(entry.spread)} if entry.spread else {}),
            **LIKE_CRON,
        }
    return {name: new for name, new in commands.items() if name not in existing}, jobs


def definition_of(entry: Entry) -> Definition:
    """Return the definition of an entry's command for commands.toml."""
    words = entry.words or [entry.shell, "-c", entry.command]
    return {
        "description": _line(f"Crontab: {entry.comment or entry.command}")[:500],
        "program": words[0],
        "arguments": [_escaped(word) for word in words[1:]],
        "directory": entry.directory,
        **({"user": entry.user} if entry.user else {}),
        **({"input": _escaped(entry.input)} if entry.input is not None else {}),
        "timeout": TIMEOUT,
        "environment": {name: _escaped(value) for name, value in entry.environment.items()},
    }


def toml_of(commands: Mapping[str, Definition]) -> str:
    """Write commands as TOML."""
    parts = []
    for name, definition in commands.items():
        values = {key: value for key, value in definition.items() if key != "environment"}
        lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
        parts.append("\n".join([f"[{_key(name)}]", *lines]))
        if variables := definition["environment"]:
            lines = [f"{key} = {_toml(value)}" for key, value in variables.items()]
            parts.append("\n".join([f"[{_key(name)}.environment]", *lines]))
    return "\n\n".join(parts) + "\n" if parts else ""


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two commands do the same, whatever their descriptions."""
    keys = ("program", "arguments", "directory", "user", "input", "timeout", "environment", "parameters")
    return all((one.get(key) or None) == (other.get(key) or None) for key in keys)


def _command_name(entry: Entry) -> str:
    """Return a name that says which program runs, and how."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", readable_name(entry.command) or entry.comment)
    name = name[:LONGEST_COMMAND_NAME].strip("-._").lower()
    return name if name[:1].isalpha() else f"cron-{name}".rstrip("-")


def _job_key(entry: Entry) -> str:
    """Return the key that identifies the job when the crontab is imported again: the comment, or the command."""
    name = _line(entry.comment or entry.command)[:MAX_NAME].strip()
    return name if name and not line_problem(name) else f"Line {entry.line}"


def _job_name(entry: Entry) -> str:
    """Return the comment of a line, or a name made from its program; empty if neither says anything."""
    name = _line(entry.comment or readable_name(entry.command))[:MAX_NAME].strip()
    return name if not line_problem(name) else ""


def _free(name: str, is_taken: Callable[[str], bool], suffix: str) -> str:
    """Return the name, with the first free number if it is taken."""
    number, candidate = 2, name
    while is_taken(candidate):
        candidate = f"{name[: NAME_LENGTH - 10]}{suffix.format(number)}"
        number += 1
    return candidate


def _line(text: str) -> str:
    return " ".join(strip_unprintable(text).split())


def _escaped(text: str) -> str:
    """Double braces that would be read as a parameter."""
    return _PARAMETER.sub(r"{{\1}}", text)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # A JSON string is a TOML string, except for this character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
