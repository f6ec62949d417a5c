"""Commands as the operator defines them in commands.toml: parsing and validation, without files or a database."""

import inspect
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from schedules.tasks.commands.parameters import Line, Parameter, Table, task_parameter
from schedules.tasks.commands.templates import (
    END_OF_OPTIONS,
    PARAMETER_PATTERN,
    fill_in,
    option_problem,
    parameters_in,
    secrets_in,
    template_problem,
)
from schedules.tasks.operator_files.tables import (
    Template,
    Timeout,
    VariableName,
    absolute,
    parse_tables,
    without_nul,
)
from schedules.tasks.registry import MAX_ATTEMPTS

MIN_MEMORY, MAX_MEMORY = 16 * 10**6, 10**15
# Every task of a command gets its run as an argument of this name.
RESERVED = "run"


def _bytes(value: Any) -> int:
    match = (
        re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kKMGT]i?)B?", value) if isinstance(value, str) else None
    )
    if match is None:
        raise ValueError('write a size like "512MB" or "2GB"')
    base = 1024 if match[2].endswith("i") else 1000
    size = int(float(match[1]) * base ** (1 + "kMGT".index(match[2][0].replace("K", "k"))))
    if not MIN_MEMORY <= size <= MAX_MEMORY:
        raise ValueError("choose between 16MB, which a program needs to start, and 1000TB")
    return size


def _program(text: str) -> str:
    if parameters_in(text) or secrets_in(text):
        raise ValueError("a program cannot be chosen by a parameter or a secret")
    if "/" in text and not text.startswith("/"):
        raise ValueError("give the whole path, from / on, or a name that PATH finds")
    return text


Bytes = Annotated[int, BeforeValidator(_bytes)]
ParameterName = Annotated[str, Field(pattern=rf"^{PARAMETER_PATTERN}$")]


