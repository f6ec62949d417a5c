"""The commands in force: those of the operator's file, which is read again when it changes."""

import inspect

from schedules.tasks import registry
from schedules.tasks.commands.definitions import Command, parse
from schedules.tasks.commands.run import CommandRun, refusal_of
from schedules.tasks.operator_files.tables import OperatorFileError, line_of
from schedules.tasks.operator_files.watching import WatchedFile
from schedules.tasks.parameters import arguments_adapter
from schedules.tasks.registry import Task


class Catalog(WatchedFile[tuple[dict[str, Command], dict[str, Task]]]):
    """The commands of one file, and the tasks that run them."""

    setting, noun = "CRONTY_COMMANDS_FILE", "command"

    def read(self, text: str) -> tuple[dict[str, Command], dict[str, Task]]:
        return _read_tasks(text)

    def get(self, name: str) -> Task | None:
        if name not in self.content()[1]:
            self._read_unless_partial()
        return self._content[1].get(name)

    def all(self) -> list[Task]:
        return list(self.content()[1].values())

    def commands(self) -> dict[str, Command]:
        return dict(self.content()[0])


def _read_tasks(text: str) -> tuple[dict[str, Command], dict[str, Task]]:
    """Return the commands of a text, and their tasks, by name; raises OperatorFileError."""
    commands = parse(text)
    tasks = {}
    for name, command in commands.items():
        try:
            tasks[name] = task_of(name, command)
        except OperatorFileError as error:
            raise OperatorFileError(str(error), line_of(text, [name])) from error
    return commands, tasks


def task_of(name: str, command: Command) -> Task:
    """Build the task that runs a command; raises OperatorFileError if it cannot be registered."""
    if registry.is_function(name):
        raise OperatorFileError(f"{name}: there is a task of this name already; choose another name")
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
        raise OperatorFileError(f"{name}: {error}") from error


catalog = Catalog()
