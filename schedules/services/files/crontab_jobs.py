"""Make jobs and commands from the entries of a crontab; they behave as under cron."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from schedules.limits import NAME_LENGTH, line_problem, strip_unprintable
from schedules.services.files.crontab import Entry
from schedules.when import durations

# Like cron: runs may overlap, missed runs are not made up for, and runs are not stopped before the longest timeout.
LIKE_CRON = {"overlap": "allow", "catch_up": "none", "pause_after_failures": 0}
TIMEOUT = "1d"
MAX_NAME = 80
LONGEST_COMMAND_NAME = 40
MAX_KEY = 180
# A command with such a word may contain a password, and names of jobs are sent to topics and channels.
_PRIVATE = re.compile(r"pass|pwd|token|secret|key|auth|credential|\S@|\s-p\S", flags=re.IGNORECASE)
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
    by_meaning = {_meaning(definition): name for name, definition in reversed(list(existing.items()))}
    numbers: dict[str, int] = {}
    jobs: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for entry in entries:
        definition = definition_of(entry)
        name = by_meaning.get(_meaning(definition))
        if name is None:
            name = _free(
                _command_name(entry), lambda name: name in commands or is_taken(name), "-{}", numbers
            )
            commands[name] = definition
            by_meaning[_meaning(definition)] = name
        key = _free(_job_key(entry), jobs.__contains__, " ({})", numbers)
        job_name = _free(_job_name(entry), names.__contains__, " ({})", numbers)
        names.add(job_name)
        jobs[key] = {
            "name": job_name,
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


def _meaning(definition: Mapping[str, Any]) -> str:
    """Return a text that is equal for commands that do the same, whatever their descriptions."""
    keys = ("program", "arguments", "directory", "user", "input", "timeout", "environment", "parameters")
    return json.dumps([definition.get(key) or None for key in keys], sort_keys=True, default=str)


def _command_name(entry: Entry) -> str:
    """Return the name of the job as commands are named, without the folders of its program."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", re.sub(r"\S*/(?=\S)", "", _job_name(entry)))
    name = name[:LONGEST_COMMAND_NAME].strip("-._").lower()
    return name if name[:1].isalpha() else f"cron-{name}".rstrip("-")


def _job_key(entry: Entry) -> str:
    """Return the key that identifies the job when the crontab is imported again: the times and the command."""
    key = _line(f"{entry.schedule} {entry.command}")
    if line_problem(key):
        return f"Line {entry.line}"
    digest = sha256(key.encode()).hexdigest()[:8]
    return key if len(key) <= MAX_KEY else f"{key[:MAX_KEY]} {digest}"


def _job_name(entry: Entry) -> str:
    """Return the comment of a line, or its command: only the program if the rest may contain a password."""
    name = _line(entry.comment or entry.command)
    if not entry.comment and _PRIVATE.search(name):
        program = next((word for word in name.split() if "=" not in word), "")
        name = PurePosixPath(program).name
    name = name[:MAX_NAME].strip()
    return name if name and not line_problem(name) else f"Line {entry.line}"


def _free(name: str, is_taken: Callable[[str], bool], suffix: str, numbers: dict[str, int]) -> str:
    """Return the name, with the first free number if it is taken; `numbers` remembers where the search ended."""
    start, candidate = f"{name[: NAME_LENGTH - 10]}{suffix}", name
    while is_taken(candidate):
        numbers[start] = numbers.get(start, 1) + 1
        candidate = f"{name[: NAME_LENGTH - 10]}{suffix.format(numbers[start])}"
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
