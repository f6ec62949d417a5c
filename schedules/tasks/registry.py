"""The registry of tasks: the functions that jobs may run, and the arguments they take."""

import enum
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from schedules import limits
from schedules.tasks.interface import Final, Run
from schedules.tasks.parameters import arguments_adapter, task_signature
from schedules.tasks.placeholders import is_placeholder

Function = TypeVar("Function", bound=Callable[..., Any])

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
MAX_ATTEMPTS = 10


class Lane(enum.StrEnum):
    """How a task runs; tasks in the same lane share the same limits."""

    COROUTINE = "coroutine"
    """Many at a time, in the event loop of a worker."""
    PLAIN = "plain"
    """A plain function, which keeps a worker process busy."""
    COMMAND = "command"
    """A program in its own process."""


@dataclass(frozen=True)
class Task:
    """A registered function that jobs may run."""

    name: str
    title: str
    description: str
    function: Callable[..., Any]
    is_coroutine: bool
    attempts: int
    timeout: timedelta
    system: bool
    signature: inspect.Signature = field(repr=False)
    adapter: TypeAdapter[Any] = field(repr=False)
    run_parameter: str | None
    is_command: bool = False
    """Whether it runs a program of the operator, of which only a limited number run at a time."""
    may_start_program: bool = False
    """Whether it may run a program although it is not a command; its output is shown, and it can be stopped, alike."""
    takes_secrets: bool = False
    """Whether it replaces references like ${secret:NAME} in its arguments."""
    check_together: Callable[[Mapping[str, Any]], list[str]] | None = field(repr=False, default=None)
    """Lists problems of arguments that are valid one by one, but do not fit together."""
    check_written: Callable[[Mapping[str, Any]], list[str]] | None = field(repr=False, default=None)
    """Lists problems of arguments as written, before their placeholders are filled in."""
    refusal: Callable[[Any, bool], str | None] | None = field(repr=False, default=None)
    """Returns why a user may not schedule it, or their agent if the second argument is true; None allows everybody."""

    @cached_property
    def lane(self) -> "Lane":
        """How it runs; cached, because a claim reads it for every run."""
        if self.is_command:
            return Lane.COMMAND
        return Lane.COROUTINE if self.is_coroutine else Lane.PLAIN

    @cached_property
    def is_built_in(self) -> bool:
        """Whether it is one of Cronty's own; their coroutines do not use the worker's database connections."""
        return self.function.__module__.startswith("schedules.")

    @property
    def takes_more_values(self) -> bool:
        """Whether it takes values that have no name."""
        kinds = {parameter.kind for parameter in self.signature.parameters.values()}
        return inspect.Parameter.VAR_POSITIONAL in kinds

    @property
    def runs_program(self) -> bool:
        """Whether it may run a program: one with output, which can be stopped and has its own time limit."""
        return self.is_command or self.may_start_program

    def refuses(self, user: Any, is_agent: bool) -> str | None:
        """Return why this user or agent may not schedule the task, or None."""
        return self.refusal(user, is_agent) if self.refusal else None

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the arguments by name; cached, because the form of a job reads it for every argument."""
        schema = {**self.adapter.json_schema(), "title": self.title}
        for parameter in self.signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                del schema["properties"][parameter.name]
                schema["additionalProperties"] = parameter.kind is parameter.VAR_KEYWORD
        return schema

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, are_filled: bool = False) -> list[str]:
        """List the problems of the arguments; each begins with the argument's name.

        A placeholder is checked once its value is known, with `are_filled`.
        """
        problems = self._validate(args, kwargs)[1]
        if not problems and (are_filled or not self.check_written):
            return []
        by_name = dict(zip(self.signature.parameters, args, strict=False)) | dict(kwargs)
        unchecked = {name for name, value in by_name.items() if is_placeholder(value)} if problems else set()
        problems = [problem for problem in problems if re.split(r"[.:]", problem)[0] not in unchecked]
        if self.check_written and not problems and not are_filled:
            problems = self.check_written(by_name)
        return problems

    def call(self, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the function with validated arguments; a coroutine function returns its coroutine."""
        values, problems = self._validate(args, kwargs)
        if problems:
            raise Final(f"Invalid arguments: {'; '.join(problems)}")
        context = {self.run_parameter: run} if self.run_parameter else {}
        if self._takes_all_by_name:
            return self.function(**values, **context)
        bound = inspect.BoundArguments(self.signature, values)
        return self.function(*bound.args, **bound.kwargs, **context)

    def _validate(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the validated values by the names of their parameters, and the problems."""
        if inspect.Parameter.VAR_KEYWORD not in self._kinds and (
            unknown := [name for name in kwargs if name not in self.signature.parameters]
        ):
            return {}, [f"{name}: unknown argument; {self._accepted()}" for name in unknown]
        by_name = dict(kwargs)
        try:
            if args or not self._takes_all_by_name:
                by_name = self.signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            return {}, [f"arguments: {error}; {self._accepted()}"]
        try:
            # Validated as JSON, because strict mode then accepts an ISO string as a datetime, but not "7" as an integer.
            values = self.adapter.validate_json(json.dumps(by_name), strict=True)
        except ValidationError as error:
            return {}, [self._problem(detail) for detail in error.errors()]
        except (TypeError, ValueError, RecursionError) as error:
            return {}, [f"arguments: not JSON ({error})"]
        return values, self.check_together(values) if self.check_together else []

    @cached_property
    def _kinds(self) -> set[Any]:
        return {parameter.kind for parameter in self.signature.parameters.values()}

    @cached_property
    def _takes_all_by_name(self) -> bool:
        """Whether every argument can be passed by name, so that no call has to bind them to the signature."""
        return self._kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}

    def _accepted(self) -> str:
        return f"{self.name} takes {', '.join(self.signature.parameters) or 'no arguments'}"

    def _problem(self, detail: ErrorDetails) -> str:
        where = ".".join(str(part) for part in detail["loc"]) or "arguments"
        if detail["type"] == "missing":
            return f"{where}: required, but missing; {self._accepted()}"
        message = detail["msg"].removeprefix("Value error, ")
        return f"{where}: {message[:1].lower()}{message[1:]}"


class TaskSource(Protocol):
    """Tasks that are not functions in the code, and may change while a process runs."""

    def get(self, name: str) -> Task | None: ...

    def all(self) -> list[Task]: ...

    @property
    def short_problem(self) -> str:
        """Why tasks may be missing, in a form that everybody may read, or an empty text."""
        ...


_tasks: dict[str, Task] = {}
_sources: list[TaskSource] = []


def task(
    name: str | None = None,
    *,
    title: str = "",
    description: str = "",
    attempts: int = 1,
    timeout: timedelta = timedelta(seconds=60),
    system: bool = False,
    takes_secrets: bool = False,
    may_start_program: bool = False,
    check: Callable[[Mapping[str, Any]], list[str]] | None = None,
    check_written: Callable[[Mapping[str, Any]], list[str]] | None = None,
) -> Callable[[Function], Function]:
    """Register a function or coroutine function for jobs to run; the function itself is not changed."""
    if name is not None and not isinstance(name, str):
        raise TypeError("Write @task(), with parentheses.")
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Give the timeout of a task as a timedelta, not as {timeout!r}.")

    def register(function: Function) -> Function:
        label = name or function.__name__
        has_valid_timeout = limits.SHORTEST_TIMEOUT <= timeout <= limits.LONGEST_TIMEOUT
        if not 1 <= attempts <= MAX_ATTEMPTS or not has_valid_timeout:
            raise ValueError(
                f"{label}: give the task 1 to {MAX_ATTEMPTS} attempts and a positive timeout, from one second to one day."
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{label}: a task must not be a generator, which would not run: return the result."
            )
        signature, run_parameter = task_signature(function)
        _add(
            Task(
                name=label,
                title=title or label.replace("_", " ").capitalize(),
                description=description or inspect.getdoc(function) or "",
                function=function,
                is_coroutine=inspect.iscoroutinefunction(function),
                attempts=attempts,
                timeout=timeout,
                system=system,
                signature=signature,
                adapter=arguments_adapter(label, signature),
                run_parameter=run_parameter,
                takes_secrets=takes_secrets,
                may_start_program=may_start_program,
                check_together=check,
                check_written=check_written,
            )
        )
        return function

    return register


def add_source(source: TaskSource) -> None:
    """Add a source of tasks, once; a registered function of the same name takes precedence."""
    if source not in _sources:
        _sources.append(source)


def is_function(name: str) -> bool:
    """Return whether a function is registered under this name."""
    return name in _tasks


def get(name: str) -> Task | None:
    """Return the task with this name, or None."""
    if (function := _tasks.get(name)) or not _sources:
        return function
    return next(filter(None, (source.get(name) for source in _sources)), None)


def all_tasks(include_system: bool = False) -> list[Task]:
    """Return all tasks, sorted by name; system tasks are internal and not offered to users."""
    tasks = {task.name: task for source in _sources for task in source.all()} | _tasks
    return [tasks[name] for name in sorted(tasks) if include_system or not tasks[name].system]


def unknown(name: str) -> str:
    """Return the message that there is no such task, and why an existing one may be missing."""
    return ". ".join([f"Unknown task: {name}", *_source_problems()])


def unknown_with_choices(name: str, choices: Iterable[str] | None = None) -> str:
    """Return the message that there is no such task, those that there are, and why an existing one may be missing."""
    listed = ", ".join(names() if choices is None else choices)
    return " ".join([f"Unknown task: {name}. Choose one of: {listed}.", *_source_problems()])


def _source_problems() -> list[str]:
    return [source.short_problem for source in _sources if source.short_problem]


def plain_names() -> list[str]:
    """Return the names of the tasks that are plain functions."""
    return [name for name in sorted(_tasks) if not _tasks[name].is_coroutine]


def command_names() -> list[str]:
    """Return the names of the tasks that run programs of the operator."""
    return [task.name for source in _sources for task in source.all() if task.is_command]


def names() -> list[str]:
    """Return the names of the tasks that every user's job may run."""
    return [task.name for task in all_tasks() if task.refusal is None]


def _add(new: Task) -> None:
    if not NAME.fullmatch(new.name):
        raise ValueError(f"Not a task name: {new.name!r}")
    old = _tasks.get(new.name)
    if old is not None and _origin(old) != _origin(new):
        raise ValueError(f"Two tasks are named {new.name!r}: {_origin(old)} and {_origin(new)}")
    _tasks[new.name] = new


def _origin(task: Task) -> str:
    # Names, not functions, are compared: a reloaded module registers a new function for the same task.
    return f"{task.function.__module__}.{task.function.__qualname__}"
