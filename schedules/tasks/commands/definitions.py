"""Commands as the operator defines them in commands.toml: parsing and validation, without files or a database."""

import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from schedules import limits
from schedules.secrets.references import problem_in
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
from schedules.tasks.registry import MOST_ATTEMPTS, NAME
from schedules.when.phrases import PhraseError, parse_delay

LONGEST_FILE = 1_000_000
TOO_LARGE = f"The file is larger than {LONGEST_FILE:,} bytes."
LEAST_MEMORY, MOST_MEMORY = 16 * 10**6, 10**15
# The name of the argument that every task gets its run by.
RESERVED = "run"


class CommandsFileError(Exception):
    """The file cannot be used; the text says what is wrong, and where."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line = line


def _duration(value: Any) -> timedelta:
    if isinstance(value, str):
        try:
            value = parse_delay(value).total_seconds()
        except PhraseError as error:
            raise ValueError('write a duration like "90s", "10m" or "2h"') from error
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError('write a duration like "90s", "10m" or "2h"')
    if not 1 <= value <= limits.LONGEST_TIMEOUT.total_seconds():
        raise ValueError("choose between one second and one day")
    return timedelta(seconds=value)


def _bytes(value: Any) -> int:
    found = (
        re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kKMGT]i?)B?", value) if isinstance(value, str) else None
    )
    if found is None:
        raise ValueError('write a size like "512MB" or "2GB"')
    base = 1024 if found[2].endswith("i") else 1000
    size = int(float(found[1]) * base ** (1 + "kMGT".index(found[2][0].replace("K", "k"))))
    if not LEAST_MEMORY <= size <= MOST_MEMORY:
        raise ValueError("choose between 16MB, which a program needs to start, and 1000TB")
    return size


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("remove the NUL character")
    if problem := problem_in(text):
        raise ValueError(problem)
    return text


def _program(text: str) -> str:
    if parameters_in(text) or secrets_in(text):
        raise ValueError("a program cannot be chosen by a parameter or a secret")
    if "/" in text and not text.startswith("/"):
        raise ValueError("give the whole path, from / on, or a name that PATH finds")
    return text


def _absolute(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("give the whole path, from / on")
    return text


Template = Annotated[str, Field(max_length=32_768), AfterValidator(_without_nul)]
Timeout = Annotated[timedelta, BeforeValidator(_duration)]
Bytes = Annotated[int, BeforeValidator(_bytes)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
ParameterName = Annotated[str, Field(pattern=rf"^{PARAMETER_PATTERN}$")]


class Condition(Table):
    """Arguments that are used only if a parameter is given and is not false."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_by_name=False)

    parameter: Annotated[ParameterName, Field(alias="if")]
    arguments: list[Template]