class Condition(Table):
    """Arguments that are used only if a parameter is present and not false."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_by_name=False)

    parameter: Annotated[ParameterName, Field(alias="if")]
    arguments: list[Template]


class Command(Table):
    """One command: its program, parameters and limits, and who may schedule it."""

    description: Line
    title: Annotated[Line, Field(max_length=100)] = ""
    program: Annotated[str, Field(min_length=1), AfterValidator(without_nul), AfterValidator(_program)]
    arguments: list[Template | Condition] = []
    parameters: dict[ParameterName, Parameter] = {}
    directory: Annotated[str, AfterValidator(without_nul), AfterValidator(absolute)] | None = None
    environment: dict[VariableName, Template] = {}
    input: Template | None = None
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")] | None = None
    max_cpu: Timeout | None = None
    max_memory: Bytes | None = None
    timeout: Timeout = timedelta(minutes=10)
    attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = 1
    output_characters: Annotated[int, Field(ge=1000, le=1_000_000)] = 64_000
    allow: Annotated[list[Literal["staff", "everyone", "agents"]], Field(min_length=1)] = ["staff"]

    @property
    def secrets(self) -> set[str]:
        """The names of the secrets that the file refers to."""
        return {name for template in self._templates() for name in secrets_in(template)}

    @property
    def order(self) -> list[str]:
        """The names of the parameters in the order of positional arguments: required ones first."""
        return sorted(self.parameters, key=lambda name: not self.parameters[name].is_required)

    def task_parameters(self) -> list[inspect.Parameter]:
        """Return the parameters of the task that runs it; raises ValueError for an impossible default."""
        opening = self.opening_parameters()
        return [task_parameter(name, self.parameters[name], name in opening) for name in self.order]

    def opening_parameters(self) -> set[str]:
        """Return the parameters at the beginning of an argument before `--`: their values must not begin with a dash."""
        names: set[str] = set()
        for item in self.arguments:
            if item == END_OF_OPTIONS:
                break
            for template in [item] if isinstance(item, str) else item.arguments:
                names |= {name for name in parameters_in(template) if template.startswith(f"{{{name}}}")}
        return names

    def argument_list(self, values: Mapping[str, str], secrets: Mapping[str, str] = {}) -> list[str]:
        """Return the program and its arguments; raises ValueError if a value would become an option."""
        arguments = [self.program]
        is_after_options = False
        for template in self._used_arguments(values):
            argument = fill_in(template, values, secrets)
            if not is_after_options and (problem := option_problem(template, argument)):
                raise ValueError(f"{', '.join(sorted(parameters_in(template))) or template}: {problem}")
            is_after_options = is_after_options or template == END_OF_OPTIONS
            arguments.append(argument)
        return arguments

    def variables(self, values: Mapping[str, str], secrets: Mapping[str, str] = {}) -> dict[str, str]:
        """Return the environment variables, without those whose parameter is missing."""
        return {
            name: fill_in(template, values, secrets)
            for name, template in self.environment.items()
            if parameters_in(template) <= values.keys()
        }

    def standard_input(self, values: Mapping[str, str], secrets: Mapping[str, str] = {}) -> str | None:
        """Return the text for the program's standard input, or None if there is none or one of its parameters is missing."""
        if self.input is None or not parameters_in(self.input) <= values.keys():
            return None
        return fill_in(self.input, values, secrets)

    def _used_arguments(self, values: Mapping[str, str]) -> Iterator[str]:
        for item in self.arguments:
            if isinstance(item, str):
                yield item
            elif values.get(item.parameter, "false") != "false":
                yield from item.arguments

    def _templates(self) -> Iterator[str]:
        for item in self.arguments:
            yield from [item] if isinstance(item, str) else item.arguments
        yield from self._optional_templates()

    def _optional_templates(self) -> Iterator[str]:
        """Yield the templates that are left out if one of their parameters is missing."""
        yield from self.environment.values()
        if self.input is not None:
            yield self.input

    @model_validator(mode="after")
    def _fits_together(self) -> "Command":
        if RESERVED in self.parameters:
            raise ValueError(f"parameters: a parameter cannot be called {RESERVED}")
        is_after_options = False
        for item in self.arguments:
            always_set = {name for name, parameter in self.parameters.items() if not parameter.optional}
            if isinstance(item, Condition):
                self._check_exists(item.parameter)
                always_set.add(item.parameter)
            # A `--` in a condition ends the options only there, because it is not always present.
            is_after_here = is_after_options
            for template in [item] if isinstance(item, str) else item.arguments:
                self._check_template(template, always_set)
                if not is_after_here and (problem := template_problem(template)):
                    raise ValueError(f"arguments: {problem}")
                is_after_here = is_after_here or template == END_OF_OPTIONS
            is_after_options = is_after_options or item == END_OF_OPTIONS
        for name in self.opening_parameters():
            parameter = self.parameters[name]
            if any(str(value).startswith("-") for value in (*parameter.choices, parameter.default)):
                raise ValueError(f"parameters.{name}: a choice must not begin with -; put a -- before it")
        for template in self._optional_templates():
            for name in sorted(parameters_in(template)):
                self._check_exists(name)
        self._check_multiline()
        used = {name for template in self._templates() for name in parameters_in(template)}
        used |= {item.parameter for item in self.arguments if isinstance(item, Condition)}
        if unused := sorted(self.parameters.keys() - used):
            raise ValueError(
                f"parameters: {', '.join(unused)}: not used in the arguments, the environment or the input"
            )
        return self

    def _check_multiline(self) -> None:
        """Refuse a multi-line parameter in an argument or a variable, where programs do not expect line breaks."""
        elsewhere = [template for template in self._templates() if template != self.input]
        for name in sorted({name for template in elsewhere for name in parameters_in(template)}):
            if self.parameters[name].multiline:
                raise ValueError(f"parameters.{name}: a multiline parameter can only be used in the input")

    def _check_template(self, template: str, always_set: set[str]) -> None:
        for name in sorted(parameters_in(template)):
            self._check_exists(name)
            if name not in always_set:
                raise ValueError(
                    f'arguments: {name} is optional: write {{ if = "{name}", arguments = ["{template}"] }}'
                )

    def _check_exists(self, name: str) -> None:
        if name not in self.parameters:
            raise ValueError(
                f"there is no parameter {name!r}; write {{{{{name}}}}} for the text {{{name}}} itself"
            )


def parse(text: str) -> dict[str, Command]:
    """Return the commands of a file by name; raises OperatorFileError with every problem."""
    return parse_tables(text, Command)
