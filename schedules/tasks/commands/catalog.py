"""The catalog of commands: those of the operator's file, which is read again when it changes, as tasks."""

import inspect

from schedules.tasks import registry
from schedules.tasks.commands.definitions import Command, parse
from schedules.tasks.commands.run import CommandRun, refusal_of
from schedules.tasks.operator_files.tables import OperatorFileError, line_of
from schedules.tasks.operator_files.watching import WatchedFile
from schedules.tasks.parameters import arguments_adapter
from schedules.tasks.registry import Task


class Catalog(WatchedFile[Task]):
    """The tasks that run the commands of the operator's file."""

    setting, noun = "CRONTY_COMMANDS_FILE", "command"

    def read(self, text: str) -> dict[str, Task]:
        tasks = {}
        for name, command in parse(text).items():
            try:
                tasks[name] = task_of(name, command)
            except OperatorFileError as error:
                raise OperatorFileError(str(error), line_of(text, [name])) from error
        return tasks

    def commands(self) -> dict[str, Command]:
        return {
            task.name: task.function.command for task in self.all() if isinstance(task.function, CommandRun)
        }


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
        # Not only ValueError: Pydantic raises its own errors for a pattern that it cannot compile.
        raise OperatorFileError(f"{name}: {error}") from error


catalog = Catalog()