class Command(Table):
    """One command: what runs, with which parameters and limits, and who may schedule it."""

    description: Line
    title: Annotated[Line, Field(max_length=100)] = ""
    program: Annotated[str, Field(min_length=1), AfterValidator(_without_nul), AfterValidator(_program)]
    arguments: list[Template | Condition] = []
    parameters: dict[ParameterName, Parameter] = {}
    directory: Annotated[str, AfterValidator(_without_nul), AfterValidator(_absolute)] | None = None
    environment: dict[VariableName, Template] = {}
    input: Template | None = None
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")] | None = None
    max_cpu: Timeout | None = None
    max_memory: Bytes | None = None
    timeout: Timeout = timedelta(minutes=10)
    attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)] = 1
    output_characters: Annotated[int, Field(ge=1000, le=1_000_000)] = 64_000
    allow: Annotated[list[Literal["staff", "everyone", "agents"]], Field(min_length=1)] = ["staff"]

    @property
    def secrets(self) -> set[str]:
        """The names of the secrets that the operator wrote into the file."""
        return {name for template in self._templates() for name in secrets_in(template)}

    @property
    def order(self) -> list[str]:
        """The names of the parameters in the order of arguments by position: required ones first."""
        return sorted(self.parameters, key=lambda name: not self.parameters[name].is_required)

    def task_parameters(self) -> list[inspect.Parameter]:
        """Return the parameters of the task that runs it; raises ValueError for an impossible default."""
        opening = self.opening_parameters()
        return [task_parameter(name, self.parameters[name], name in opening) for name in self.order]

    def opening_parameters(self) -> set[str]:
        """Return the parameters that an argument before `--` begins with, so that they must not begin with a dash."""
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
        for template in self._chosen(values):
            argument = fill_in(template, values, secrets)
            if not is_after_options and (problem := option_problem(template, argument)):
                raise ValueError(f"{', '.join(sorted(parameters_in(template))) or template}: {problem}")
            is_after_options = is_after_options or template == END_OF_OPTIONS
            arguments.append(argument)
        return arguments

    def variables(self, values: Mapping[str, str], secrets: Mapping[str, str] = {}) -> dict[str, str]:
        """Return the environment variables of the file, without those whose parameter is missing."""
        return {
            name: fill_in(template, values, secrets)
            for name, template in self.environment.items()
            if parameters_in(template) <= values.keys()
        }

    def standard_input(self, values: Mapping[str, str], secrets: Mapping[str, str] = {}) -> str | None:
        """Return what the program reads on its standard input; nothing if a parameter of that is missing."""
        if self.input is None or not parameters_in(self.input) <= values.keys():
            return None
        return fill_in(self.input, values, secrets)

    def _chosen(self, values: Mapping[str, str]) -> Iterator[str]:
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
            given = {name for name, parameter in self.parameters.items() if not parameter.optional}
            if isinstance(item, Condition):
                self._known(item.parameter)
                given.add(item.parameter)
            # What follows a `--` that is not always there may come before the end of options.
            is_after_here = is_after_options
            for template in [item] if isinstance(item, str) else item.arguments:
                self._check_template(template, given)
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
                self._known(name)
        self._check_multiline()
        used = {name for template in self._templates() for name in parameters_in(template)}
        used |= {item.parameter for item in self.arguments if isinstance(item, Condition)}
        if unused := sorted(self.parameters.keys() - used):
            raise ValueError(
                f"parameters: {', '.join(unused)}: not used in the arguments, the environment or the input"
            )
        return self

    def _check_multiline(self) -> None:
        """Refuse a text of several lines in an argument or a variable, where programs do not expect one."""
        elsewhere = [template for template in self._templates() if template != self.input]
        for name in sorted({name for template in elsewhere for name in parameters_in(template)}):
            if self.parameters[name].multiline:
                raise ValueError(f"parameters.{name}: a multiline parameter can only be used in the input")

    def _check_template(self, template: str, given: set[str]) -> None:
        for name in sorted(parameters_in(template)):
            self._known(name)
            if name not in given:
                raise ValueError(
                    f'arguments: {name} is optional: write {{ if = "{name}", arguments = ["{template}"] }}'
                )

    def _known(self, name: str) -> None:
        if name not in self.parameters:
            raise ValueError(
                f"there is no parameter {name!r}; write {{{{{name}}}}} for the text {{{name}}} itself"
            )


def parse(text: str) -> dict[str, Command]:
    """Return the commands of a file by name, or raise CommandsFileError with every problem."""
    if len(text.encode()) > LONGEST_FILE:
        raise CommandsFileError(TOO_LARGE)
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        raise CommandsFileError(f"This is not TOML: {error}", line) from error
    commands: dict[str, Command] = {}
    problems: dict[str, int | None] = {}
    for name, table in tables.items():
        if not NAME.fullmatch(name):
            words = f"{name!r} is not a name: use a letter first, then letters, digits, _, . and -"
            problems[words] = line_of(text, [name])
            continue
        try:
            commands[name] = Command.model_validate(table)
        except ValidationError as error:
            for detail in error.errors():
                problems[_words(name, detail)] = line_of(text, [name, *map(str, detail["loc"])])
    if problems:
        (first, place), *others = problems.items()
        more = [f"line {number}: {words}" if number else words for words, number in others]
        raise CommandsFileError("; ".join([first, *more]), place)
    return commands


_HEADER = re.compile(r"\s*\[[^\[\]]+\]\s*(?:#.*)?")
_KEY = re.compile(r"""\s*(?P<key>[\w"'.\s-]+?)\s*=""")


def line_of(text: str, places: Sequence[str]) -> int | None:
    """Return the number of the line that a value stands on, or else of the table or list that it belongs to."""
    table: list[str] = []
    best, number_of_best = 0, None
    for number, line in enumerate(text.splitlines(), 1):
        if _HEADER.fullmatch(line):
            table = path = _keys(line)
        elif found := _KEY.match(line):
            path = [*table, *_keys(f"{found['key']} = 0")]
        else:
            continue
        if best < len(path) and path == list(places[: len(path)]):
            best, number_of_best = len(path), number
    return number_of_best


def _keys(line: str) -> list[str]:
    """Return the path that a line of TOML names; a line within a text of several lines may name none."""
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return []
    keys = []
    while isinstance(found, dict) and found:
        key, found = next(iter(found.items()))
        keys.append(key)
    return keys


# The names of types that Pydantic puts into a place where a value may be of several.
_NOISE = re.compile(r"^(str|int|float|bool|Condition|function-.*|constrained-.*)$")


def _words(name: str, detail: ErrorDetails) -> str:
    places = [str(part) for part in detail["loc"] if not _NOISE.match(str(part))]
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        message = "unknown key"
    return f"{'.'.join([name, *places])}: {message[:1].lower()}{message[1:]}"
