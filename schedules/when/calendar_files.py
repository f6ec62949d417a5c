"""Compile calendar files in a child process with limits, so that no file of a stranger can hold up this process."""

import json
import os
import resource
import subprocess
import sys
from contextlib import suppress
from datetime import date
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, NamedTuple

from schedules.when import calendar_data
from schedules.when.calendar_rules import RuleError, compile_events

# Without repetitions, so many characters cost less than the start of a process.
MAX_INLINE = 20_000
CPU_SECONDS = 30
WALL_SECONDS = 60
MEMORY_BYTES = 2 * 2**30
# Of this process at a time: each holds the place of another request, and for longer when there are more of them.
MAX_CHILDREN = 2
MAX_WAIT_SECONDS = 2
_places = BoundedSemaphore(MAX_CHILDREN)
_START = "import sys; sys.path.append(sys.argv[1]); from schedules.when import calendar_files; calendar_files.main()"


class CompiledFile(NamedTuple):
    """A calendar file as it is stored."""

    compiled: str
    words: str
    until: date
    unread: int


def compile_file(text: str, zone: str, first: date, last: date, **calendar: Any) -> CompiledFile:
    """Compile the calendar file with the columns of its calendar; raises RuleError."""
    period = {"first": first, "last": last}
    if len(text) <= MAX_INLINE and "RRULE" not in text.upper():
        return _compile(text, zone, **period, **calendar)
    days = {name: day.isoformat() for name, day in period.items()}
    if not _places.acquire(timeout=MAX_WAIT_SECONDS):
        raise RuleError("Other calendars are being read just now. Try again in a minute.")
    try:
        answer = _answer_of_child(json.dumps({"text": text, "zone": zone, **days, **calendar}))
    finally:
        _places.release()
    if "error" in answer:
        raise RuleError(answer["error"])
    return CompiledFile(**answer | {"until": date.fromisoformat(answer["until"])})


def _compile(text: str, zone: str, **calendar: Any) -> CompiledFile:
    result, unread = compile_events(text, zone, **calendar)
    return CompiledFile(calendar_data.stored(result), result.words, result.until or calendar["last"], unread)


def _answer_of_child(request: str) -> dict[str, Any]:
    folder = str(Path(__file__).parents[2])
    with suppress(subprocess.TimeoutExpired):
        ended = subprocess.run(  # noqa: S603  # nosec B603  # this Python, and no shell
            [sys.executable, "-c", _START, folder],
            input=request.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=WALL_SECONDS,
            check=False,
        )
        if ended.returncode == 0:
            answer: dict[str, Any] = json.loads(ended.stdout)
            return answer
    raise RuleError("The calendar takes too long to read, or too much memory. Use a smaller one.")


def main() -> None:
    """Answer one request: the child's whole life."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # Pages and due jobs come first.
    os.nice(10)
    request: dict[str, Any] = json.load(sys.stdin)
    days = {name: date.fromisoformat(request.pop(name)) for name in ("first", "last")}
    try:
        file = _compile(**request | days)
        answer: dict[str, Any] = file._asdict() | {"until": file.until.isoformat()}
    except RuleError as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)
