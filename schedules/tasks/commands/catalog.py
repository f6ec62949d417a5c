"""The commands in force: those of the operator's file, which is read again when it changes."""

import logging
import os
import stat
import time
from pathlib import Path

from django.conf import settings

from schedules.private_files import foreign_link
from schedules.tasks import registry
from schedules.tasks.commands.definitions import LONGEST_FILE, TOO_LARGE, Command, CommandsFileError, parse
from schedules.tasks.commands.parameters import parameters_of
from schedules.tasks.commands.run import CommandRun, refusal_of
from schedules.tasks.registry import Task

logger = logging.getLogger(__name__)

# How many seconds a process uses what it has read before it looks at the file again.
LOOK_EVERY = 1.0
# A file that has not changed for this many seconds is not being written.
SETTLED_AFTER = 1.0

Signature = tuple[int, int, int] | None


class Catalog:
    """The commands of one file. A file that is broken changes nothing: the last good one stays in force."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._programs: dict[str, tuple[str, str | None]] = {}
        self._path = Path()
        self._looked_at = float("-inf")
        self._seen: Signature = None
        self._read: Signature = None
        self.problem = ""
        """Why the file as it is now cannot be used, or an empty text."""

    def get(self, name: str) -> Task | None:
        self._refresh()
        if name not in self._tasks:
            self._read_unless_partial()
        return self._tasks.get(name)

    def all(self) -> list[Task]:
        self._refresh()
        return list(self._tasks.values())

    def programs(self) -> dict[str, tuple[str, str | None]]:
        """Return the program of each command by its name, with the PATH that its environment sets, if any."""
        self._refresh()
        return dict(self._programs)

    def current_problem(self) -> str:
        self._refresh()
        return self.problem

    def refresh(self) -> None:
        """Read the file now, if it has changed."""
        self._looked_at = float("-inf")
        self._seen = _signature(self._path)
        self._refresh()

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY:
            return
        is_first = self._looked_at == float("-inf")
        self._looked_at = now
        path = Path(settings.CRONTY_COMMANDS_FILE) if settings.CRONTY_COMMANDS_FILE else None
        if path is None:
            self._tasks, self._programs, self.problem = {}, {}, ""
            return
        if path != self._path:
            self._path, self._seen, self._read, is_first = path, None, None, True
        found = _signature(path)
        # Somebody may be writing it: wait until it has been the same for two looks, unless it is older than that. The
        # next look of an idle worker is for its next run, which would not know its command.
        is_settled = found == self._seen or is_first or _has_settled(found)
        self._seen = found
        if is_settled and found != self._read:
            self._load(path, found)

    def _read_unless_partial(self) -> None:
        """Read a file that has just changed, for a run whose command may be new; one that is not whole can wait."""
        found = _signature(self._path) if settings.CRONTY_COMMANDS_FILE else None
        if found is not None and found != self._read:
            self._load(self._path, found, may_be_partial=True)

    def _load(self, path: Path, found: Signature, *, may_be_partial: bool = False) -> None:
        try:
            commands = parse(_content(path)) if found else {}
            if _signature(path) != found:
                # Changed while it was read: the next looks read it again.
                return
            tasks = {name: task_of(name, command) for name, command in commands.items()}
        except CommandsFileError as error:
            if may_be_partial:
                return
            self._read = found
            self._report(
                f"The file {path.name} cannot be used, and the last good one stays in force: {error}"
            )
            return
        self._tasks, self._read = tasks, found
        self._programs = {
            name: (command.program, command.environment.get("PATH")) for name, command in commands.items()
        }
        if self.problem:
            logger.info("%s can be used again", path.name)
        self.problem = ""

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            logger.error("%s", problem)
        self.problem = problem


def _signature(path: Path) -> Signature:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _has_settled(found: Signature) -> bool:
    return found is not None and time.time_ns() - found[0] >= SETTLED_AFTER * 1e9


def _content(path: Path) -> str:
    try:
        # Opening a pipe would wait for somebody to write into it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CommandsFileError("It is not a file.")
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid not in (0, os.getuid()):
                raise CommandsFileError(
                    "Others than the user who runs Cronty can change it. Make it yours: chmod go-w, chown."
                )
            if link := foreign_link(path):
                raise CommandsFileError(f"Another user made the link {link}, and can change where it leads.")
            content = file.read(LONGEST_FILE + 1)
        if len(content) > LONGEST_FILE:
            raise CommandsFileError(TOO_LARGE)
        return content.decode()
    except OSError as error:
        raise CommandsFileError(f"It cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CommandsFileError("It is not UTF-8 text.") from error


def task_of(name: str, command: Command) -> Task:
    """Build the task that runs a command; raises CommandsFileError if it cannot be registered."""
    if registry.is_function(name):
        raise CommandsFileError(f"{name}: there is a task of this name already; choose another name")
    try:
        parameters = parameters_of(command)
        return registry.build(
            name,
            parameters,
            CommandRun(name, command, {each.name: each.annotation for each in parameters}),
            title=command.title or name.replace("_", " ").replace("-", " ").capitalize(),
            description=command.description,
            is_coroutine=True,
            attempts=command.attempts,
            timeout=command.timeout,
            system=False,
            is_command=True,
            takes_secrets=True,
            refusal=refusal_of(name, command),
        )
    except Exception as error:
        # Pydantic has its own errors for a pattern that it cannot compile.
        raise CommandsFileError(f"{name}: {error}") from error


catalog = Catalog()
