"""The run of a command: fill in its arguments and secrets, run the program, and report how it ended."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any

from django.contrib.auth import get_user_model

from schedules.secrets.references import fill_in_secrets, names_in
from schedules.tasks.commands.accounts import Account, AccountError, account_of
from schedules.tasks.commands.definitions import Command
from schedules.tasks.commands.output import KeptOutput
from schedules.tasks.commands.parameters import value_problem
from schedules.tasks.database_threads import in_thread
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.processes import Ended, Limits, Program, StartError, run_program
from schedules.when import durations

# Nothing else: the worker's environment contains secrets and the operator's settings.
PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ")
UMASK = 0o022
SAVE_SECONDS = 1.0
# How much of the output is included in the result, which agents can read.
RESULT_CHARACTERS = 2000


def refusal_of(name: str, command: Command) -> Callable[[Any, bool], str | None]:
    """Return the function that decides who may schedule this command, as `Task.refusal`."""

    def refusal(user: Any, is_agent: bool) -> str | None:
        if "everyone" not in command.allow and not getattr(user, "is_staff", False):
            return f"Only staff may use the command {name}."
        if is_agent and "agents" not in command.allow:
            return f"Agents may not use the command {name}."
        return None

    return refusal


class CommandRun:
    """Runs one command, as the function of its task."""

    # The registry compares tasks of the same name by it.
    __qualname__ = "CommandRun"

    def __init__(self, name: str, command: Command, hints: Mapping[str, Any]) -> None:
        self._name, self.command, self._hints = name, command, hints

    async def __call__(self, *args: Any, run: Run, **kwargs: Any) -> dict[str, Any]:
        owner = await in_thread(self._permitted_owner, run.owner_id)
        values = dict(zip(self.command.order, args, strict=False)) | kwargs
        arguments = {name: value for name, value in values.items() if value is not None}
        for name, parameter in self.command.parameters.items():
            if name not in arguments and parameter.default is not None:
                arguments[name] = parameter.default
        account = _account(self._name, self.command)
        own = await run.secrets(names_in(arguments), command=self._name)
        shared = await run.secrets(self.command.secrets, command=self._name, of_installation=True)
        filled = fill_in_secrets(arguments, own)
        self._check_filled_in({name: value for name, value in filled.items() if value != arguments[name]})
        program = self._program(filled, shared, account, run, owner)
        output = KeptOutput(self.command.output_characters, [*own.values(), *shared.values()])
        timeout = min(run.timeout, self.command.timeout.total_seconds())
        saving = asyncio.ensure_future(_keep_saving(output, run))
        try:
            ended = await run_program(program, timeout, output)
        except StartError as error:
            raise Final(f"{self._name} cannot be started: {error}") from error
        finally:
            saving.cancel()
            output.finish()
            if output.text.position:
                # Even if nothing has changed: an earlier save may have failed, or may not be written yet.
                await asyncio.shield(run.save_output(output.text))
        return self._result(ended, output, timeout)

    def _check_filled_in(self, values: Mapping[str, Any]) -> None:
        """Validate values again after secrets were filled in; before, only the references were validated."""
        for name, value in values.items():
            if problem := value_problem(self._hints[name], value):
                raise Final(f"Invalid arguments: {name}: {problem}")

    def _program(
        self,
        values: Mapping[str, Any],
        secrets: Mapping[str, str],
        account: Account,
        run: Run,
        owner: str,
    ) -> Program:
        texts = {name: _text(value) for name, value in values.items()}
        try:
            arguments = self.command.argument_list(texts, secrets)
        except ValueError as error:
            raise Final(f"Invalid arguments: {error}") from error
        environment = _basic_environment(run, owner, account) | self.command.variables(texts, secrets)
        if any("\0" in text for text in (*arguments, *environment.values())):
            raise Final("Invalid arguments: remove the NUL character.")
        size = self.command.output_characters
        return Program(
            arguments,
            environment,
            self.command.directory or account.home,
            input=self.command.standard_input(texts, secrets),
            umask=UMASK,
            head=size,
            tail=size,
            identity=account.identity,
            limits=Limits(self.command.max_cpu, self.command.max_memory),
            mark=token_hex(16),
        )

    def _result(self, ended: Ended, output: KeptOutput, timeout: float) -> dict[str, Any]:
        result: dict[str, Any] = {
            "exit_code": ended.code,
            "signal": ended.signal_name if ended.signal else None,
            "cpu_seconds": round(ended.cpu_seconds, 3),
            "peak_memory_bytes": ended.peak_bytes,
            "output": output.last(RESULT_CHARACTERS),
        }
        if ended.survivors:
            result["left_processes"] = ended.survivors
        if ended.code == 0 and not ended.is_timeout:
            return result
        problem = ended.describe(self._name, timeout)
        if ended.signal == signal.SIGXCPU and self.command.max_cpu:
            problem = f"{self._name} used more than {durations.short(self.command.max_cpu)} of CPU time and was killed"
        failure = RetryLater(f"{problem}: {output.last_lines}" if output.last_lines else f"{problem}.")
        failure.result = result
        raise failure

    def _permitted_owner(self, owner_id: int) -> str:
        """Return the login name of the owner; raises Final if they may not use this command."""
        owner = get_user_model()._default_manager.filter(pk=owner_id).first()
        if owner is None:
            raise Final("The owner of this job is gone.")
        if problem := refusal_of(self._name, self.command)(owner, False):
            raise Final(problem)
        return owner.get_username()


def _account(name: str, command: Command) -> Account:
    try:
        return account_of(command.user)
    except AccountError as error:
        raise Final(f"{name} cannot be started: {error}") from error


def _basic_environment(run: Run, owner: str, account: Account) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    user = {"USER": account.name, "LOGNAME": account.name} if account.name else {}
    return {
        "PATH": os.defpath,
        "HOME": account.home,
        **passed,
        **user,
        "CRONTY_EXECUTION": str(run.execution_id),
        "CRONTY_JOB": run.job_id,
        "CRONTY_ATTEMPT": str(run.attempt),
        "CRONTY_SCHEDULED_FOR": run.scheduled_for.isoformat(),
        "CRONTY_OWNER": owner,
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


async def _keep_saving(output: KeptOutput, run: Run) -> None:
    """Save the output once a second while it changes."""
    while True:
        await asyncio.sleep(SAVE_SECONDS)
        if output.is_changed:
            output.is_changed = False
            await run.save_output(output.text)
