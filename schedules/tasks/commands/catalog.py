"""The commands in force: those of the operator's file, which is read again when it changes."""

import inspect
import logging
import time
from pathlib import Path

from django.conf import settings

from schedules.tasks import registry
from schedules.tasks.commands.definitions import Command, CommandsFileError, line_of, parse
from schedules.tasks.commands.file import (
    Signature,
    discard_copy,
    has_settled,
    keep_copy,
    read_content,
    read_copy,
    signature_of,
)
from schedules.tasks.commands.run import CommandRun, refusal_of
from schedules.tasks.parameters import arguments_adapter
from schedules.tasks.registry import Task

logger = logging.getLogger(__name__)

# How many seconds a process uses what it has read before it looks at the file again.
LOOK_EVERY = 1.0


class Catalog:
    """The commands of one file. A file that is broken changes nothing: the last good one stays in force."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._commands: dict[str, Command] = {}
        self._path = Path()
        self._looked_at = float("-inf")
        self._seen: Signature = None
        self._read: Signature = None
        self._unkept: str | None = None
        self._is_good = False
        self.problem = ""
        """Why the file as it is now cannot be used, or an empty text."""
        self._place = ""

    @property
    def short_problem(self) -> str:
        """The problem for everybody: the name of the file and the line, without the names of commands and programs."""
        if not self.problem:
            return ""
        effect = "the last good one stays in force" if self._is_good else "no command can run"
        return f"{self._place} cannot be used, so {effect}."

    @property
    def is_usable(self) -> bool:
        """Whether the commands of the file, or of its last good content, can run."""
        self._refresh()
        return not self.problem or self._is_good

    def get(self, name: str) -> Task | None:
        self._refresh()
        if name not in self._tasks:
            self._read_unless_partial()
        return self._tasks.get(name)

    def all(self) -> list[Task]:
        self._refresh()
        return list(self._tasks.values())

    def commands(self) -> dict[str, Command]:
        self._refresh()
        return dict(self._commands)

    def current_problem(self) -> str:
        self._refresh()
        return self.problem

    def refresh(self) -> None:
        """Read the file now, if it has changed."""
        self._looked_at = float("-inf")
        self._seen = signature_of(self._path)
        self._refresh()

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY:
            return
        is_first = self._looked_at == float("-inf")
        self._looked_at = now
        path = Path(settings.CRONTY_COMMANDS_FILE) if settings.CRONTY_COMMANDS_FILE else None
        if path is None:
            self._use({}, {})
            self.problem = ""
            return
        if path != self._path:
            self._path, self._seen, self._read, is_first = path, None, None, True
            self._is_good = False
        found = signature_of(path)
        # Somebody may be writing it: wait until it has been the same for two looks, unless it is older than that. The
        # next look of an idle worker is for its next run, which would not know its command.
        is_settled = found == self._seen or has_settled(found)
        self._seen = found
        if found is None and is_first:
            discard_copy(path)
        if (is_settled or is_first) and found != self._read:
            self._load(path, found)
        if is_settled and found == self._read and self._unkept is not None:
            keep_copy(path, self._unkept)
            self._unkept = None

    def _read_unless_partial(self) -> None:
        """Read a file that has just changed, for a run whose command may be new; one that is not whole can wait."""
        found = signature_of(self._path) if settings.CRONTY_COMMANDS_FILE else None
        if found is not None and found != self._read:
            self._load(self._path, found, may_be_partial=True)

    def _load(self, path: Path, found: Signature, *, may_be_partial: bool = False) -> None:
        try:
            text = read_content(path) if found else ""
            if signature_of(path) != found:
                # Changed while it was read: the next looks read it again.
                return
            commands, tasks = _read_tasks(text)
        except CommandsFileError as error:
            if may_be_partial:
                return
            self._read, self._unkept = found, None
            if not self._is_good:
                self._use_copy(path)
            self._report(path, error)
            return
        self._use(commands, tasks)
        self._read, self._is_good = found, found is not None
        self._unkept = text if found else None
        if not found:
            discard_copy(path)
        if self.problem:
            logger.info("%s can be used again", path.name)
        self.problem = ""

    def _use(self, commands: dict[str, Command], tasks: dict[str, Task]) -> None:
        self._commands, self._tasks = commands, tasks

    def _use_copy(self, path: Path) -> None:
        """Put the content into force that was good before this process started, if there is one."""
        text = read_copy(path)
        try:
            self._use(*_read_tasks(text or ""))
            self._is_good = text is not None
        except CommandsFileError as error:
            self._use({}, {})
            logger.warning("The last good content of %s cannot be used any more: %s", path.name, error)

    def _report(self, path: Path, error: CommandsFileError) -> None:
        effect = (
            "the last good one stays in force"
            if self._is_good
            else "there is no good copy of it, so no command can run"
        )
        problem = f"The file {path} cannot be used, and {effect}: {error}"
        if problem != self.problem:
            logger.error("%s", problem)
        self.problem = problem
        self._place = f"The file {path.name}" + (f", line {error.line}," if error.line else "")


def _read_tasks(text: str) -> tuple[dict[str, Command], dict[str, Task]]:
    """Return the commands of a text, and their tasks, by name; raises CommandsFileError."""
    commands = parse(text)
    tasks = {}
    for name, command in commands.items():
        try:
            tasks[name] = task_of(name, command)
        except CommandsFileError as error:
            raise CommandsFileError(str(error), line_of(text, [name])) from error
    return commands, tasks


def task_of(name: str, command: Command) -> Task:
    """Build the task that runs a command; raises CommandsFileError if it cannot be registered."""
    if registry.is_function(name):
        raise CommandsFileError(f"{name}: there is a task of this name already; choose another name")
    try:
        signature = inspect.Signature(command.task_parameters())
        hints = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
        return Task(
            name=name,
            title=command.title or name.replace("_", " ").replace("-", " ").capitalize(),
            description=command.description,
            function=CommandRun(name, command, hints),
            is_coroutine=True,
            attempts=command.attempts,
            timeout=command.timeout,
            system=False,
            signature=signature,
            adapter=arguments_adapter(name, signature),
            run_parameter="run",
            is_command=True,
            takes_secrets=True,
            refusal=refusal_of(name, command),
        )
    except Exception as error:
        # Pydantic has its own errors for a pattern that it cannot compile.
        raise CommandsFileError(f"{name}: {error}") from error


catalog = Catalog()
