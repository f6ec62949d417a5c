"""Parsing operator's files: convert TOML tables to Pydantic models, and report every problem with its line."""

import re
import tomllib
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from schedules import limits
from schedules.secrets.references import problem_in
from schedules.tasks.registry import NAME
from schedules.when.phrases import PhraseError, parse_delay

Model = TypeVar("Model", bound=BaseModel)

LONGEST_FILE = 1_000_000
TOO_LARGE = f"The file is larger than {LONGEST_FILE:,} bytes."


class OperatorFileError(Exception):
    """The file cannot be used; the message says what is wrong and where."""

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


def without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("remove the NUL character")
    if problem := problem_in(text):
        raise ValueError(problem)
    return text


def absolute(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("give the whole path, from / on")
    return text


Template = Annotated[str, Field(max_length=32_768), AfterValidator(without_nul)]
Timeout = Annotated[timedelta, BeforeValidator(_duration)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


def parse_tables(text: str, model: type[Model]) -> dict[str, Model]:
    """Return the tables of a file by name; raises OperatorFileError with every problem."""
    if len(text.encode()) > LONGEST_FILE:
        raise OperatorFileError(TOO_LARGE)
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line_number = re.search(r"at line (\d+)", str(error))
        line = int(line_number[1]) if line_number else text.rstrip().count("\n") + 1
        raise OperatorFileError(f"This is not TOML: {error}", line) from error
    entries: dict[str, Model] = {}
    problems: dict[str, int | None] = {}
    for name, table in tables.items():
        if not NAME.fullmatch(name):
            problem = f"{name!r} is not a name: use a letter first, then letters, digits, _, . and -"
            problems[problem] = line_of(text, [name])
            continue
        try:
            entries[name] = model.model_validate(table)
        except ValidationError as error:
            for detail in error.errors():
                problems[_message(name, detail)] = line_of(text, [name, *map(str, detail["loc"])])
    if problems:
        (first, first_line), *others = problems.items()
        more = [f"line {number}: {problem}" if number else problem for problem, number in others]
        raise OperatorFileError("; ".join([first, *more]), first_line)
    return entries


_HEADER = re.compile(r"\s*\[[^\[\]]+\]\s*(?:#.*)?")
_KEY = re.compile(r"""\s*(?P<key>[\w"'.\s-]+?)\s*=""")


def line_of(text: str, keys: Sequence[str]) -> int | None:
    """Return the line number of a value, or else of the innermost table or list around it that can be found."""
    table: list[str] = []
    best_length, best_number = 0, None
    for number, line in enumerate(text.splitlines(), 1):
        if _HEADER.fullmatch(line):
            table = path = _keys(line)
        elif assignment := _KEY.match(line):
            path = [*table, *_keys(f"{assignment['key']} = 0")]
        else:
            continue
        if best_length < len(path) and path == list(keys[: len(path)]):
            best_length, best_number = len(path), number
    return best_number


def _keys(line: str) -> list[str]:
    """Return the keys that a line of TOML names; a line inside a multi-line text may not be valid TOML."""
    try:
        parsed: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return []
    keys = []
    while isinstance(parsed, dict) and parsed:
        key, parsed = next(iter(parsed.items()))
        keys.append(key)
    return keys


# Names of types, which Pydantic adds to the location if a value may have several types.
_TYPE_NAME = re.compile(r"^(str|int|float|bool|Condition|function-.*|constrained-.*)$")


def _message(name: str, detail: ErrorDetails) -> str:
    keys = [str(part) for part in detail["loc"] if not _TYPE_NAME.match(str(part))]
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        message = "unknown key"
    return f"{'.'.join([name, *keys])}: {message[:1].lower()}{message[1:]}"
